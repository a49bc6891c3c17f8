//! Directories that sandboxes mount. On btrfs each is a disk with a limit, and begins as a snapshot of the version that
//! was written out before; else it is a plain directory.

use crate::{Storage, StorageError};
use paddock_volumes::Index;
use rustix::fs::{Gid, Uid, chown};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// The most versions that are kept written out, over all volumes.
const MOST_VERSIONS: usize = 32;
const VERSION: &str = "vv-";
const WORK: &str = "vw-";
const CHECKOUT: &str = "vt-";
static INSTANTS: AtomicU64 = AtomicU64::new(0);

/// A directory, and the name it has in the storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub name: String,
    pub path: PathBuf,
}

pub struct Places<'a> {
    storage: &'a Storage,
    directory: PathBuf,
}

impl<'a> Places<'a> {
    pub fn new(state: &Path, storage: &'a Storage) -> Places<'a> {
        Places { storage, directory: state.join("volumes") }
    }

    /// True if the kernel limits a hostile writer.
    pub fn are_limited(&self) -> bool {
        self.storage.keeps_disks()
    }

    /// A version that was written out before. Marks it as used now.
    pub fn version(&self, volume: &str, version: u64) -> Option<Place> {
        let place = self.find(&version_name(volume, version)).ok()?;
        let index = std::fs::File::options().append(true).open(self.index_path(&place.name)).ok()?;
        let _ = index.set_modified(SystemTime::now());
        Some(place)
    }

    /// A directory for one sandbox that begins as a version that was written out.
    pub fn work_on(
        &self,
        from: &Place,
        sandbox: &str,
        number: usize,
        limit: u64,
    ) -> Result<Option<Place>, StorageError> {
        if !self.are_limited() {
            return Ok(None);
        }
        let name = work_name(sandbox, number);
        let path = self.storage.clone_disk(&from.name, &name, limit)?;
        let _ = std::fs::copy(self.index_path(&from.name), self.index_path(&name));
        Ok(Some(Place { name, path }))
    }

    /// An empty directory for one sandbox.
    pub fn work(&self, sandbox: &str, number: usize, limit: u64) -> Result<Place, StorageError> {
        self.make(work_name(sandbox, number), limit)
    }

    /// An empty directory to write a version out into.
    pub fn fresh(&self, volume: &str, version: u64) -> Result<Place, StorageError> {
        let name = format!("{CHECKOUT}{volume}-{version}");
        self.remove(&name)?;
        self.make(name, u64::MAX >> 1)
    }

    /// Makes a written-out directory a version. It never changes from now on.
    pub fn keep_as_version(
        &self,
        from: &Place,
        volume: &str,
        version: u64,
        index: &Index,
    ) -> Result<Place, StorageError> {
        let name = version_name(volume, version);
        if self.find(&name).is_err() {
            if self.are_limited() {
                self.storage.freeze_copy(&from.name, &name)?;
            } else {
                let to = self.plain(&name);
                std::fs::rename(&from.path, to).map_err(|source| failed("keep a version", source))?;
            }
        }
        self.save_index(&name, index)?;
        self.find(&name)
    }

    /// A copy at this instant; `None` without btrfs, where a copy would cost time and space.
    pub fn instant(&self, of: &Place) -> Result<Option<Place>, StorageError> {
        if !self.are_limited() {
            return Ok(None);
        }
        // The instant before it may still be on its way to the store.
        let name = format!("{CHECKOUT}{}-{}", of.name, INSTANTS.fetch_add(1, Ordering::Relaxed));
        self.remove(&name)?;
        self.storage.freeze_copy(&of.name, &name)?;
        self.find(&name).map(Some)
    }

    pub fn index(&self, name: &str, volume: &str) -> Option<Index> {
        Index::load(&self.index_path(name), volume)
    }

    pub fn save_index(&self, name: &str, index: &Index) -> Result<(), StorageError> {
        self.make_directory("indexes")?;
        index
            .save(&self.index_path(name))
            .map_err(|error| failed("write an index", std::io::Error::other(error)))
    }

    pub fn find(&self, name: &str) -> Result<Place, StorageError> {
        let path = if self.are_limited() { self.storage.disk(name)? } else { self.plain(name) };
        match path.is_dir() {
            true => Ok(Place { name: name.into(), path }),
            false => Err(StorageError::NotFound { name: name.into() }),
        }
    }

    /// Precondition: no sandbox has it mounted.
    pub fn remove(&self, name: &str) -> Result<(), StorageError> {
        let _ = std::fs::remove_file(self.index_path(name));
        if self.are_limited() {
            return self.storage.delete(name);
        }
        match std::fs::remove_dir_all(self.plain(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(failed("remove a directory", error))
            }
            _ => Ok(()),
        }
    }

    /// Removes the longest unused versions that no sandbox has mounted.
    pub fn make_room(&self, mounted: &dyn Fn(&str) -> bool) {
        let mut versions: Vec<_> = std::fs::read_dir(self.directory.join("indexes"))
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let used = entry.metadata().and_then(|found| found.modified()).ok()?;
                (name.starts_with(VERSION) && !mounted(&name)).then_some((used, name))
            })
            .collect();
        versions.sort();
        let many = versions.len().saturating_sub(MOST_VERSIONS);
        for (_, name) in versions.into_iter().take(many) {
            if let Err(error) = self.remove(&name) {
                tracing::warn!(name, %error, "a version that was written out could not be removed");
            }
        }
    }

    /// True for a version that was written out whole; any other directory without a sandbox is left over.
    pub fn is_version(&self, name: &str) -> bool {
        name.starts_with(VERSION) && self.index_path(name).exists()
    }

    /// Removes plain directories that no sandbox and no version has.
    pub fn sweep(&self, keep: &dyn Fn(&str) -> bool) {
        for entry in std::fs::read_dir(self.directory.join("places")).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !keep(&name) && !self.is_version(&name) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }

    fn make(&self, name: String, limit: u64) -> Result<Place, StorageError> {
        let path = match self.storage.new_disk(&name, limit)? {
            Some(path) => path,
            None => {
                self.make_directory("places")?;
                let path = self.plain(&name);
                std::fs::DirBuilder::new()
                    .mode(0o755)
                    .create(&path)
                    .map_err(|source| failed("make a directory", source))?;
                path
            }
        };
        // The user inside is this owner outside, as with every mounted directory.
        let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        chown(&path, Some(Uid::from_raw(owner.0)), Some(Gid::from_raw(owner.1)))
            .map_err(|errno| failed("own a directory", errno.into()))?;
        Ok(Place { name, path })
    }

    fn make_directory(&self, name: &str) -> Result<(), StorageError> {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(self.directory.join(name));
        made.map_err(|source| failed("make a directory", source))
    }

    fn plain(&self, name: &str) -> PathBuf {
        self.directory.join("places").join(name)
    }

    fn index_path(&self, name: &str) -> PathBuf {
        self.directory.join("indexes").join(name)
    }
}

fn version_name(volume: &str, version: u64) -> String {
    format!("{VERSION}{volume}-{version}")
}

fn work_name(sandbox: &str, number: usize) -> String {
    format!("{WORK}{sandbox}-{number}")
}

fn failed(step: &str, source: std::io::Error) -> StorageError {
    StorageError::Failed { step: format!("{step} of a volume"), source }
}
