//! The storage of lasting sandboxes: their disks, and their snapshots.
//!
//! - [`disks`]: disks as subvolumes of btrfs: snapshots at once, limits that the kernel holds
//! - [`spares`]: disks that were emptied, for the next sandbox
//! - [`image`]: the file that holds a btrfs of our own, and its mount
//! - [`grow`]: lengthens that file ahead of need
//! - [`in_place`]: keeps that file from being copied when it is written to
//! - [`loop_device`]: attaches such a file
//! - [`btrfs`]: requests to the kernel
//! - [`volumes`]: directories that outlive sandboxes, as they are mounted here
//!
//! Without btrfs (an ordinary user, a host without btrfs-progs), disks are in memory and a snapshot is an archive that
//! the engine writes.

mod btrfs;
mod disks;
mod grow;
mod image;
mod in_place;
mod loop_device;
mod spares;
#[cfg(test)]
mod tests;
pub mod volumes;

pub use in_place::mark as keep_from_being_copied;

use disks::Disks;
use image::Image;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Every method blocks. A snapshot of a busy disk takes as long as the kernel needs to write out its pending data.
///
/// Precondition: one for each state directory at a time. All methods may be called from many threads, for different
/// names.
pub struct Storage {
    state: PathBuf,
    driver: Driver,
}

enum Driver {
    Btrfs {
        disks: Box<Disks>,
        /// `None` if the state directory itself is on btrfs.
        image: Option<Image>,
    },
    Copy {
        why: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StorageKind {
    /// Disks are subvolumes: snapshots at once, limits held by the kernel.
    Btrfs,
    /// Disks are in memory; snapshots are archives.
    Copy,
}

/// A disk or a snapshot in the storage.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stored {
    pub name: String,
    /// True if it is never written to again.
    pub is_snapshot: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    #[error(
        "`{name}` is no name for a disk: letters, digits, `-`, `_` and `.`, at most 100, not beginning with `.`"
    )]
    Name { name: String },
    #[error("there is no disk or snapshot `{name}` in the storage")]
    NotFound { name: String },
    #[error("there is a disk or snapshot `{name}` already")]
    Exists { name: String },
    #[error("the storage of this host keeps no disks of its own: {why}")]
    Unsupported { why: String },
    #[error("the storage `{}` met an error of the disk below it, and takes no writes until it is mounted anew", .file.display())]
    Broken { file: PathBuf },
    #[error("could not {step}")]
    Failed { step: String, source: std::io::Error },
}

impl Storage {
    /// Chooses the best way that this host and user have. Fails only if an existing storage is broken: disks that exist
    /// are never silently left aside.
    pub fn open(state: &Path) -> Result<Storage, StorageError> {
        Storage::open_sized(state, image::MOST_BYTES)
    }

    fn open_sized(state: &Path, most_bytes: u64) -> Result<Storage, StorageError> {
        // The paths of disks are opened without following links.
        let state = &state
            .canonicalize()
            .map_err(|error| failed(format!("open the state directory {}", state.display()), error))?;
        let storage = |driver| Storage { state: state.to_path_buf(), driver };
        if !rustix::process::geteuid().is_root() {
            return Ok(storage(Driver::Copy { why: "only root can mount one".into() }));
        }
        if let Some(disks) = Disks::beside(state)? {
            return Ok(storage(Driver::Btrfs { disks: Box::new(disks), image: None }));
        }
        match Image::open(state, most_bytes)? {
            Ok(image) => {
                let disks = Disks::open(image.mount_point())?;
                Ok(storage(Driver::Btrfs { disks: Box::new(disks), image: Some(image) }))
            }
            Err(why) => Ok(storage(Driver::Copy { why })),
        }
    }

    pub fn kind(&self) -> StorageKind {
        match self.driver {
            Driver::Btrfs { .. } => StorageKind::Btrfs,
            Driver::Copy { .. } => StorageKind::Copy,
        }
    }

    /// True if a sandbox's disk outlives its processes.
    pub fn keeps_disks(&self) -> bool {
        matches!(self.driver, Driver::Btrfs { .. })
    }

    /// The file system of the disks, if it is another one than the state directory's.
    pub fn file_system(&self) -> Option<&Path> {
        match &self.driver {
            Driver::Btrfs { image: Some(image), .. } => Some(image.mount_point()),
            _ => None,
        }
    }

    /// Why disks are in memory; `None` if they are not.
    pub fn why_copy(&self) -> Option<&str> {
        match &self.driver {
            Driver::Btrfs { .. } => None,
            Driver::Copy { why } => Some(why),
        }
    }

    /// An empty disk that holds at most `limit_bytes`; `None` if disks are in memory.
    pub fn new_disk(&self, name: &str, limit_bytes: u64) -> Result<Option<PathBuf>, StorageError> {
        check(name)?;
        self.check_writable()?;
        match &self.driver {
            Driver::Btrfs { disks, .. } => disks.create(name, limit_bytes).map(Some),
            Driver::Copy { .. } => Ok(None),
        }
    }

    /// A disk that begins as `from`, a disk or a snapshot, and may hold `limit_bytes` of its own beyond it.
    pub fn clone_disk(&self, from: &str, to: &str, limit_bytes: u64) -> Result<PathBuf, StorageError> {
        check(from)?;
        check(to)?;
        self.check_writable()?;
        self.disks()?.clone_disk(from, to, limit_bytes)
    }

