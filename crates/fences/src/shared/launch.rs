//! Clone into new namespaces and execute the guest there.
//!
//! Between clone and exec the child makes system calls only: it shares the engine's memory, and the engine may have
//! many threads.

use super::child::Child;
use super::user_namespace::{self, user_namespace};
use crate::error::{CreateError, HostStep};
use crate::host_limit::HostLimit;
use std::fs::File;
use std::io::{Error, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

/// Only the namespaces that cannot be entered later: the child makes the others itself, while the engine goes on.
const AT_CLONE: i32 = libc::CLONE_NEWUSER | libc::CLONE_NEWPID;
const IN_CHILD: i32 = libc::CLONE_NEWNS | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS | libc::CLONE_NEWCGROUP;
/// The namespaces that the child may make, as `/proc/sys/user/max_KIND_namespaces` names them.
const KINDS_IN_CHILD: [(i32, &str); 5] = [
    (libc::CLONE_NEWNS, "mnt"),
    (libc::CLONE_NEWIPC, "ipc"),
    (libc::CLONE_NEWUTS, "uts"),
    (libc::CLONE_NEWCGROUP, "cgroup"),
    (libc::CLONE_NEWNET, "net"),
];

/// A process in its namespaces that waits for its ids.
pub struct Launched {
    pub pid: u32,
    pub process: Child,
    pub stream: UnixStream,
    pub gate: Gate,
}

/// The child waits at this gate until its id maps are written.
pub struct Gate(std::io::PipeWriter);

impl Gate {
    pub fn open(&mut self) -> Result<()> {
        std::io::Write::write_all(&mut self.0, b"1")
    }

    /// True once the child has executed the guest, or ended: either closes its end of the pipe.
    pub fn was_passed(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let moment = Timespec { tv_sec: 1, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.0, PollFlags::empty())], Some(&moment)).is_ok_and(|events| events > 0)
    }
}

/// The guest as it is executed: built before the clone, because the child may not allocate.
struct Program {
    guest: RawFd,
    null: RawFd,
    wait: RawFd,
    /// The open files of the engine that the child needs, in order. Any other file would outlive the engine with the
    /// child: its own gate, for which it waits, those of other children, and slots.
    needed: [RawFd; 4],
    closes_others: bool,
    control: RawFd,
    control_text: [u8; 12],
    namespaces: i32,
}

pub fn launch(guest: &File, own_network: bool) -> std::result::Result<Launched, CreateError> {
    let Preparation { shared, stream, gate, held } = Preparation::new(guest, own_network)?;
    let (pid, process) = clone(AT_CLONE, shared).map_err(explain_clone)?;
    drop(held);
    Ok(Launched { pid, process, stream, gate })
}

/// The parts that are made before the clone.
pub struct Preparation {
    pub shared: Box<Shared>,
    pub stream: UnixStream,
    pub gate: Gate,
    /// The child has its own once it is there.
    pub held: [OwnedFd; 3],
}

impl Preparation {
    pub fn new(guest: &File, own_network: bool) -> std::result::Result<Preparation, CreateError> {
        let (stream, inside) = UnixStream::pair().host(|| "make a socket pair".into())?;
        let (wait, go) = std::io::pipe().host(|| "make a pipe".into())?;
        let null = File::options().read(true).write(true).open("/dev/null");
        let null = null.host(|| "open /dev/null".into())?;
        let mut needed = [guest.as_raw_fd(), null.as_raw_fd(), wait.as_raw_fd(), inside.as_raw_fd()];
        needed.sort_unstable();
        let program = Program {
            guest: guest.as_raw_fd(),
            null: null.as_raw_fd(),
            wait: wait.as_raw_fd(),
            needed,
            closes_others: !super::weaken::without("descriptors"),
            control: inside.as_raw_fd(),
            control_text: decimal(inside.as_raw_fd()),
            namespaces: IN_CHILD | if own_network { libc::CLONE_NEWNET } else { 0 },
        };
        #[cfg(feature = "weaken")]
        let program = {
            super::weaken::environment();
            Program { namespaces: super::weaken::namespaces(program.namespaces), ..program }
        };
        let shared = Box::new(Shared { program, stack: vec![0; STACK].into_boxed_slice() });
        Ok(Preparation { shared, stream, gate: Gate(go), held: [inside.into(), wait.into(), null.into()] })
    }
}

