//! System calls that rustix does not wrap. Each returns the kernel's error number.

use crate::weaken::without;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, Result};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

fn check(result: libc::c_long) -> Result<libc::c_long> {
    if result < 0 {
        let errno = std::io::Error::last_os_error();
        return Err(Errno::from_io_error(&errno).unwrap_or(Errno::IO));
    }
    Ok(result)
}

/// Attributes to add to a mount. They are only ever added: inside a user namespace the kernel refuses to clear those of
/// the source mount. Set-user-id files have no effect in any mount.
#[derive(Clone, Copy)]
pub struct MountLimits {
    pub read_only: bool,
    pub no_exec: bool,
    pub no_devices: bool,
    pub recursive: bool,
}

impl MountLimits {
    /// For directories of the host, with everything mounted below them.
    pub fn host(read_only: bool, allow_exec: bool) -> MountLimits {
        MountLimits { read_only, no_exec: !allow_exec, no_devices: true, recursive: true }
    }
}

pub fn limit_mount(tree: BorrowedFd<'_>, limits: MountLimits) -> Result<()> {
    let flag = |wanted: bool, attribute: u64| if wanted { attribute } else { 0 };
    let set = libc::MOUNT_ATTR_NOSUID
        | flag(limits.read_only, libc::MOUNT_ATTR_RDONLY)
        | flag(limits.no_exec, libc::MOUNT_ATTR_NOEXEC)
        | flag(limits.no_devices && !without("no-devices"), libc::MOUNT_ATTR_NODEV);
    let attributes = libc::mount_attr { attr_set: set, attr_clr: 0, propagation: 0, userns_fd: 0 };
    let recursive = if limits.recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is an empty C string, the structure lives across the call and its size is given.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | recursive,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    check(result).map(drop)
}

/// Closes every descriptor from `first` to `last`.
///
/// Precondition: nothing in this process still owns one of them.
pub fn close_range(first: i32, last: i32) -> Result<()> {
    // SAFETY: takes plain integers; ownership is the caller's promise above.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    check(result).map(drop)
}

/// Marks every descriptor above the standard three to be closed by `execve`.
pub fn close_on_exec_from(first: u32) -> Result<()> {
    // SAFETY: takes plain integers; with CLOEXEC no descriptor in use is closed.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, i32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    check(result).map(drop)
}

/// Brings the loopback interface of the current network namespace up.
pub fn raise_loopback() -> Result<()> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: ifreq is plain data for which all zeroes is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: SIOCSIFFLAGS reads one ifreq, which lives across the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    check(result.into()).map(drop)
}

/// Switches an option of a packet socket on.
pub fn set_packet_option(socket: &std::os::fd::OwnedFd, option: libc::c_int) -> Result<()> {
    let on: libc::c_int = 1;
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the value is an int of the length that is given, and lives across the call.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_PACKET, option, (&raw const on).cast(), length)
    };
    check(result.into()).map(drop)
}

/// From here on the socket receives every frame of this device and of no other.
pub fn bind_packet_socket(socket: i32, device: u32) -> Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: i32::try_from(device).map_err(|_| Errno::INVAL)?,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: a whole sockaddr_ll of the length that is given, which lives across the call.
    let result = unsafe { libc::bind(socket, (&raw const address).cast(), length) };
    check(result.into()).map(drop)
}

/// Makes this process invisible to same-id tracers and to /proc readers.
pub fn become_undumpable() -> Result<()> {
    // SAFETY: PR_SET_DUMPABLE takes plain integers.
    let result = unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
    check(result.into()).map(drop)
}

/// Gives back memory that was needed once, such as the code that built the inside. If it is needed again, it comes back
/// from the page cache.
pub fn give_memory_back() {
    unsafe extern "C" {
        static __executable_start: u8;
        static etext: u8;
    }
    const PAGE: usize = 4096;
    let (start, end) = (&raw const __executable_start as usize, &raw const etext as usize);
    let (start, end) = (start.next_multiple_of(PAGE), end / PAGE * PAGE);
    // SAFETY: the linker's own marks around the program's text, which is mapped from its file, read-only: a page that
    // is dropped is read again from there when it is next executed. malloc_trim only gives back free memory.
    unsafe {
        libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_DONTNEED);
        libc::malloc_trim(0);
    }
}

/// Empties the ambient set, where the kernel has one: one in user space may not.
pub fn clear_ambient_capabilities() -> Result<()> {
    match rustix::thread::clear_ambient_capability_set() {
        Err(Errno::INVAL) if !knows(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_IS_SET as libc::c_ulong) => {
            Ok(())
        }
        cleared => cleared,
    }
}

/// Sets the secure bits, if the kernel has them. If not, an exec as root brings back the capabilities of the bounding
/// set, so that set is emptied too.
pub fn set_secure_bits(bits: rustix::thread::CapabilitiesSecureBits) -> Result<()> {
    match rustix::thread::set_capabilities_secure_bits(bits) {
        Err(Errno::INVAL) if !knows(libc::PR_GET_SECUREBITS, 0) => Ok(()),
        set => set,
    }
}

/// True if the kernel answers a question that changes nothing.
fn knows(question: libc::c_int, argument: libc::c_ulong) -> bool {
    // SAFETY: both questions take plain integers, and answer a number.
    unsafe {
        libc::prctl(question, argument, 0 as libc::c_ulong, 0 as libc::c_ulong, 0 as libc::c_ulong) >= 0
    }
}

