//! From a version to a directory, where only differing files are written. No step follows a link or leaves the
//! directory.

use crate::VolumeError;
use crate::index::{Fingerprint, Index, now_ns};
use crate::manifest::{self, Entry, Manifest, Node};
use crate::reader::Sequence;
use crate::scan::{self, Limits, Met, What};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Timespec, Timestamps, chmodat, fchmod, futimens,
    mkdirat, openat2, statat, symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;
use std::cell::Cell;
use std::collections::HashSet;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);
const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The present content of the directory: the version that it was, and the index of that time.
pub struct Before<'a> {
    pub manifest: &'a Manifest,
    pub index: &'a Index,
}

/// Blocks. Makes the directory equal to the version, and returns its index.
///
/// Precondition: no other process writes to it.
pub fn write_out(
    volume: &str,
    directory: &Path,
    version: &Manifest,
    before: Option<Before<'_>>,
    chunks: &mut Sequence<'_>,
) -> Result<HashSet<Vec<u8>>, VolumeError> {
    let failed = |errno: Errno| VolumeError::io(format!("open {}", directory.display()), errno);
    let root =
        openat2(CWD, directory, DIRECTORY, Mode::empty(), ResolveFlags::NO_SYMLINKS).map_err(failed)?;
    let mut out = Out { volume, root, parent: None };
    let kept = out.clear(directory, version, before.as_ref())?;
    for entry in version.entries.iter().filter(|entry| !entry.path.is_empty()) {
        if !kept.contains(entry.path.as_slice()) {
            out.make(entry, version, chunks)?;
        }
    }
    // A new file changes the time of its directory: so the deepest directories come first, the root last.
    for entry in version.entries.iter().rev() {
        out.finish(entry, kept.contains(entry.path.as_slice()))?;
    }
    Ok(kept)
}

/// How a directory looks that is the same as a version.
pub fn look(volume: &str, id: &str, version: u64, directory: &Path) -> Result<Index, VolumeError> {
    let looked = now_ns();
    let mut index = Index::new(id, Some(version));
    let all = Limits { files: u64::MAX, bytes: u64::MAX };
    scan::walk(volume, directory, all, None, &mut |met: Met<'_>| {
        if let What::File(_) = met.what {
            index.note(met.path, Fingerprint::of(&met.found), looked);
        }
        Ok(())
    })?;
    Ok(index)
}

struct Out<'a> {
    volume: &'a str,
    root: OwnedFd,
    /// The directory that was written to last.
    parent: Option<(Vec<u8>, OwnedFd)>,
}

