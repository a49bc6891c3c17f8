//! A guest whose user and pid namespaces nest in those of a sandbox around it: of a zygote, which may then be
//! forked into it, or of a sandbox that is copied.
//!
//! Only a process in a namespace can make one below it, and only a process in a user namespace can write the maps of
//! one below it. So two processes of ours go there for a moment: the inner one is in the outer sandbox's pid namespace and
//! clones the guest, the outer one knows the guest by the host's number and gives it its ids. Both share the engine's
//! memory and descriptors, and the engine's thread stands still meanwhile: they make system calls only.

use super::child::Child;
use super::launch::{Launched, Preparation, become_guest, exhausted_at_clone};
use super::slot;
use super::user_namespace::{Line, map_text};
use crate::error::{CreateError, HostStep};
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, PoisonError};

/// The namespaces of a sandbox that others nest in.
pub struct Within {
    /// Its guest, by pid on the host, and the guest's start time.
    pub guest: (u32, u64),
    user: OwnedFd,
    pid: OwnedFd,
    /// The owner of the namespaces that are made below, by its id in there. It has every right over them.
    owner: u32,
    /// True if the limits on namespaces must be raised first.
    is_closed: bool,
}

impl Within {
    /// Precondition: the process is alive, and surely the one that is meant.
    pub fn of(guest: u32) -> Result<Within> {
        Within::owned(guest, 0, false)
    }

    /// The namespaces of a sandbox out of which a process is copied. The copy can enter another user namespace only if
    /// it owns that one: so the id of the work has to be the owner.
    pub fn of_a_source(guest: u32, work: u32) -> Result<Within> {
        Within::owned(guest, work, true)
    }

    fn owned(guest: u32, owner: u32, is_closed: bool) -> Result<Within> {
        let open = |name: &str| File::open(format!("/proc/{guest}/ns/{name}")).map(OwnedFd::from);
        let started = slot::start_time(guest).ok_or(ErrorKind::NotFound)?;
        let (user, pid) = (open("user")?, open("pid")?);
        Ok(Within { guest: (guest, started), user, pid, owner, is_closed })
    }
}

/// The memory that the two processes share.
struct Middle {
    user: RawFd,
    pid: RawFd,
    owner: u32,
    is_closed: bool,
    inner_stack: *mut libc::c_void,
    /// The inner process; the engine is its parent.
    inner: i32,
    guest_program: *mut libc::c_void,
    guest_stack: *mut libc::c_void,
    users: Vec<u8>,
    groups: Vec<u8>,
    /// The guest's pid on the host.
    guest: i32,
    guest_descriptor: RawFd,
    failed_step: i32,
    errno: i32,
}

const STACK: usize = 32 * 1024;
const MOST_TIMES_UNSEEN: u32 = 1000;
/// Held while the maps are written: the mark on the engine's memory is one for the whole process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
const CLONE_GUEST: &str = "clone into new namespaces";
const STEPS: [&str; 9] = [
    "enter the outer sandbox's pid namespace",
    "enter the outer sandbox's user namespace",
    "become its root",
    "clone into the outer sandbox's pid namespace",
    CLONE_GUEST,
    "find the guest's number",
    "write the user map",
    "write the group map",
    "become the owner of the namespaces",
];

/// The limits on namespaces, which a sandbox sets to zero for its own work. The work's filter and ids still permit
/// none.
const NAMESPACE_BOUNDS: [&std::ffi::CStr; 7] = [
    c"/proc/sys/user/max_user_namespaces",
    c"/proc/sys/user/max_mnt_namespaces",
    c"/proc/sys/user/max_pid_namespaces",
    c"/proc/sys/user/max_net_namespaces",
    c"/proc/sys/user/max_ipc_namespaces",
    c"/proc/sys/user/max_uts_namespaces",
    c"/proc/sys/user/max_cgroup_namespaces",
];
/// As text, because it is written where nothing may be allocated.
const TWICE_ALL_SLOTS: &[u8] = b"73726";
/// The limits that count for everything that nests. The nested sandboxes have limits of their own.
const WATCHER_BOUNDS: [(&std::ffi::CStr, &[u8]); 2] = [
    (c"/proc/sys/user/max_inotify_instances", b"65536"),
    (c"/proc/sys/user/max_inotify_watches", b"16777216"),
];