fn explain_clone(error: Error) -> CreateError {
    match error.raw_os_error() {
        Some(libc::ENOSPC) if !user_namespace::forbids_user_namespaces() => {
            exhausted_at_clone().refused(error)
        }
        Some(libc::EPERM | libc::EACCES | libc::ENOSPC | libc::EINVAL) => {
            user_namespace::no_user_namespaces(&error)
        }
        _ => CreateError::Host { step: "clone into new namespaces".into(), source: error },
    }
}

/// The limit that a clone met. The kernel does not say which of the two kinds it was: a user namespace alone tells.
///
/// Precondition: the clone said ENOSPC.
pub fn exhausted_at_clone() -> HostLimit {
    let alone = user_namespace(&[], &[]);
    let no_more = |error: Error| error.raw_os_error() == Some(libc::ENOSPC);
    HostLimit::Namespaces(if alone.is_err_and(no_more) { "user" } else { "pid" })
}

/// The child shares our memory until it executes the guest: no copy of it is made, and none is paid for by the
/// first writes afterwards. It has a stack of its own, reads only what `program` holds, and writes nothing else.
fn clone(flags: i32, mut shared: Box<Shared>) -> Result<(u32, Child)> {
    let mut pidfd: RawFd = -1;
    let flags = flags | libc::CLONE_VM | libc::CLONE_PIDFD | libc::SIGCHLD;
    let (top, argument) = (shared.stack_top(), shared.program());
    // SAFETY: stack and program live in `shared`, which the returned `Child` keeps until the process has been
    // collected. `pidfd` is where the kernel stores the descriptor.
    let pid = unsafe { libc::clone(become_guest, top, flags, argument, &raw mut pidfd) };
    if pid < 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: the kernel stored a descriptor that nobody else owns.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok((pid as u32, Child::new(pidfd, Some(shared))))
}

/// The part of our memory that a child uses before it executes.
pub struct Shared {
    program: Program,
    stack: Box<[u8]>,
}

impl Shared {
    /// The argument of [`become_guest`], valid for as long as this lives where it is.
    pub fn program(&self) -> *mut libc::c_void {
        std::ptr::from_ref::<Program>(&self.program).cast_mut().cast()
    }

    /// A stack grows down from its end, cut to the alignment that the processor wants.
    pub fn stack_top(&mut self) -> *mut libc::c_void {
        let end = self.stack.as_mut_ptr_range().end;
        end.wrapping_sub(end.addr() % 16).cast()
    }
}

const STACK: usize = 32 * 1024;

/// Capabilities that the guest needs to build the inside. They count in the new user namespace only.
const NEEDED: [u32; 15] = [
    0,  // CHOWN
    1,  // DAC_OVERRIDE
    3,  // FOWNER
    4,  // FSETID
    5,  // KILL
    6,  // SETGID
    7,  // SETUID
    8,  // SETPCAP
    12, // NET_ADMIN: loopback, and its link
    13, // NET_RAW: the far end of its link
    18, // SYS_CHROOT: to its root below the anchor
    19, // SYS_PTRACE: to see the work in /proc
    21, // SYS_ADMIN: mounts
    24, // SYS_RESOURCE: bounds on further namespaces
    25, // SYS_TIME: clocks of its own
];

#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct CapabilityData {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Exit codes of a child that never became the guest.
const NO_NAMESPACES: i32 = 90;
const GIVEN_UP: i32 = 91;
const NOT_EXECUTED: i32 = 92;
/// And from here on, one for each of [`KINDS_IN_CHILD`] of which the host allows no more. 101 is that of a panic.
const EXHAUSTED: i32 = 80;

/// In the child, up to exec.
pub extern "C" fn become_guest(program: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `clone` passed a program that outlives this process. Only system calls, on descriptors that were made
    // before: nothing here allocates, takes a lock or writes to the shared memory but its own stack (and, where a
    // call fails, the engine's errno, after which the engine hears of the failure by other means).
    unsafe {
        let program = &*program.cast::<Program>();
        if program.closes_others {
            close_others(&program.needed);
        }
        // First, so that a Ctrl-C at the terminal is for the engine alone.
        libc::setsid();
        if let Err(errno) = unshare(program.namespaces) {
            libc::_exit(why_no_namespaces(program.namespaces, errno));
        }
        let mut go = 0u8;
        if libc::read(program.wait, (&raw mut go).cast(), 1) != 1 {
            // The engine gave up before it wrote the maps.
            libc::_exit(GIVEN_UP);
        }
        for stream in 0..3 {
            libc::dup2(program.null, stream);
        }
        inherit_capabilities();
        libc::fcntl(program.control, libc::F_SETFD, 0);
        let argv = [c"paddock-guest".as_ptr(), program.control_text.as_ptr().cast(), std::ptr::null()];
        #[cfg(not(feature = "weaken"))]
        let env = [std::ptr::null::<libc::c_char>()];
        #[cfg(feature = "weaken")]
        let env = super::weaken::environment();
        libc::syscall(
            libc::SYS_execveat,
            program.guest,
            c"".as_ptr(),
            argv.as_ptr(),
            env.as_ptr(),
            libc::AT_EMPTY_PATH,
        );
        libc::_exit(NOT_EXECUTED);
    }
}

