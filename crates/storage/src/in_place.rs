//! Keeps the storage's file at its allocated place on the host's disk, also if that disk's file system copies on write.
//!
//! On btrfs, `fallocate` promises room for the first write of a block only: every later write goes to a new place,
//! which a full disk does not have. A file that is marked NOCOW is overwritten in place. The mark has an effect only if
//! it is set before the first byte.

use super::btrfs;
use rustix::fs::{IFlags, SeekFrom, fstatfs, fstatvfs, ioctl_getflags, ioctl_setflags, seek};
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The space of the host's disk that stays free while there are two copies of the file.
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

/// True if the host's file system copies a block that is overwritten: then a full disk can fail such a write.
pub fn is_copied(path: &Path) -> Result<bool> {
    let file = File::open(path)?;
    Ok(fstatfs(&file)?.f_type == btrfs::MAGIC && !ioctl_getflags(&file)?.contains(IFlags::NOCOW))
}

/// Replaces the file of an earlier Paddock by a copy of the same content that is overwritten in place.
///
/// Precondition: no process has it open.
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
    // Only written parts are copied: the rest of the file is only room.
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
