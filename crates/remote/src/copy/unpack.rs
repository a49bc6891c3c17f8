//! A tar from inside into a directory here. The kernel resolves every path below that directory and through no symbolic
//! link, so that an entry cannot use a link that an earlier one planted.

mod trail;

use super::{CopyError, LeftOut};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, Timespec, Timestamps, fchmod, futimens, linkat, mkdirat,
    openat, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use tar::{Archive, Entry, EntryType};
use trail::{Trail, open_child};

const MOST_ENTRIES: u64 = 4_000_000;
const MOST_BYTES: u64 = 64 << 30;
/// The most names of left out files that are told.
const TOLD: usize = 100;
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const INSIDE: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);

/// `destination` is a directory.
pub fn unpack(archive: impl Read, destination: &Path) -> Result<Vec<LeftOut>, CopyError> {
    let root = rustix::fs::open(destination, DIRECTORY, Mode::empty())
        .map_err(|errno| CopyError::Local { path: destination.to_path_buf(), source: errno.into() })?;
    let (trail, links) = (Trail::new(duplicate(&root, destination)?), Trail::new(root));
    let mut unpacker = Unpacker { trail, links, path: destination, left_out: Vec::new(), bytes: 0 };
    let mut archive = Archive::new(archive);
    for (count, entry) in archive.entries().map_err(CopyError::Archive)?.enumerate() {
        if count as u64 >= MOST_ENTRIES {
            return Err(CopyError::TooLarge("4 million entries"));
        }
        unpacker.entry(&mut entry.map_err(CopyError::Archive)?)?;
    }
    Ok(unpacker.left_out)
}

fn duplicate(root: &OwnedFd, destination: &Path) -> Result<OwnedFd, CopyError> {
    root.try_clone().map_err(|source| CopyError::Local { path: destination.to_path_buf(), source })
}

struct Unpacker<'a> {
    /// To the directory of the entry.
    trail: Trail,
    /// To the directory that a hard link leads to.
    links: Trail,
    path: &'a Path,
    left_out: Vec<LeftOut>,
    bytes: u64,
}

impl Unpacker<'_> {
    fn entry(&mut self, entry: &mut Entry<'_, impl Read>) -> Result<(), CopyError> {
        let raw = entry.path_bytes().into_owned();
        let shown = || String::from_utf8_lossy(&raw).into_owned();
        let hostile = |reason| CopyError::Hostile { name: shown(), reason };
        let name = clean(&raw).map_err(hostile)?;
        let kind = entry.header().entry_type();
        let is_directory =
            kind == EntryType::Directory || (kind == EntryType::Regular && raw.ends_with(b"/"));
        let (Some(base), Some(parent)) = (name.file_name(), name.parent()) else {
            // The directory itself, which is there.
            return if is_directory { Ok(()) } else { Err(hostile("has no name")) };
        };
        let directory = self.path;
        let failed = |source: io::Error| CopyError::Local { path: directory.join(&name), source };
        let parent = self.trail.directory(parent).map_err(|errno| failed(errno.into()))?;
        if is_directory {
            return put_directory(parent, base, entry).map_err(failed);
        }
        match kind {
            EntryType::Regular | EntryType::Continuous => {
                self.bytes = self.bytes.saturating_add(entry.size());
                if self.bytes > MOST_BYTES {
                    return Err(CopyError::TooLarge("64 GiB"));
                }
                put_file(parent, base, entry).map_err(failed)
            }
            EntryType::Symlink => {
                let target = entry.link_name_bytes().ok_or_else(|| hostile("is a link to nowhere"))?;
                if leads_out(&name, &target) {
                    self.leave_out(shown(), "a link that leads out of the directory");
                    return Ok(());
                }
                replace(parent, base)
                    .and_then(|()| symlinkat(OsStr::from_bytes(&target), parent, base))
                    .map_err(|errno| failed(errno.into()))
            }
            EntryType::Link => {
                let target = entry.link_name_bytes().ok_or_else(|| hostile("is a link to nowhere"))?;
                let target = clean(&target).map_err(hostile)?;
                put_hard_link(&mut self.links, &target, parent, base).map_err(|errno| failed(errno.into()))
            }
            EntryType::XGlobalHeader => Ok(()),
            EntryType::Char | EntryType::Block | EntryType::Fifo => {
                self.leave_out(shown(), "a pipe or a device");
                Ok(())
            }
            _ => Err(hostile("is of a kind that is not known")),
        }
    }

    fn leave_out(&mut self, name: String, reason: &'static str) {
        if self.left_out.len() < TOLD {
            self.left_out.push(LeftOut { name, reason });
        }
    }
}

