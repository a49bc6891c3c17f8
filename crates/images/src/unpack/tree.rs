use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Timespec, Timestamps, UTIME_OMIT, chownat,
    fchmod, fchown, futimens, linkat, mkdirat, openat, openat2, statat, symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;

use super::entry::Metadata;
use super::layer::Touched;
use super::name::EntryName;
use super::upper::Holes;
use crate::{ImageError, Refusal};

// Without NOFOLLOW, with which a link at the end would look like a file: NO_SYMLINKS refuses it by its own error.
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const INSIDE: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_XDEV);
const LONGEST_SYMLINK: usize = 4095;

/// Why an entry could not be written.
pub enum Failure {
    Refused(Refusal),
    /// The archive could not be read.
    Archive(io::Error),
    /// The tree could not be written.
    Io(io::Error),
}

impl Failure {
    pub fn into_error(self, tree: &Tree, entry: &[u8]) -> ImageError {
        match self {
            Self::Refused(refusal) => ImageError::refused(entry, refusal),
            Self::Archive(source) => ImageError::DamagedArchive { source },
            Self::Io(source) => ImageError::io("unpack into", &tree.path, source),
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self::Io(errno.into())
    }
}

/// The destination directory. No operation follows a symbolic link or leaves the directory.
pub struct Tree {
    root: OwnedFd,
    path: PathBuf,
}

impl Tree {
    pub fn open(path: &Path) -> Result<Self, ImageError> {
        let root = openat(CWD, path, DIRECTORY, Mode::empty())
            .map_err(|errno| ImageError::io("open", path, errno.into()))?;
        Ok(Self { root, path: path.to_owned() })
    }

    /// The directory at `path`; missing directories on the way are made, and counted in `made`.
    pub fn make_parent(&self, path: &Path, made: &mut u64) -> Result<OwnedFd, Failure> {
        match self.directory(path) {
            Err(Errno::NOENT) => {}
            found => return found.map_err(beyond),
        }
        let mut parent = self.directory(Path::new("")).map_err(beyond)?;
        for part in path {
            parent = match open_child(&parent, part) {
                Err(Errno::NOENT) => {
                    *made += 1;
                    make_directory(parent.as_fd(), part, &Metadata::of_missing_parent())?
                }
                found => found.map_err(beyond)?,
            };
        }
        Ok(parent)
    }

    pub fn set_root_metadata(&self, metadata: &Metadata) -> Result<(), Failure> {
        set_directory_metadata(self.root.as_fd(), metadata)
    }

    pub fn put_directory(&self, parent: &OwnedFd, base: &OsStr, metadata: &Metadata) -> Result<(), Failure> {
        match open_child(parent, base) {
            Ok(existing) => return set_directory_metadata(existing.as_fd(), metadata),
            Err(Errno::NOENT) => {}
            Err(Errno::NOTDIR | Errno::LOOP) => unlinkat(parent, base, AtFlags::empty())?,
            Err(errno) => return Err(errno.into()),
        }
        make_directory(parent.as_fd(), base, metadata).map(drop)
    }

    pub fn put_file(
        &self,
        parent: &OwnedFd,
        base: &OsStr,
        metadata: &Metadata,
        content: &mut dyn Read,
        size: u64,
        buffer: &mut [u8],
    ) -> Result<(), Failure> {
        remove(parent.as_fd(), base)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(parent, base, flags, Mode::RUSR | Mode::WUSR)?);
        let mut written = 0;
        loop {
            let count = content.read(buffer).map_err(Failure::Archive)?;
            if count == 0 {
                break;
            }
            file.write_all(&buffer[..count]).map_err(Failure::Io)?;
            written += count as u64;
        }
        if written != size {
            return Err(Failure::Archive(io::ErrorKind::UnexpectedEof.into()));
        }
        set_file_metadata(&file, metadata)
    }

