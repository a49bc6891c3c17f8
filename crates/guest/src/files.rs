//! File operations that the host asks for. They happen here, inside, so that no path from inside is ever
//! resolved by the host.

use rustix::fs::{Gid, Mode, OFlags, Uid, fchown, open};
use rustix::io::{Errno, Result};

/// Creates `path`, or appends to it, for the work's user. Never follows a link in the last place.
pub fn write_file(path: &str, mode: u32, append: bool, content: &[u8], owner: (u32, u32)) -> Result<()> {
    if !path.starts_with('/') || path.contains('\0') {
        return Err(Errno::INVAL);
    }
    let how = if append { OFlags::APPEND } else { OFlags::CREATE | OFlags::EXCL };
    let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | how;
    let file = open(path, flags, Mode::from_raw_mode(mode))?;
    if !append {
        fchown(&file, Some(Uid::from_raw(owner.0)), Some(Gid::from_raw(owner.1)))?;
    }
    let mut rest = content;
    while !rest.is_empty() {
        match rustix::io::write(&file, rest) {
            Ok(0) => return Err(Errno::IO),
            Ok(count) => rest = &rest[count..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