impl Out<'_> {
    /// Removes files that the version does not have; returns the paths that are right already.
    fn clear(
        &mut self,
        directory: &Path,
        version: &Manifest,
        before: Option<&Before<'_>>,
    ) -> Result<HashSet<Vec<u8>>, VolumeError> {
        let mut kept = HashSet::new();
        let mut wrong: Vec<(Vec<u8>, bool)> = Vec::new();
        let near = Cell::new(0);
        let all = Limits { files: u64::MAX, bytes: u64::MAX };
        scan::walk(self.volume, directory, all, None, &mut |met: Met<'_>| {
            let right = version.find(met.path).is_some_and(|entry| match (&entry.node, &met.what) {
                (Node::Directory, What::Directory) => true,
                (Node::Link { target }, What::Link(found)) => target.as_slice() == found.as_slice(),
                (Node::File { .. }, What::File(_)) => before.is_some_and(|before| {
                    before.index.is_unchanged(met.path, &Fingerprint::of(&met.found), &near)
                        && same_content(version, entry, before.manifest)
                }),
                _ => false,
            });
            if right {
                kept.insert(met.path.to_vec());
            } else {
                wrong.push((met.path.to_vec(), matches!(met.what, What::Directory)));
            }
            Ok(())
        })?;
        for (path, is_directory) in wrong.into_iter().rev() {
            self.remove(&path, is_directory)?;
        }
        Ok(kept)
    }

    fn remove(&mut self, path: &[u8], is_directory: bool) -> Result<(), VolumeError> {
        let flags = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        let name = manifest::base(path).to_vec();
        let parent = self.parent(manifest::parent(path))?;
        match unlinkat(parent, name.as_slice(), flags) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(failed(self.volume, path, errno)),
        }
    }

    fn make(
        &mut self,
        entry: &Entry,
        version: &Manifest,
        chunks: &mut Sequence<'_>,
    ) -> Result<(), VolumeError> {
        let (path, volume) = (entry.path.as_slice(), self.volume);
        let fail = |errno: Errno| failed(volume, path, errno);
        let name = manifest::base(path);
        let parent = self.parent(manifest::parent(path))?;
        match &entry.node {
            Node::Directory => mkdirat(parent, name, Mode::RWXU).map_err(fail),
            Node::Link { target } => symlinkat(target.as_slice(), parent, name).map_err(fail),
            Node::File { size, pieces } => {
                let flags =
                    OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = openat2(parent, name, flags, Mode::RUSR | Mode::WUSR, BENEATH).map_err(fail)?;
                let file = File::from(file);
                let io = |error| VolumeError::io(format!("write `{}`", scan::shown(path)), error);
                file.set_len(*size).map_err(io)?;
                let mut at = 0;
                for (number, length) in pieces {
                    if let Some(chunk) = version.chunks.get(*number as usize) {
                        file.write_all_at(&chunks.chunk(chunk)?, at).map_err(io)?;
                    }
                    at += length;
                }
                fchmod(&file, Mode::from_raw_mode(entry.mode & manifest::MODES)).map_err(fail)?;
                futimens(&file, &times(entry)).map_err(fail)
            }
        }
    }

    /// Modes and times, where they differ: a file that is touched looks changed.
    fn finish(&mut self, entry: &Entry, kept: bool) -> Result<(), VolumeError> {
        let (path, volume) = (entry.path.as_slice(), self.volume);
        if !kept && matches!(entry.node, Node::File { .. }) {
            return Ok(());
        }
        let fail = |errno: Errno| failed(volume, path, errno);
        let (parent, name): (&OwnedFd, &[u8]) = if path.is_empty() {
            (&self.root, b".")
        } else {
            (self.parent(manifest::parent(path))?, manifest::base(path))
        };
        let found = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).map_err(fail)?;
        let is_link = FileType::from_raw_mode(found.st_mode) == FileType::Symlink;
        if !is_link && scan::mode(&found) != entry.mode & manifest::MODES {
            let mode = Mode::from_raw_mode(entry.mode & manifest::MODES);
            chmodat(parent, name, mode, AtFlags::empty()).map_err(fail)?;
        }
        if (found.st_mtime, found.st_mtime_nsec as u32) != entry.modified {
            utimensat(parent, name, &times(entry), AtFlags::SYMLINK_NOFOLLOW).map_err(fail)?;
        }
        Ok(())
    }

    fn parent(&mut self, path: &[u8]) -> Result<&OwnedFd, VolumeError> {
        if path.is_empty() {
            return Ok(&self.root);
        }
        let stale = self.parent.as_ref().is_none_or(|(open, _)| open != path);
        if stale {
            let opened = openat2(&self.root, path, DIRECTORY, Mode::empty(), BENEATH);
            self.parent = Some((path.to_vec(), opened.map_err(|errno| failed(self.volume, path, errno))?));
        }
        Ok(self.parent.as_ref().map_or(&self.root, |(_, parent)| parent))
    }
}

fn same_content(version: &Manifest, entry: &Entry, before: &Manifest) -> bool {
    let (Node::File { size, pieces }, Some(Node::File { size: was, pieces: old })) =
        (&entry.node, before.find(&entry.path).map(|entry| &entry.node))
    else {
        return false;
    };
    let id = |manifest: &Manifest, number: u32| manifest.chunks.get(number as usize).map(|chunk| chunk.id);
    size == was
        && pieces.len() == old.len()
        && pieces.iter().zip(old).all(|(a, b)| a.1 == b.1 && id(version, a.0) == id(before, b.0))
}

fn times(entry: &Entry) -> Timestamps {
    let (tv_sec, nanoseconds) = entry.modified;
    let time = Timespec { tv_sec, tv_nsec: i64::from(nanoseconds.min(999_999_999)) };
    Timestamps { last_access: time, last_modification: time }
}

fn failed(volume: &str, path: &[u8], errno: Errno) -> VolumeError {
    VolumeError::io(format!("write `{}` of volume `{volume}`", scan::shown(path).escape_debug()), errno)
}