/// Precondition: in the user namespace that is meant. Not every kernel has each of them. Allocates nothing.
fn open_bounds() {
    let bounds = NAMESPACE_BOUNDS.iter().map(|path| (*path, TWICE_ALL_SLOTS)).chain(WATCHER_BOUNDS);
    for (path, value) in bounds {
        // SAFETY: the path ends with a NUL, the value lives across the call.
        unsafe {
            let file = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
            if file >= 0 {
                libc::write(file, value.as_ptr().cast(), value.len());
                libc::close(file);
            }
        }
    }
}

/// As [`super::launch::launch`], with its ids written.
pub fn launch(
    guest: &File,
    own_network: bool,
    within: &Within,
    users: &[Line],
    groups: &[Line],
) -> std::result::Result<Launched, CreateError> {
    let Preparation { mut shared, stream, gate, held } = Preparation::new(guest, own_network)?;
    let mut middle = Middle {
        user: within.user.as_raw_fd(),
        pid: within.pid.as_raw_fd(),
        owner: within.owner,
        is_closed: within.is_closed,
        inner_stack: std::ptr::null_mut(),
        inner: 0,
        guest_program: shared.program(),
        guest_stack: shared.stack_top(),
        users: map_text(users).into_bytes(),
        groups: map_text(groups).into_bytes(),
        guest: 0,
        guest_descriptor: -1,
        failed_step: -1,
        errno: 0,
    };
    let mut stack = vec![0u8; 2 * STACK].into_boxed_slice();
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let flags = libc::CLONE_VM | libc::CLONE_FILES | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: each stack grows down from its end, cut to the alignment that the processor wants; they, `middle` and what
    // that points to outlive both processes, because CLONE_VFORK returns only after their end. They make system calls
    // only. What is read and set marks whether this process may be traced by others of its id.
    let waited = unsafe {
        let end = stack.as_mut_ptr().add(2 * STACK);
        let top = end.sub(end.addr() % 16).cast::<libc::c_void>();
        middle.inner_stack = top.byte_sub(STACK);
        let traceable = libc::prctl(libc::PR_GET_DUMPABLE, 0, 0, 0, 0);
        let process = libc::clone(in_the_middle, top, flags, (&raw mut middle).cast());
        let error = Error::last_os_error();
        let mut status = 0;
        let waited = if process > 0 { libc::waitpid(process, &raw mut status, libc::__WALL) } else { -1 };
        if middle.inner > 0 {
            libc::waitpid(middle.inner, &raw mut status, libc::__WALL);
        }
        libc::prctl(libc::PR_SET_DUMPABLE, i32::from(traceable == 1), 0, 0, 0);
        if waited == process { Ok(()) } else { Err(error) }
    };
    drop((guard, held));
    waited.host(|| "clone into the outer sandbox".into())?;
    let failed = usize::try_from(middle.failed_step).ok().and_then(|step| STEPS.get(step));
    // SAFETY: the kernel stored a descriptor that nobody else owns.
    let descriptor =
        (middle.guest_descriptor >= 0).then(|| unsafe { OwnedFd::from_raw_fd(middle.guest_descriptor) });
    // Killed and collected when dropped.
    let process = descriptor.map(|descriptor| Child::new(descriptor, Some(shared)));
    match (process, failed) {
        (Some(process), None) => Ok(Launched { pid: middle.guest as u32, process, stream, gate }),
        (_, Some(&CLONE_GUEST)) if middle.errno == libc::ENOSPC => {
            Err(exhausted_at_clone().refused(Error::from_raw_os_error(middle.errno)))
        }
        (_, step) => Err(CreateError::Host {
            step: step.copied().unwrap_or("clone into the outer sandbox").into(),
            source: Error::from_raw_os_error(middle.errno),
        }),
    }
}

