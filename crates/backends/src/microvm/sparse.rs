//! Files with holes: memory and disks are mostly that. And files that have no name.

use rustix::fs::{
    CWD, MemfdFlags, Mode, OFlags, SealFlags, SeekFrom, fcntl_add_seals, memfd_create, openat, seek,
};
use std::fs::File;
use std::io::Result;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

const PIECE: usize = 1 << 20;

/// A file in memory.
pub fn in_memory(name: &str, size: u64) -> Result<File> {
    let file = File::from(memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
    file.set_len(size)?;
    Ok(file)
}

/// The same file, opened anew to be read only, from its beginning.
pub fn read_only(file: &File) -> Result<File> {
    File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// From now on no process can change it, however it is opened. It can still be mapped privately.
///
/// Precondition: no process has it mapped for writing.
pub fn seal(file: &File) -> Result<()> {
    fcntl_add_seals(file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(())
}

/// A file on the disk of `directory` that goes with its last descriptor.
pub fn unnamed(directory: &Path) -> Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    Ok(File::from(openat(CWD, directory, flags, Mode::from_raw_mode(0o600))?))
}

/// Copies the data of `from`, without its holes, to the same places of `to`, which gets the same length.
pub fn copy(from: &File, to: &File) -> Result<()> {
    let length = from.metadata()?.len();
    to.set_len(length)?;
    let mut buffer = vec![0; PIECE];
    let mut at = 0;
    while at < length {
        let start = match seek(from, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(rustix::io::Errno::NXIO) => break,
            Err(errno) => return Err(errno.into()),
        };
        let end = seek(from, SeekFrom::Hole(start))?;
        at = start;
        while at < end {
            let piece = (end - at).min(PIECE as u64) as usize;
            from.read_exact_at(&mut buffer[..piece], at)?;
            to.write_all_at(&buffer[..piece], at)?;
            at += piece as u64;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_stay_holes_and_bytes_bytes() {
        let (from, to) = (in_memory("a", 8 << 20).unwrap(), in_memory("b", 0).unwrap());
        from.write_all_at(b"first", 0).unwrap();
        from.write_all_at(b"later", 5 << 20).unwrap();
        copy(&from, &to).unwrap();
        let mut bytes = [0; 5];
        to.read_exact_at(&mut bytes, 5 << 20).unwrap();
        assert_eq!(&bytes, b"later");
        let found = to.metadata().unwrap();
        assert_eq!(found.len(), 8 << 20);
        assert!(std::os::unix::fs::MetadataExt::blocks(&found) * 512 < 1 << 20);
    }

    #[test]
    fn what_is_sealed_is_not_written() {
        let file = in_memory("sealed", 4096).unwrap();
        seal(&file).unwrap();
        assert!(file.write_all_at(b"x", 0).is_err());
        assert!(file.set_len(1).is_err());
    }
}
