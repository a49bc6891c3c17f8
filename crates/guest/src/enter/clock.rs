//! Clocks: those that begin at the sandbox's own start, so that the host's uptime is not seen, and the one of files.

use rustix::fs::{Mode, fchmod, fstat};
use rustix::thread::UnshareFlags;
use rustix::time::{ClockId, clock_gettime};
use std::os::fd::OwnedFd;

/// Holds for processes started afterwards; the agent itself keeps the host's clocks.
pub fn start_at_zero() -> std::io::Result<()> {
    // SAFETY: a new time namespace shares nothing with other threads, and this process has only one.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWTIME) }?;
    let offset = |clock: ClockId| {
        let now = clock_gettime(clock);
        // The kernel takes seconds and a positive rest.
        format!("{} {}", -now.tv_sec - 1, 1_000_000_000 - now.tv_nsec)
    };
    let offsets =
        format!("monotonic {}\nboottime {}\n", offset(ClockId::Monotonic), offset(ClockId::Boottime));
    std::fs::write("/proc/self/timens_offsets", offsets)
}

/// A moment by the clock that stamps files, in nanoseconds: what was changed before it has a smaller stamp or the same,
/// what is changed after it a larger one. No clock that can be read is that one, so a directory is touched.
pub fn file_time(directory: &OwnedFd) -> rustix::io::Result<u64> {
    let touch = || -> rustix::io::Result<u64> {
        fchmod(directory, Mode::from_raw_mode(fstat(directory)?.st_mode & 0o7777))?;
        let found = fstat(directory)?;
        Ok(found.st_ctime as u64 * 1_000_000_000 + found.st_ctime_nsec as u64)
    };
    // To have looked at the first stamp makes the second one exact, on kernels that can; all later ones are at least
    // that. On others a stamp is as coarse as the kernel's tick, and what falls into this one counts as before.
    let (coarse, exact) = (touch()?, touch()?);
    Ok(if exact > coarse { exact - 1 } else { exact })
}