extern "C" fn in_the_middle(middle: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `launch` passed a `Middle` that outlives this process, and nobody else looks at it meanwhile.
    let middle = unsafe { &mut *middle.cast::<Middle>() };
    if let Err(step) = middle.make_guest() {
        middle.fail(step);
    }
    // SAFETY: ends this process at once, without the exit handlers of the memory it shares.
    unsafe { libc::_exit(0) }
}

extern "C" fn in_the_outer_sandbox(middle: *mut libc::c_void) -> libc::c_int {
    // SAFETY: as above; the process that made this one stands still until this one ends.
    let middle = unsafe { &mut *middle.cast::<Middle>() };
    if let Err(step) = middle.clone_guest() {
        middle.fail(step);
    }
    // SAFETY: as above.
    unsafe { libc::_exit(0) }
}

/// The place in [`STEPS`] of the step that failed, with errno as it was.
type Stepped = std::result::Result<(), i32>;

fn checked(result: libc::c_long, step: i32) -> Stepped {
    if result < 0 { Err(step) } else { Ok(()) }
}

impl Middle {
    fn fail(&mut self, step: i32) {
        self.failed_step = step;
        self.errno = Error::last_os_error().raw_os_error().unwrap_or(0);
    }

    fn make_guest(&mut self) -> Stepped {
        let flags =
            libc::CLONE_VM | libc::CLONE_FILES | libc::CLONE_VFORK | libc::CLONE_PARENT | libc::SIGCHLD;
        let this = std::ptr::from_mut(self).cast::<libc::c_void>();
        // SAFETY: system calls on descriptors that outlive them. The inner process has a stack of its own, and ends
        // before this one goes on.
        unsafe {
            checked(libc::syscall(libc::SYS_setns, self.pid, libc::CLONE_NEWPID), 0)?;
            self.inner = libc::clone(in_the_outer_sandbox, self.inner_stack, flags, this);
        }
        checked(self.inner.into(), 3)?;
        if self.failed_step >= 0 {
            return Ok(());
        }
        self.guest = number_of(self.guest_descriptor).ok_or(5)?;
        self.enter_user_namespace()?;
        write_map_seen(self.guest, b"uid_map", &self.users).map_err(|()| 6)?;
        write_map_seen(self.guest, b"gid_map", &self.groups).map_err(|()| 7)
    }

    fn clone_guest(&mut self) -> Stepped {
        self.enter_user_namespace()?;
        if self.is_closed {
            open_bounds();
        }
        if self.owner != 0 {
            // SAFETY: system calls that take numbers. An id that is not root's makes a process unseen again.
            unsafe {
                checked(libc::syscall(libc::SYS_setresuid, self.owner, self.owner, self.owner), 8)?;
                libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0);
            }
        }
        let flags = libc::CLONE_NEWUSER
            | libc::CLONE_NEWPID
            | libc::CLONE_VM
            | libc::CLONE_PARENT
            | libc::CLONE_PIDFD
            | libc::SIGCHLD;
        let descriptor = &raw mut self.guest_descriptor;
        // SAFETY: the guest gets a stack and a program of its own, which live until it has executed.
        let cloned =
            unsafe { libc::clone(become_guest, self.guest_stack, flags, self.guest_program, descriptor) };
        checked(cloned.into(), 4)
    }

    /// By the system calls and not by the library, which would set the ids of the engine's threads.
    fn enter_user_namespace(&self) -> Stepped {
        // SAFETY: system calls that take numbers, and a list of none.
        unsafe {
            checked(libc::syscall(libc::SYS_setns, self.user, libc::CLONE_NEWUSER), 1)?;
            checked(libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<u32>()), 2)?;
            checked(libc::syscall(libc::SYS_setresgid, 0, 0, 0), 2)?;
            checked(libc::syscall(libc::SYS_setresuid, 0, 0, 0), 2)?;
            // The files of a process whose memory is not to be looked at are the host root's, which we are no more.
            libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0);
        }
        Ok(())
    }
}

