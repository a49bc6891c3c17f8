//! Keeps the file of the storage where the host's disk has given it room, also where that disk copies what is overwritten.
//!
//! On btrfs, `fallocate` promises room for the first write of a block only: every later one goes to a new place, which a full disk does
//! not have. A file that is marked as not to be copied is overwritten where it is. The mark is heeded only from before the first byte.

use super::btrfs;
use rustix::fs::{IFlags, SeekFrom, fstatfs, fstatvfs, ioctl_getflags, ioctl_setflags, seek};
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// So much of the host's disk stays free while there are two copies of the file.
const LEFT_BYTES: u64 = 256 << 20;
const PIECE: usize = 1 << 20;

/// Precondition: nothing has been written to the file.
pub fn mark(file: &File) -> Result<()> {
    if fstatfs(file)?.f_type == btrfs::MAGIC {
        // A compressed file is always copied, and a directory may pass that flag on to new files.
        ioctl_setflags(file, ioctl_getflags(file)?.difference(IFlags::COMPRESSED) | IFlags::NOCOW)?;
    }
    Ok(())
}

/// True where the host's file system copies a block that is overwritten: then a full disk can fail such a write.
pub fn is_copied(path: &Path) -> Result<bool> {
    let file = File::open(path)?;
    Ok(fstatfs(&file)?.f_type == btrfs::MAGIC && !ioctl_getflags(&file)?.contains(IFlags::NOCOW))
}

/// Puts a file in its place that is the same, and is not copied. Of an earlier Paddock, that is.
///
/// Precondition: nobody has it open.
pub fn replace(path: &Path) -> Result<()> {
    let mut old = File::open(path)?;
    let length = old.metadata()?.len();
    let disk = fstatvfs(&old)?;
    if disk.f_bavail.saturating_mul(disk.f_frsize) < length.saturating_add(LEFT_BYTES) {
        return Err(Error::new(ErrorKind::StorageFull, "there is no room for a second copy of it"));
    }
    let new = path.with_extension("btrfs.new");
    let copied = copy(&mut old, &new, length);
    if copied.is_err() {
        let _ = std::fs::remove_file(&new);
    }
    copied.and_then(|()| std::fs::rename(&new, path))
}

fn copy(old: &mut File, new: &Path, length: u64) -> Result<()> {
    let _ = std::fs::remove_file(new);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(new)?;
    mark(&file)?;
    super::grow::give_ahead(&file, 0, length)?;
    let mut piece = vec![0; PIECE];
    let mut at = 0;
    // Only what was written: the rest is nothing but room.
    while at < length {
        let start = match seek(&*old, SeekFrom::Data(at)) {
            Err(rustix::io::Errno::NXIO) => break,
            start => start?,
        };
        let end = seek(&*old, SeekFrom::Hole(start))?;
        old.seek(std::io::SeekFrom::Start(start))?;
        file.seek(std::io::SeekFrom::Start(start))?;
        let mut left = end - start;
        while left > 0 {
            let most = left.min(PIECE as u64) as usize;
            let count = old.read(&mut piece[..most])?;
            if count == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            file.write_all(&piece[..count])?;
            left -= count as u64;
        }
        at = end;
    }
    file.sync_all()
}
