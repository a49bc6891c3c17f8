//! The clock by which the kernel stamps files.

use rustix::fs::{Mode, fchmod, fstat};
use std::os::fd::OwnedFd;

/// A moment by the clock that stamps files, in nanoseconds: a file changed before it has a smaller or equal stamp, a
/// file changed after it a larger one. No clock that can be read is that one, so a directory is touched.
pub fn file_time(directory: &OwnedFd) -> rustix::io::Result<u64> {
    let touch = || -> rustix::io::Result<u64> {
        fchmod(directory, Mode::from_raw_mode(fstat(directory)?.st_mode & 0o7777))?;
        let found = fstat(directory)?;
        Ok(found.st_ctime as u64 * 1_000_000_000 + found.st_ctime_nsec as u64)
    };
    // On kernels that can, reading the first stamp makes the second one exact; all later stamps are at least that. On
    // other kernels a stamp is as coarse as the kernel's tick, and changes within this tick count as before.
    let (coarse, exact) = (touch()?, touch()?);
    Ok(if exact > coarse { exact - 1 } else { exact })
}
