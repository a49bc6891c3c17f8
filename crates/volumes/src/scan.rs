//! A walk over a directory that hostile code wrote, and may be writing still: no link is followed, no other file
//! system entered, nothing opened that is not a plain file.

use crate::VolumeError;
use crate::manifest::{LONGEST_PATH, MODES};
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat2, readlinkat, statat,
};
use rustix::io::Errno;
use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// One descriptor is open for each.
const DEEPEST: usize = 128;
const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Directories count too.
    pub files: u64,
    pub bytes: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { files: 1_000_000, bytes: 10 << 30 }
    }
}

/// What a version cannot have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    pub path: String,
    pub why: &'static str,
}

/// What the walk met.
pub struct Met<'a> {
    /// Relative; empty for the directory itself.
    pub path: &'a [u8],
    pub found: Stat,
    pub what: What<'a>,
}

pub enum What<'a> {
    Directory,
    File(Unopened<'a>),
    Link(Vec<u8>),
    /// Nothing that a version can have, and what it is.
    Other(&'static str),
}

/// A plain file at the time of the look.
pub struct Unopened<'a> {
    parent: BorrowedFd<'a>,
    name: &'a CString,
    found: Stat,
}

impl Unopened<'_> {
    pub fn found(&self) -> &Stat {
        &self.found
    }

    /// `None` where it is not there any more, or not what it was.
    pub fn open(&self) -> Result<Option<File>, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = match openat2(self.parent, self.name, flags, Mode::empty(), BENEATH) {
            Ok(file) => file,
            Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => return Ok(None),
            Err(errno) => return Err(errno),
        };
        let now = fstat(&file)?;
        let same = (now.st_dev, now.st_ino) == (self.found.st_dev, self.found.st_ino);
        let plain = FileType::from_raw_mode(now.st_mode) == FileType::RegularFile;
        Ok((same && plain).then(|| File::from(file)))
    }
}

struct Scan<'a> {
    volume: &'a str,
    limits: Limits,
    entries: u64,
    bytes: u64,
}

/// Calls `visit` for everything, in the order of a manifest.
pub fn walk(
    volume: &str,
    directory: &Path,
    limits: Limits,
    visit: &mut dyn FnMut(Met<'_>) -> Result<(), VolumeError>,
) -> Result<(), VolumeError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let failed = |errno: Errno| VolumeError::io(format!("open {}", directory.display()), errno);
    let root = openat2(CWD, directory, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS).map_err(failed)?;
    let found = fstat(&root).map_err(failed)?;
    let mut scan = Scan { volume, limits, entries: 0, bytes: 0 };
    visit(Met { path: b"", found, what: What::Directory })?;
    scan.directory(&root, &mut Vec::new(), 0, visit)
}

impl Scan<'_> {
    fn directory(
        &mut self,
        directory: &OwnedFd,
        path: &mut Vec<u8>,
        depth: usize,
        visit: &mut dyn FnMut(Met<'_>) -> Result<(), VolumeError>,
    ) -> Result<(), VolumeError> {
        for name in self.names(directory, path)? {
            let length = path.len();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name.as_bytes());
            if path.len() > LONGEST_PATH {
                return Err(self.refuse(path, "its path is longer than 4095 bytes"));
            }
            self.entry(directory, &name, path, depth, visit)?;
            path.truncate(length);
        }
        Ok(())
    }

    fn names(&mut self, directory: &OwnedFd, path: &[u8]) -> Result<Vec<CString>, VolumeError> {
        let mut names = Vec::new();
        for entry in Dir::read_from(directory).map_err(|errno| self.failed(path, errno))? {
            let entry = entry.map_err(|errno| self.failed(path, errno))?;
            let name = entry.file_name();
            if name.to_bytes() == b"." || name.to_bytes() == b".." {
                continue;
            }
            self.entries += 1;
            self.within("files", self.entries, self.limits.files)?;
            names.push(name.to_owned());
        }
        names.sort();
        Ok(names)
    }

    fn entry(
        &mut self,
        parent: &OwnedFd,
        name: &CString,
        path: &mut Vec<u8>,
        depth: usize,
        visit: &mut dyn FnMut(Met<'_>) -> Result<(), VolumeError>,
    ) -> Result<(), VolumeError> {
        let found = match statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => found,
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(self.failed(path, errno)),
        };
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => {
                if depth >= DEEPEST {
                    return Err(self.refuse(path, "it is more than 128 directories deep"));
                }
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let child = match openat2(parent, name, flags, Mode::empty(), BENEATH) {
                    Ok(child) => child,
                    Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
                    Err(Errno::XDEV) => return Err(self.refuse(path, "another file system is mounted there")),
                    Err(errno) => return Err(self.failed(path, errno)),
                };
                let found = fstat(&child).map_err(|errno| self.failed(path, errno))?;
                visit(Met { path, found, what: What::Directory })?;
                self.directory(&child, path, depth + 1, visit)
            }
            FileType::RegularFile => {
                self.bytes = self.bytes.saturating_add(allocated(&found));
                self.within("bytes", self.bytes, self.limits.bytes)?;
                let file = Unopened { parent: parent.as_fd(), name, found };
                visit(Met { path, found, what: What::File(file) })
            }
            FileType::Symlink => match readlinkat(parent, name, Vec::new()) {
                Ok(target) => visit(Met { path, found, what: What::Link(target.into_bytes()) }),
                Err(Errno::NOENT | Errno::INVAL) => Ok(()),
                Err(errno) => Err(self.failed(path, errno)),
            },
            kind => visit(Met { path, found, what: What::Other(what_it_is(kind)) }),
        }
    }

    fn within(&self, what: &'static str, wanted: u64, allowed: u64) -> Result<(), VolumeError> {
        if wanted <= allowed {
            return Ok(());
        }
        Err(VolumeError::Quota { volume: self.volume.into(), what, wanted, allowed })
    }

    fn refuse(&self, path: &[u8], reason: &str) -> VolumeError {
        VolumeError::Unkept { volume: self.volume.into(), path: shown(path), reason: reason.into() }
    }

    fn failed(&self, path: &[u8], errno: Errno) -> VolumeError {
        self.refuse(path, &std::io::Error::from(errno).to_string())
    }
}

/// Whether a version has all of it.
pub fn is_exact(found: &Stat, what: &What<'_>) -> bool {
    let bits = found.st_mode & 0o7777 & !MODES == 0;
    match what {
        What::Directory => bits,
        What::File(_) => bits && found.st_nlink == 1,
        What::Link(_) => found.st_nlink == 1,
        What::Other(_) => false,
    }
}

pub fn mode(found: &Stat) -> u32 {
    found.st_mode & MODES
}

/// A file of holes takes no room, and a small one takes what it holds.
fn allocated(found: &Stat) -> u64 {
    let size = u64::try_from(found.st_size).unwrap_or(0);
    size.min(u64::try_from(found.st_blocks).unwrap_or(0).saturating_mul(512).max(size.min(4096)))
}

fn what_it_is(kind: FileType) -> &'static str {
    match kind {
        FileType::Fifo => "it is a pipe",
        FileType::Socket => "it is a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "it is a device",
        _ => "it is neither a file, a directory nor a link",
    }
}

pub fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).chars().take(200).collect()
}
