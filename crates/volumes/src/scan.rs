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

/// So many are looked at before the first is visited.
const AT_A_TIME: usize = 4096;
/// Below it a thread would take longer to start than to help.
const WORTH_A_THREAD: usize = 512;
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

/// An entry that a version cannot hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    pub path: String,
    pub why: &'static str,
}

/// An entry that the walk met.
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
    /// An entry that a version cannot hold, and its kind.
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

    /// `None` if it is not there any more, or has become something else.
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

/// The same tree in its live place, with a check that a file there is as it was at the last sync. Then it was so all
/// the time in between, and the file in the copy, which is slow to look at, is not looked at.
pub struct Beside<'a> {
    pub directory: &'a Path,
    pub is_unchanged: &'a dyn Fn(&[u8], &Stat) -> bool,
}

struct Name {
    name: CString,
    inode: u64,
    is_file: bool,
}

/// The directories through which an entry is looked at.
struct Reached<'a> {
    parent: &'a OwnedFd,
    beside: Option<&'a OwnedFd>,
    unchanged: Option<Stat>,
}

struct Scan<'a> {
    volume: &'a str,
    limits: Limits,
    is_unchanged: &'a dyn Fn(&[u8], &Stat) -> bool,
    entries: u64,
    bytes: u64,
}

/// Calls `visit` for everything, in the order of a manifest.
pub fn walk(
    volume: &str,
    directory: &Path,
    limits: Limits,
    beside: Option<&Beside<'_>>,
    visit: &mut dyn FnMut(Met<'_>) -> Result<(), VolumeError>,
) -> Result<(), VolumeError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let failed = |errno: Errno| VolumeError::io(format!("open {}", directory.display()), errno);
    let root = openat2(CWD, directory, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS).map_err(failed)?;
    let found = fstat(&root).map_err(failed)?;
    let is_unchanged = beside.map_or(&(|_: &[u8], _: &Stat| false) as _, |beside| beside.is_unchanged);
    let mut scan = Scan { volume, limits, is_unchanged, entries: 0, bytes: 0 };
    visit(Met { path: b"", found, what: What::Directory })?;
    let beside = beside.and_then(|beside| {
        openat2(CWD, beside.directory, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS).ok()
    });
    scan.directory(&root, beside.as_ref(), &mut Vec::new(), 0, visit)
}

impl Scan<'_> {
    fn directory(
        &mut self,
        directory: &OwnedFd,
        beside: Option<&OwnedFd>,
        path: &mut Vec<u8>,
        depth: usize,
        visit: &mut dyn FnMut(Met<'_>) -> Result<(), VolumeError>,
    ) -> Result<(), VolumeError> {
        for some in self.names(directory, path)?.chunks(AT_A_TIME) {
            let looks = beside.map(|beside| looks(beside, some)).unwrap_or_default();
            for (at, name) in some.iter().enumerate() {
                let length = path.len();
                if !path.is_empty() {
                    path.push(b'/');
                }
                path.extend_from_slice(name.name.as_bytes());
                if path.len() > LONGEST_PATH {
                    return Err(self.refuse(path, "its path is longer than 4095 bytes"));
                }
                // The entry as it is in the live place, if that is unchanged since the last sync.
                let look = looks.get(at).copied().flatten();
                let unchanged = look.filter(|found| {
                    found.st_ino == name.inode && name.is_file && (self.is_unchanged)(path, found)
                });
                let at = Reached { parent: directory, beside, unchanged };
                self.entry(&at, &name.name, path, depth, visit)?;
                path.truncate(length);
            }
        }
        Ok(())
    }

    fn names(&mut self, directory: &OwnedFd, path: &[u8]) -> Result<Vec<Name>, VolumeError> {
        let mut names = Vec::new();
        for entry in Dir::read_from(directory).map_err(|errno| self.failed(path, errno))? {
            let entry = entry.map_err(|errno| self.failed(path, errno))?;
            let name = entry.file_name();
            if name.to_bytes() == b"." || name.to_bytes() == b".." {
                continue;
            }
            self.entries += 1;
            self.within("files", self.entries, self.limits.files)?;
            let is_file = entry.file_type() == FileType::RegularFile;
            names.push(Name { name: name.to_owned(), inode: entry.ino(), is_file });
        }
        names.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(names)
    }

    fn entry(
        &mut self,
        at: &Reached<'_>,
        name: &CString,
        path: &mut Vec<u8>,
        depth: usize,
        visit: &mut dyn FnMut(Met<'_>) -> Result<(), VolumeError>,
    ) -> Result<(), VolumeError> {
        let Reached { parent, beside, unchanged } = *at;
        let found = match unchanged {
            Some(found) => found,
            None => match statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(found) => found,
                Err(Errno::NOENT) => return Ok(()),
                Err(errno) => return Err(self.failed(path, errno)),
            },
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
                let beside =
                    beside.and_then(|beside| openat2(beside, name, flags, Mode::empty(), BENEATH).ok());
                self.directory(&child, beside.as_ref(), path, depth + 1, visit)
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

/// The kernel's facts about the names, by two threads if there are many.
fn looks(directory: &OwnedFd, names: &[Name]) -> Vec<Option<Stat>> {
    let look = |names: &[Name]| -> Vec<Option<Stat>> {
        let one = |name: &Name| match name.is_file {
            true => statat(directory, &name.name, AtFlags::SYMLINK_NOFOLLOW).ok(),
            false => None,
        };
        names.iter().map(one).collect()
    };
    if names.len() < WORTH_A_THREAD {
        return look(names);
    }
    let (these, those) = names.split_at(names.len() / 2);
    std::thread::scope(|scope| {
        let others = std::thread::Builder::new().spawn_scoped(scope, || look(those));
        let mut found = look(these);
        match others {
            Ok(others) => found.extend(others.join().unwrap_or_default()),
            Err(_) => found.extend(look(those)),
        }
        found
    })
}

/// True if a version holds all of it.
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

/// A file of holes takes no room, and a small one takes its length.
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