fn put_directory(parent: &OwnedFd, base: &OsStr, entry: &Entry<'_, impl Read>) -> io::Result<()> {
    let directory = match open_child(parent, base) {
        Err(Errno::NOENT) => {
            mkdirat(parent, base, Mode::RWXU)?;
            open_child(parent, base)?
        }
        other => other?,
    };
    Ok(fchmod(&directory, Mode::from_raw_mode(mode(entry) | 0o700))?)
}

/// To a plain file that this archive, or an earlier copy, put below the directory.
fn put_hard_link(links: &mut Trail, target: &Path, parent: &OwnedFd, base: &OsStr) -> Result<(), Errno> {
    let (Some(target_base), Some(target_parent)) = (target.file_name(), target.parent()) else {
        return Err(Errno::ISDIR);
    };
    let target_parent = links.directory(target_parent)?;
    let found = statat(target_parent, target_base, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(Errno::PERM);
    }
    replace(parent, base)?;
    linkat(target_parent, target_base, parent, base, AtFlags::empty())
}

/// Never through an existing file: a link or a file of this name is removed first, a directory is an error.
fn put_file(parent: &OwnedFd, base: &OsStr, entry: &mut Entry<'_, impl Read>) -> io::Result<()> {
    replace(parent, base)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat(parent, base, flags, Mode::RUSR | Mode::WUSR)?);
    let size = entry.size();
    if io::copy(entry, &mut file)? != size {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    fchmod(&file, Mode::from_raw_mode(mode(entry) | 0o600))?;
    let seconds = entry.header().mtime().ok().and_then(|time| i64::try_from(time).ok()).unwrap_or(0);
    let time = Timespec { tv_sec: seconds, tv_nsec: 0 };
    // Times are kept where the file system can hold them.
    let _ = futimens(&file, &Timestamps { last_access: time, last_modification: time });
    Ok(())
}

fn replace(parent: &OwnedFd, base: &OsStr) -> Result<(), Errno> {
    match unlinkat(parent, base, AtFlags::empty()) {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}

/// Without set-user-id, set-group-id and sticky.
fn mode(entry: &Entry<'_, impl Read>) -> u32 {
    entry.header().mode().unwrap_or(0o644) & 0o777
}

/// A name without `.`; one that leaves the directory is refused.
fn clean(raw: &[u8]) -> Result<PathBuf, &'static str> {
    if raw.contains(&0) {
        return Err("has a NUL in its name");
    }
    let mut clean = PathBuf::new();
    for component in Path::new(OsStr::from_bytes(raw)).components() {
        match component {
            Component::Normal(part) => clean.push(part),
            Component::CurDir => {}
            Component::ParentDir => return Err("leads out of the directory"),
            Component::RootDir | Component::Prefix(_) => return Err("has an absolute path"),
        }
    }
    Ok(clean)
}

/// Judged by the text alone. A link that passes cannot leave the directory as long as everything in it was judged so.
fn leads_out(name: &Path, target: &[u8]) -> bool {
    let mut depth = name.components().count() - 1;
    for component in Path::new(OsStr::from_bytes(target)).components() {
        match component {
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::ParentDir if depth > 0 => depth -= 1,
            _ => return true,
        }
    }
    false
}

#[cfg(test)]
mod tests;