/// By the system call and not by the library, whose errno is the engine's as well here.
///
/// # Safety
/// For use between clone and exec, by a process whose descriptors and file system are its own.
unsafe fn unshare(namespaces: i32) -> rustix::io::Result<()> {
    use rustix::thread::{UnshareFlags, unshare_unsafe};
    // SAFETY: namespaces only, as the caller's; no descriptor and no memory is parted with.
    unsafe { unshare_unsafe(UnshareFlags::from_bits_retain(namespaces as u32)) }
}

/// The exit code that tells which kind of namespace has run out. The kernel refuses them together without saying which,
/// so they are tried one by one.
///
/// # Safety
/// As [`unshare`].
unsafe fn why_no_namespaces(wanted: i32, errno: rustix::io::Errno) -> i32 {
    if errno != rustix::io::Errno::NOSPC {
        return NO_NAMESPACES;
    }
    for (place, (kind, _)) in KINDS_IN_CHILD.iter().enumerate() {
        // SAFETY: as the caller's.
        if wanted & kind != 0 && unsafe { unshare(*kind) } == Err(rustix::io::Errno::NOSPC) {
            return EXHAUSTED + place as i32;
        }
    }
    NO_NAMESPACES
}

/// # Safety
/// Makes system calls only; for use between clone and exec.
unsafe fn close_others(needed: &[RawFd; 4]) {
    let mut first = libc::STDERR_FILENO + 1;
    for last in needed.iter().copied().chain([RawFd::MAX]) {
        if first < last {
            // SAFETY: the table of descriptors is this process's own copy, and these are not used.
            unsafe { libc::syscall(libc::SYS_close_range, first, last - 1, 0) };
        }
        first = first.max(last.saturating_add(1));
    }
}

/// Ambient, because the child's id is not 0 in its namespace and exec would drop everything.
///
/// # Safety
/// Makes system calls only; for use between clone and exec.
unsafe fn inherit_capabilities() {
    const VERSION_3: u32 = 0x2008_0522;
    const ALL: u32 = u32::MAX;
    let header = CapabilityHeader { version: VERSION_3, pid: 0 };
    let mut data = [CapabilityData { effective: 0, permitted: 0, inheritable: 0 }; 2];
    // SAFETY: header and data have the layout of version 3 and live across the calls.
    unsafe {
        libc::syscall(libc::SYS_capget, &raw const header, data.as_mut_ptr());
        for half in &mut data {
            half.inheritable = half.permitted & ALL;
        }
        libc::syscall(libc::SYS_capset, &raw const header, data.as_ptr());
        for capability in NEEDED {
            libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_RAISE, capability as libc::c_ulong, 0, 0);
        }
    }
}

/// A descriptor's number as a C string.
fn decimal(number: RawFd) -> [u8; 12] {
    let mut text = [0; 12];
    for (slot, byte) in text.iter_mut().zip(number.to_string().bytes().take(11)) {
        *slot = byte;
    }
    text
}

/// Why the child ended before it became the guest, if it did.
pub fn why_not_started(child: &mut Child) -> Option<CreateError> {
    match child.exit_code()? {
        NO_NAMESPACES => Some(user_namespace::no_user_namespaces(&Error::from_raw_os_error(libc::EPERM))),
        code @ EXHAUSTED..NO_NAMESPACES => {
            let (_, kind) = KINDS_IN_CHILD.get(usize::try_from(code - EXHAUSTED).ok()?)?;
            Some(HostLimit::Namespaces(kind).refused(Error::from_raw_os_error(libc::ENOSPC)))
        }
        NOT_EXECUTED => Some(CreateError::Guest {
            reason: "it could not be executed; is the state directory on a file system mounted noexec?"
                .into(),
        }),
        _ => None,
    }
}
