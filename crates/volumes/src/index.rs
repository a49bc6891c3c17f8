//! The state of a directory at the last sync, so that only files that changed since are read again.

use crate::VolumeError;
use crate::manifest::find_near;
use rustix::fs::Stat;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use std::cell::Cell;
use std::io::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The coarsest tick of a file system's clock: a file that changed within it of a look may look unchanged.
const TICK_NS: i128 = 50_000_000;

/// No program inside can set the time of an inode's last change, even if it sets the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    inode: u64,
    size: u64,
    modified: (i64, u32),
    changed: (i64, u32),
}

/// The index of one directory, for the version that it was equal to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Index {
    pub volume: String,
    pub version: Option<u64>,
    /// In the order of a walk.
    files: Vec<(ByteBuf, Fingerprint)>,
}

impl Fingerprint {
    pub fn of(found: &Stat) -> Fingerprint {
        Fingerprint {
            inode: found.st_ino,
            size: u64::try_from(found.st_size).unwrap_or(0),
            modified: (found.st_mtime, found.st_mtime_nsec as u32),
            changed: (found.st_ctime, found.st_ctime_nsec as u32),
        }
    }

    fn is_older_than(&self, instant_ns: i128) -> bool {
        let at = |(seconds, nanoseconds): (i64, u32)| {
            i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds)
        };
        at(self.changed) + TICK_NS < instant_ns
    }
}

impl Index {
    pub fn new(volume: &str, version: Option<u64>) -> Index {
        Index { volume: volume.into(), version, files: Vec::new() }
    }

    /// `looked_ns`: when the look at the directory began. A younger file is read again the next time.
    ///
    /// Precondition: files are noted in the order of a walk.
    pub fn note(&mut self, path: &[u8], found: Fingerprint, looked_ns: i128) {
        if found.is_older_than(looked_ns) {
            self.files.push((ByteBuf::from(path), found));
        }
    }

    /// Quick if paths are asked for in the order of a walk; `near` is the place of the last one.
    pub fn is_unchanged(&self, path: &[u8], found: &Fingerprint, near: &Cell<usize>) -> bool {
        find_near(&self.files, |(path, _)| path, path, near).is_some_and(|(_, known)| known == found)
    }

    /// An index that cannot be read is treated as none.
    pub fn load(path: &Path, volume: &str) -> Option<Index> {
        let index: Index = rmp_serde::from_slice(&std::fs::read(path).ok()?).ok()?;
        (index.volume == volume).then_some(index)
    }

    pub fn save(&self, path: &Path) -> Result<(), VolumeError> {
        let failed = |error: std::io::Error| VolumeError::io(format!("write {}", path.display()), error);
        let bytes = rmp_serde::to_vec(self).map_err(|error| failed(std::io::Error::other(error)))?;
        let parent = path.parent().unwrap_or(Path::new("/"));
        let mut file = tempfile::NamedTempFile::new_in(parent).map_err(failed)?;
        file.write_all(&bytes).map_err(failed)?;
        file.persist(path).map(drop).map_err(|error| failed(error.error))
    }
}

pub fn now_ns() -> i128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos() as i128)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_in_any_order_by_all_that_a_fingerprint_says() {
        let of = |inode| Fingerprint { inode, size: 1, modified: (1, 0), changed: (1, 0) };
        let paths = [(0, "a"), (1, "a/b"), (2, "a/b/c"), (3, "a.b"), (4, "b")];
        let mut index = Index::new("volume", Some(1));
        for (inode, path) in paths {
            index.note(path.as_bytes(), of(inode), now_ns());
        }
        index.note(b"c", Fingerprint { changed: (i64::from(u32::MAX), 0), ..of(9) }, now_ns());
        let near = Cell::new(0);
        for (inode, path) in paths.into_iter().rev().chain(paths) {
            assert!(index.is_unchanged(path.as_bytes(), &of(inode), &near), "{path}");
            assert!(!index.is_unchanged(path.as_bytes(), &of(inode + 1), &near), "{path}");
        }
        assert!(!index.is_unchanged(b"c", &of(9), &near), "it was younger than the look");
        assert!(!index.is_unchanged(b"0", &of(0), &near));
    }
}