/// The number, here, of the process that a descriptor stands for. Allocates nothing.
fn number_of(descriptor: RawFd) -> Option<i32> {
    let mut path = Path::default();
    path.add(b"/proc/thread-self/fdinfo/").add_number(descriptor);
    let mut text = [0u8; 512];
    // SAFETY: the path ends with a NUL; the buffer lives across the call.
    let count = unsafe {
        let file = libc::open(path.0.as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC);
        let count = libc::read(file, text.as_mut_ptr().cast(), text.len());
        libc::close(file);
        usize::try_from(count).ok()?
    };
    let label = b"Pid:\t";
    let start = text[..count].windows(label.len()).position(|window| window == label)? + label.len();
    let digits = text[start..count].iter().take_while(|byte| byte.is_ascii_digit());
    let number =
        digits.fold(0i32, |number, digit| number.wrapping_mul(10).wrapping_add((digit - b'0').into()));
    (number > 0).then_some(number)
}

/// A short path, in place.
struct Path([u8; 64], usize);

impl Default for Path {
    fn default() -> Path {
        Path([0; 64], 0)
    }
}

impl Path {
    /// A piece that does not fit is left out: the path then names nothing, and always ends with a NUL.
    fn add(&mut self, piece: &[u8]) -> &mut Path {
        if self.1 + piece.len() < self.0.len() {
            self.0[self.1..self.1 + piece.len()].copy_from_slice(piece);
            self.1 += piece.len();
        }
        self
    }

    fn add_number(&mut self, number: i32) -> &mut Path {
        let mut digits = [0u8; 12];
        let mut first = digits.len();
        let mut rest = number.unsigned_abs();
        loop {
            first -= 1;
            digits[first] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                return self.add(&digits[first..]);
            }
        }
    }
}

/// A thread of the engine that takes other ids meanwhile marks the shared memory as not dumpable. The guest's files in
/// /proc then belong to the host's root, so that mark is taken away again.
fn write_map_seen(pid: i32, name: &[u8], text: &[u8]) -> std::result::Result<(), ()> {
    for _ in 0..MOST_TIMES_UNSEEN {
        match write_map(pid, name, text) {
            // SAFETY: errno is this thread's; a call that takes numbers.
            Err(()) if unsafe { *libc::__errno_location() } == libc::EACCES => unsafe {
                libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0);
            },
            written => return written,
        }
    }
    Err(())
}

/// Allocates nothing.
fn write_map(pid: i32, name: &[u8], text: &[u8]) -> std::result::Result<(), ()> {
    let mut path = Path::default();
    path.add(b"/proc/").add_number(pid).add(b"/").add(name);
    // SAFETY: the path ends with a NUL; the text lives across the call, and errno is this thread's.
    unsafe {
        let file = libc::open(path.0.as_ptr().cast(), libc::O_WRONLY | libc::O_CLOEXEC);
        if file < 0 {
            return Err(());
        }
        let written = libc::write(file, text.as_ptr().cast(), text.len());
        let errno = *libc::__errno_location();
        libc::close(file);
        *libc::__errno_location() = errno;
        if written == text.len() as isize { Ok(()) } else { Err(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_found_by_its_descriptor() {
        let own = rustix::process::getpid();
        let descriptor =
            rustix::process::pidfd_open(own, rustix::process::PidfdFlags::empty()).expect("a descriptor");
        assert_eq!(number_of(descriptor.as_raw_fd()), Some(own.as_raw_nonzero().get()));
        assert_eq!(number_of(99_999), None);
    }

    #[test]
    fn all_slots_fit_into_what_nests() {
        assert_eq!(TWICE_ALL_SLOTS, (2 * slot::SLOTS).to_string().as_bytes());
    }

    #[test]
    fn a_path_is_put_together_in_place() {
        let mut path = Path::default();
        path.add(b"/proc/").add_number(0).add(b"/").add_number(123_456);
        assert_eq!(&path.0[..path.1], b"/proc/0/123456");
        path.add(&[b'x'; 64]);
        assert_eq!(path.0[path.1], 0);
    }
}