    /// The same for content that has bytes only in the extents of `holes`.
    pub fn put_holed_file(
        &self,
        parent: &OwnedFd,
        base: &OsStr,
        metadata: &Metadata,
        content: &mut dyn Read,
        holes: &Holes,
    ) -> Result<(), Failure> {
        remove(parent.as_fd(), base)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(parent, base, flags, Mode::RUSR | Mode::WUSR)?);
        file.set_len(holes.size).map_err(Failure::Io)?;
        for (at, length) in &holes.extents {
            file.seek(SeekFrom::Start(*at)).map_err(Failure::Io)?;
            let copied = io::copy(&mut Read::take(&mut *content, *length), &mut file).map_err(Failure::Io)?;
            if copied != *length {
                return Err(Failure::Archive(io::ErrorKind::UnexpectedEof.into()));
            }
        }
        set_file_metadata(&file, metadata)
    }

    pub fn put_symlink(
        &self,
        parent: &OwnedFd,
        base: &OsStr,
        metadata: &Metadata,
        target: &[u8],
    ) -> Result<(), Failure> {
        if target.is_empty() || target.len() > LONGEST_SYMLINK || target.contains(&0) {
            return Err(Refusal::BadSymlink.into());
        }
        remove(parent.as_fd(), base)?;
        symlinkat(OsStr::from_bytes(target), parent, base)?;
        if let Some((user, group)) = metadata.owner {
            chownat(parent, base, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        let _ = utimensat(parent, base, &times(metadata.seconds), AtFlags::SYMLINK_NOFOLLOW);
        Ok(())
    }

    /// `name` is the whole name of `base` in `parent`. The link shares its target's mode, owner and time.
    pub fn put_hard_link(
        &self,
        parent: &OwnedFd,
        base: &OsStr,
        name: &EntryName,
        target: &EntryName,
    ) -> Result<(), Failure> {
        let target_base = target.base().ok_or(Refusal::BadHardLink)?;
        let target_parent = self.directory(target.parent()).map_err(|errno| match errno {
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV => Refusal::BadHardLink.into(),
            errno => Failure::from(errno),
        })?;
        match kind_of(target_parent.as_fd(), target_base)? {
            Some(FileType::RegularFile) => {}
            _ => return Err(Refusal::BadHardLink.into()),
        }
        if name == target {
            return Ok(());
        }
        remove(parent.as_fd(), base)?;
        linkat(&target_parent, target_base, parent, base, AtFlags::empty()).map_err(|errno| match errno {
            // The target lay in the directory that the link replaces.
            Errno::NOENT => Refusal::BadHardLink.into(),
            errno => Failure::from(errno),
        })
    }

    /// Removes the file or directory at `path`, except for paths that the current layer has written.
    pub fn remove_lower(&self, path: &Path, touched: &Touched) -> Result<(), Failure> {
        let (Some(parent), Some(base)) = (path.parent(), path.file_name()) else { return Ok(()) };
        match self.directory(parent) {
            Ok(parent) => prune(parent.as_fd(), base, path, touched),
            // Nothing is there to be removed.
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
            Err(errno) => Err(beyond(errno)),
        }
    }

    /// Removes the content of the directory `path`, except for paths that the current layer has written.
    pub fn remove_lower_children(&self, path: &Path, touched: &Touched) -> Result<(), Failure> {
        match self.directory(path) {
            Ok(directory) => prune_children(directory.as_fd(), path, touched),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
            Err(errno) => Err(beyond(errno)),
        }
    }

    /// Best effort, as with all times.
    pub fn set_directory_time(&self, path: &Path, seconds: u64) {
        if let Ok(directory) = self.directory(path) {
            let _ = futimens(&directory, &times(seconds));
        }
    }

    fn directory(&self, path: &Path) -> rustix::io::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        openat2(&self.root, path, DIRECTORY, Mode::empty(), INSIDE)
    }
}

fn set_file_metadata(file: &File, metadata: &Metadata) -> Result<(), Failure> {
    // The owner first: a change of owner may clear mode bits.
    if let Some((user, group)) = metadata.owner {
        fchown(file, Some(user), Some(group))?;
    }
    fchmod(file, metadata.file_mode())?;
    // Times are set if the file system can hold them.
    let _ = futimens(file, &times(metadata.seconds));
    Ok(())
}

fn beyond(errno: Errno) -> Failure {
    match errno {
        Errno::LOOP | Errno::XDEV => Refusal::BeyondSymlink.into(),
        Errno::NOTDIR => Refusal::BeyondFile.into(),
        errno => errno.into(),
    }
}

fn open_child(parent: impl AsFd, base: &OsStr) -> rustix::io::Result<OwnedFd> {
    openat2(parent, base, DIRECTORY, Mode::empty(), INSIDE)
}

fn make_directory(parent: BorrowedFd<'_>, base: &OsStr, metadata: &Metadata) -> Result<OwnedFd, Failure> {
    mkdirat(parent, base, Mode::RWXU)?;
    let directory = open_child(parent, base)?;
    set_directory_metadata(directory.as_fd(), metadata)?;
    Ok(directory)
}

fn set_directory_metadata(directory: BorrowedFd<'_>, metadata: &Metadata) -> Result<(), Failure> {
    if let Some((user, group)) = metadata.owner {
        fchown(directory, Some(user), Some(group))?;
    }
    Ok(fchmod(directory, metadata.directory_mode())?)
}

/// `None` if there is no such file.
fn kind_of(parent: BorrowedFd<'_>, base: &OsStr) -> Result<Option<FileType>, Errno> {
    match statat(parent, base, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

fn remove(parent: BorrowedFd<'_>, base: &OsStr) -> Result<(), Failure> {
    prune(parent, base, Path::new(""), &Touched::default())
}

/// Removes `base` and all of its content, except for touched paths. `path` is the path of `base` in the tree.
fn prune(parent: BorrowedFd<'_>, base: &OsStr, path: &Path, touched: &Touched) -> Result<(), Failure> {
    let kept = touched.contains(path);
    match kind_of(parent, base)? {
        None => return Ok(()),
        Some(FileType::Directory) => {
            let directory = open_child(parent, base)?;
            prune_children(directory.as_fd(), path, touched)?;
            if !kept {
                unlinkat(parent, base, AtFlags::REMOVEDIR)?;
            }
        }
        Some(_) if !kept => unlinkat(parent, base, AtFlags::empty())?,
        Some(_) => {}
    }
    Ok(())
}

/// Names are bounded in depth when they are parsed, and so is this recursion.
fn prune_children(directory: BorrowedFd<'_>, path: &Path, touched: &Touched) -> Result<(), Failure> {
    let mut children = Dir::read_from(directory)?;
    while let Some(child) = children.read() {
        let name = OsString::from_vec(child?.file_name().to_bytes().to_vec());
        if name != "." && name != ".." {
            prune(directory, &name, &path.join(&name), touched)?;
        }
    }
    Ok(())
}

fn times(seconds: u64) -> Timestamps {
    let modified = Timespec { tv_sec: i64::try_from(seconds).unwrap_or(0), tv_nsec: 0 };
    Timestamps { last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }, last_modification: modified }
}
