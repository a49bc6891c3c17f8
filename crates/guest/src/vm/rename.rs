//! New names for a sandbox that begins with memory of another: they lie in files, which only its own mount namespace leads to.

use crate::failure::{During, Failure, Outcome};
use paddock_protocol::Names;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, fstat, openat, statat};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount_remount};
use rustix::process::{Pid, WaitOptions, waitpid};
use rustix::time::{ClockId, Timespec, clock_gettime, clock_settime};
use std::os::fd::{AsRawFd, OwnedFd};

const MACHINE_ID: &str = "/etc/machine-id";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// As the guest mounts it, but not read-only.
const LIMITS: MountFlags = MountFlags::BIND.union(MountFlags::NOSUID).union(MountFlags::NOEXEC);

/// Precondition: the only work in the sandbox of `guest` is a program that waits for its first message.
pub fn rename(guest: Pid, names: &Names) -> Outcome<()> {
    let path = format!("/proc/{}/ns/mnt", guest.as_raw_nonzero());
    let place = openat(CWD, path.as_str(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .during(|| format!("open {path}"))?;
    // SAFETY: this process has one thread; with no stack given the child runs on a copy of its memory, as after fork.
    let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
    if child == 0 {
        let code = write_names(&place, names).err().map_or(0, |errno| errno.raw_os_error());
        // SAFETY: takes a plain integer and does not return.
        unsafe { libc::_exit(code) }
    }
    let child = i32::try_from(child).ok().and_then(|child| Pid::from_raw(child.max(0)));
    let child = child.ok_or_else(crate::work::last_errno).during(|| "begin to name the sandbox".into())?;
    let step = || "name the sandbox".to_string();
    let status = loop {
        match waitpid(Some(child), WaitOptions::empty()) {
            Err(Errno::INTR) => {}
            waited => break waited.during(step)?,
        }
    };
    match status.and_then(|(_, status)| status.exit_status()) {
        Some(0) => Ok(()),
        Some(code) => Err(Failure { step: step(), errno: Errno::from_raw_os_error(code) }),
        None => Err(Failure { step: step(), errno: Errno::IO }),
    }
}

/// In the child.
fn write_names(place: &OwnedFd, names: &Names) -> rustix::io::Result<()> {
    // SAFETY: a descriptor that lives across the call; this process has one thread.
    if unsafe { libc::setns(place.as_raw_fd(), libc::CLONE_NEWNS) } != 0 {
        return Err(crate::work::last_errno());
    }
    set_clock_back()?;
    replace(MACHINE_ID, &names.machine_id)?;
    mount_remount(BOOT_ID, LIMITS, c"")?;
    let written = replace(BOOT_ID, &names.boot_id);
    mount_remount(BOOT_ID, LIMITS.union(MountFlags::RDONLY), c"")?;
    written
}

/// Sets the clock back to when the file was last written. The new content, too, belongs to the making of the VM. A VM
/// that goes on right after its memory was kept has a clock past the moment that the host takes for the end of the
/// making.
fn set_clock_back() -> rustix::io::Result<()> {
    let written = statat(CWD, MACHINE_ID, AtFlags::SYMLINK_NOFOLLOW)?;
    let now = clock_gettime(ClockId::Realtime);
    let then = Timespec { tv_sec: written.st_ctime as i64, tv_nsec: written.st_ctime_nsec as i64 };
    if (then.tv_sec, then.tv_nsec) < (now.tv_sec, now.tv_nsec) {
        clock_settime(ClockId::Realtime, then)
    } else {
        Ok(())
    }
}

/// A link or pipe that a template's own code put in its place is not followed, and not waited for.
fn replace(path: &str, content: &[u8]) -> rustix::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(CWD, path, flags, Mode::empty())?;
    if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
        return Err(Errno::INVAL);
    }
    rustix::fs::ftruncate(&file, 0)?;
    match rustix::io::write(&file, content)? {
        count if count == content.len() => Ok(()),
        _ => Err(Errno::IO),
    }
}