    /// A copy of a disk at this instant that never changes.
    pub fn freeze_copy(&self, from: &str, snapshot: &str) -> Result<(), StorageError> {
        check(from)?;
        check(snapshot)?;
        self.check_writable()?;
        self.disks()?.freeze_copy(from, snapshot)
    }

    /// Flushes a sandbox's disk to the host's disk. Blocks for as long as that takes.
    pub fn flush(&self, name: &str) -> Result<(), StorageError> {
        let path = self.disk(name)?;
        let flushed = std::fs::File::open(&path).and_then(|disk| Ok(rustix::fs::syncfs(disk)?));
        flushed.map_err(|source| failed(format!("flush disk `{name}`"), source))
    }

    /// Sets the limit of a disk from now on. Refused if the disk holds more already.
    pub fn limit_disk(&self, name: &str, limit_bytes: u64) -> Result<(), StorageError> {
        check(name)?;
        self.check_writable()?;
        let disks = self.disks()?;
        let used = disks.usage(name)?;
        if used > limit_bytes {
            let source = std::io::Error::new(
                ErrorKind::ResourceBusy,
                format!("{} are in use", paddock_model::format_bytes(used)),
            );
            return Err(failed(format!("limit disk `{name}`"), source));
        }
        disks.change_limit(name, limit_bytes)
    }

    /// The path of an existing disk.
    pub fn disk(&self, name: &str) -> Result<PathBuf, StorageError> {
        check(name)?;
        self.disks()?.find(name)
    }

    /// The path of the archive that the engine writes as a snapshot, if disks are in memory.
    pub fn archive(&self, name: &str) -> Result<PathBuf, StorageError> {
        check(name)?;
        let directory = self.archives();
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory)
            .map_err(|source| failed(format!("make {}", directory.display()), source))?;
        Ok(directory.join(format!("{name}.tar")))
    }

    /// Removes a disk or a snapshot; does nothing if there is none.
    ///
    /// Precondition: no sandbox uses it.
    pub fn delete(&self, name: &str) -> Result<(), StorageError> {
        check(name)?;
        if let Driver::Btrfs { disks, .. } = &self.driver {
            disks.delete(name)?;
        }
        let archive = self.archives().join(format!("{name}.tar"));
        match std::fs::remove_file(&archive) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(failed(format!("remove {}", archive.display()), error))
            }
            _ => Ok(()),
        }
    }

    /// The bytes that it takes of the host's disk, beyond those that it shares with its origin.
    pub fn usage(&self, name: &str) -> Result<u64, StorageError> {
        check(name)?;
        let archive = self.archives().join(format!("{name}.tar"));
        match (&self.driver, std::fs::metadata(archive)) {
            (_, Ok(found)) => Ok(found.len()),
            (Driver::Btrfs { disks, .. }, _) => disks.usage(name),
            (Driver::Copy { .. }, _) => Err(StorageError::NotFound { name: name.into() }),
        }
    }

    /// All disks and snapshots, unfinished ones included, so that unknown ones can be deleted.
    pub fn list(&self) -> Result<Vec<Stored>, StorageError> {
        let mut all = match &self.driver {
            Driver::Btrfs { disks, .. } => disks.list()?,
            Driver::Copy { .. } => Vec::new(),
        };
        for entry in std::fs::read_dir(self.archives()).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if let Some(name) = name.to_str().and_then(|name| name.strip_suffix(".tar")) {
                all.push(Stored { name: name.into(), is_snapshot: true });
            }
        }
        all.sort();
        Ok(all)
    }

    /// Takes the storage down, so that only its file is left. Returns false if it could not: while a sandbox uses a
    /// disk the storage stays up, and the next engine finds it.
    pub fn close(self) -> Result<bool, StorageError> {
        match self.driver {
            Driver::Btrfs { disks, image: Some(image) } => {
                drop(disks);
                image.close()
            }
            _ => Ok(true),
        }
    }

    /// Fails when the storage is broken. The kernel makes a file system read-only for good when it cannot write its
    /// trees; reading goes on.
    pub fn check_writable(&self) -> Result<(), StorageError> {
        match &self.driver {
            Driver::Btrfs { disks, image: Some(image) } if disks.are_read_only() => Err(image.broken()),
            _ => Ok(()),
        }
    }

    fn disks(&self) -> Result<&Disks, StorageError> {
        match &self.driver {
            Driver::Btrfs { disks, .. } => Ok(disks),
            Driver::Copy { why } => Err(StorageError::Unsupported { why: why.clone() }),
        }
    }

    fn archives(&self) -> PathBuf {
        self.state.join("snapshots")
    }
}

fn check(name: &str) -> Result<(), StorageError> {
    let known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if (1..=100).contains(&name.len()) && !name.starts_with('.') && name.bytes().all(known) {
        return Ok(());
    }
    Err(StorageError::Name { name: name.chars().take(120).collect() })
}

fn failed(step: impl Into<String>, source: impl Into<std::io::Error>) -> StorageError {
    StorageError::Failed { step: step.into(), source: source.into() }
}