/// A host that has gone is an error of a write, not the end of this process.
pub fn ignore_broken_pipes() {
    // SAFETY: SIG_IGN is always a valid disposition.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// Resets the signal state that a new program would inherit: the signal mask, and every ignored signal.
pub fn reset_signals() {
    // SAFETY: plain calls on a zeroed, then initialised set, and with a zeroed action that outlives them and is no
    // smaller than the kernel's.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
        // Ignored signals stay ignored over an exec: a process that was started by nohup or in the background of a
        // shell would hand that down. By the system call, since the library keeps two signals for itself and refuses
        // them; all zeroes is the default action, whatever the layout. Signals that cannot be set are refused.
        let default = [0u64; 4];
        for signal in 1..=64 {
            libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), std::ptr::null::<u64>(), 8usize);
        }
    }
}

/// Blocks `signal` and returns a descriptor that becomes readable when it comes.
pub fn signal_descriptor(signal: i32) -> Result<std::os::fd::OwnedFd> {
    signals_descriptor(&[signal])
}

/// The same for several signals.
pub fn signals_descriptor(signals: &[i32]) -> Result<std::os::fd::OwnedFd> {
    use std::os::fd::FromRawFd;
    // SAFETY: the set is initialised by sigemptyset before use; signalfd returns a descriptor that only we own.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, *signal);
        }
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        let number = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        check(number.into())?;
        Ok(std::os::fd::OwnedFd::from_raw_fd(number))
    }
}

/// Lets a blocked signal have its effect on this process after all: it may end it, stop it, or be ignored.
pub fn deliver(signal: i32) {
    // SAFETY: the set is initialised by sigemptyset before use, and outlives the calls.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
        libc::raise(signal);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
    }
}

/// The numbers of the signals that have come to such a descriptor.
pub fn signals_of(descriptor: &OwnedFd) -> Vec<i32> {
    const RECORD: usize = size_of::<libc::signalfd_siginfo>();
    let (mut numbers, mut record) = (Vec::new(), [0; RECORD]);
    // The kernel gives whole records, each of which begins with the number.
    while rustix::io::read(descriptor, &mut record).is_ok_and(|count| count == RECORD) {
        numbers.push(i32::from_ne_bytes([record[0], record[1], record[2], record[3]]));
    }
    numbers
}

/// The Landlock ABI of this kernel; 0 where it has none.
pub fn landlock_abi() -> u32 {
    const VERSION_FLAG: u32 = 1;
    // SAFETY: with a null attribute, size 0 and the version flag the call only answers a number.
    let abi = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0usize,
            VERSION_FLAG,
        )
    };
    u32::try_from(abi).unwrap_or(0)
}

/// One step down, through no link; with `stay`, onto no other file system. For names that a stranger chose.
pub fn open_below(
    directory: impl AsFd,
    name: &[u8],
    flags: rustix::fs::OFlags,
    stay: bool,
) -> Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags, ResolveFlags, fstat, openat, openat2};
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    how.set(ResolveFlags::NO_XDEV, stay);
    let opened = openat2(&directory, name, flags, Mode::empty(), how);
    if !matches!(opened, Err(Errno::NOSYS)) {
        return opened;
    }
    // A kernel without that call: of a single name, which cannot lead up, the last part is all there is.
    if name.contains(&b'/') || name == b".." {
        return Err(Errno::XDEV);
    }
    let below = openat(&directory, name, flags, Mode::empty())?;
    let found = fstat(&below)?;
    if stay && found.st_dev != fstat(&directory)?.st_dev {
        return Err(Errno::XDEV);
    }
    Ok(below)
}

/// The next connection, if one waits; unblocked.
pub fn accept(listener: &impl AsFd) -> Result<OwnedFd> {
    use rustix::net::{SocketFlags, accept_with};
    accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)
}

/// True if one of these events, or the end of the other side, is there now.
pub fn is_ready(descriptor: &impl AsFd, wanted: PollFlags) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut polled = [PollFd::new(descriptor, wanted)];
    poll(&mut polled, Some(&now)).is_ok() && !polled[0].revents().is_empty()
}

/// The most descriptors that one message of the kernel can carry.
const MOST_DESCRIPTORS: usize = 253;

/// Reads, and collects the descriptors that came along.
pub fn receive_with_descriptors(
    stream: &std::os::fd::OwnedFd,
    buffer: &mut [u8],
    descriptors: &mut Vec<std::os::fd::OwnedFd>,
) -> Result<usize> {
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut pieces = [std::io::IoSliceMut::new(buffer)];
    let received = recvmsg(stream, &mut pieces, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(passed) = message {
            descriptors.extend(passed);
        }
    }
    Ok(received.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_step_down_and_no_other() {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir(place.path().join("below")).unwrap();
        std::os::unix::fs::symlink("below", place.path().join("link")).unwrap();
        let top = std::fs::File::open(place.path()).unwrap();
        let open = |name: &[u8]| open_below(&top, name, rustix::fs::OFlags::RDONLY, true).map(drop);
        assert_eq!((open(b"below"), open(b".")), (Ok(()), Ok(())));
        assert_eq!((open(b"link"), open(b"..")), (Err(Errno::LOOP), Err(Errno::XDEV)));
    }
}
