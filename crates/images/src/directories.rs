//! The state directory of the image store.
//!
//! ```text
//! blobs/sha256/HEX     what registries gave, checked: manifests, configurations, layers
//! roots/HEX/rootfs     flattened root file systems; beside each, skipped.json
//! records/HEX.json     what a local archive, named by its digest, turned out to be
//! locks/               one file per thing that only one process makes at a time
//! temporary/NAME       work in progress, each with NAME.lock held by the process that works on it
//! ```

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use rustix::fs::syncfs;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::ImageError;
use super::digest::Digest;

#[derive(Debug, Clone)]
pub struct Directories {
    path: PathBuf,
}

/// A flattened root file system.
pub struct Root {
    pub path: PathBuf,
    pub skipped: Vec<String>,
}

impl Directories {
    /// Makes missing directories, and removes the remains of ended processes.
    pub fn open(path: &Path) -> Result<Self, ImageError> {
        for part in ["", "blobs/sha256", "roots", "records", "locks", "temporary"] {
            let path = path.join(part);
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
            made.map_err(|error| ImageError::io("create", &path, error))?;
        }
        let path = fs::canonicalize(path).map_err(|error| ImageError::io("open", path, error))?;
        check_ours(&path).map_err(|error| ImageError::io("use", &path, error))?;
        let directories = Self { path };
        directories.sweep()?;
        Ok(directories)
    }

    /// Waits until the lock is free. It is held until the file is dropped or the process ends.
    pub fn lock(&self, name: &str) -> Result<File, ImageError> {
        let path = self.path.join("locks").join(name);
        open_lock(&path)
            .and_then(|file| file.lock().map(|()| file))
            .map_err(|error| ImageError::io("lock", &path, error))
    }

    /// A lock's file, and its path for messages, for callers that share the lock or do not wait.
    pub fn lock_file(&self, name: &str) -> Result<(File, PathBuf), ImageError> {
        let path = self.path.join("locks").join(name);
        let file = open_lock(&path).map_err(|error| ImageError::io("lock", &path, error))?;
        Ok((file, path))
    }

    pub fn blobs(&self) -> PathBuf {
        self.path.join("blobs/sha256")
    }

    pub fn blob(&self, digest: &Digest) -> PathBuf {
        self.blobs().join(digest.hex())
    }

    pub fn root(&self, key: &Digest) -> Result<Option<Root>, ImageError> {
        let directory = self.path.join("roots").join(key.hex());
        let skipped = read_json(&directory.join("skipped.json"))?;
        Ok(skipped.map(|skipped| Root { path: directory.join("rootfs"), skipped }))
    }

    /// Precondition: the work has `rootfs` in it, the lock of `key` is held, and no such root exists.
    pub fn publish_root(
        &self,
        work: Temporary,
        key: &Digest,
        skipped: Vec<String>,
    ) -> Result<Root, ImageError> {
        write_json(&work.path.join("skipped.json"), &skipped)?;
        // A root is kept for good, so a loss of power must not leave it with empty files.
        let synced = File::open(&work.path).and_then(|directory| Ok(syncfs(&directory)?));
        synced.map_err(|error| ImageError::io("write", &work.path, error))?;
        let path = self.path.join("roots").join(key.hex());
        fs::rename(&work.path, &path).map_err(|error| ImageError::io("write", &path, error))?;
        Ok(Root { path: path.join("rootfs"), skipped })
    }

    pub fn record<T: DeserializeOwned>(&self, key: &Digest) -> Result<Option<T>, ImageError> {
        read_json(&self.path.join("records").join(format!("{}.json", key.hex())))
    }

    pub fn publish_record(&self, key: &Digest, record: &impl Serialize) -> Result<(), ImageError> {
        let work = self.temporary()?;
        let path = work.path.join("record.json");
        write_json(&path, record)?;
        let published = self.path.join("records").join(format!("{}.json", key.hex()));
        fs::rename(&path, &published).map_err(|error| ImageError::io("write", &published, error))
    }

    /// A fresh directory for work in progress.
    pub fn temporary(&self) -> Result<Temporary, ImageError> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let nanoseconds = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |elapsed| elapsed.as_nanos());
        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = self.path.join("temporary").join(format!("{}-{count}-{nanoseconds}", std::process::id()));
        let lock_path = path.with_extension("lock");
        let failed = |error| ImageError::io("create", &path, error);
        // A sweep in another process must not see the lock file before it is locked.
        let _guard = self.lock("temporary")?;
        let lock = open_lock(&lock_path).map_err(failed)?;
        lock.lock().map_err(failed)?;
        let work = Temporary { path: path.clone(), lock_path, _lock: lock };
        DirBuilder::new().mode(0o700).create(&path).map_err(failed)?;
        Ok(work)
    }

    fn sweep(&self) -> Result<(), ImageError> {
        let directory = self.path.join("temporary");
        let failed = |error| ImageError::io("sweep", &directory, error);
        let guard = self.lock("temporary")?;
        let mut abandoned = Vec::new();
        for entry in fs::read_dir(&directory).map_err(failed)? {
            let lock_path = entry.map_err(failed)?.path();
            if lock_path.extension().is_none_or(|extension| extension != "lock") {
                continue;
            }
            let lock = open_lock(&lock_path).map_err(failed)?;
            if lock.try_lock().is_ok() {
                abandoned.push(Temporary { path: lock_path.with_extension(""), lock_path, _lock: lock });
            }
        }
        drop(guard);
        // Their locks are ours now, and dropping them removes the directories.
        drop(abandoned);
        Ok(())
    }
}

/// Work in progress, removed when it is dropped.
pub struct Temporary {
    pub path: PathBuf,
    lock_path: PathBuf,
    _lock: File,
}

impl Temporary {
    /// A directory that all users may enter, whatever the umask: it may become the root that a sandbox sees.
    pub fn make(&self, name: &str) -> Result<PathBuf, ImageError> {
        let path = self.path.join(name);
        let made = fs::create_dir(&path)
            .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755)));
        made.map_err(|error| ImageError::io("create", &path, error))?;
        Ok(path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // The lock file goes last, and only if all else is removed: the next sweep finds a directory that stays.
        match fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {}
            _ => {
                let _ = fs::remove_file(&self.lock_path);
            }
        }
    }
}

fn open_lock(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Other users must not be able to plant files in a directory in which this process, perhaps as root, works.
fn check_ours(path: &Path) -> io::Result<()> {
    if fs::metadata(path)?.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user"));
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, ImageError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(ImageError::io("read", path, error)),
    };
    let parsed = serde_json::from_slice(&bytes);
    parsed.map(Some).map_err(|error| ImageError::malformed("state file", error.to_string()))
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<(), ImageError> {
    let failed = |error| ImageError::io("write", path, error);
    let bytes = serde_json::to_vec(value).map_err(|error| failed(error.into()))?;
    let mut file = File::create(path).map_err(failed)?;
    io::Write::write_all(&mut file, &bytes).and_then(|()| file.sync_all()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sweep_takes_only_what_nobody_works_on() {
        let state = tempfile::tempdir().unwrap();
        let directories = Directories::open(state.path()).unwrap();
        let live = directories.temporary().unwrap();
        live.make("rootfs").unwrap();
        let dead = state.path().join("temporary/1-2-3");
        fs::create_dir_all(dead.join("rootfs/a")).unwrap();
        fs::write(dead.with_extension("lock"), "").unwrap();

        Directories::open(state.path()).unwrap();
        assert!(live.path.join("rootfs").is_dir());
        assert!(!dead.exists() && !dead.with_extension("lock").exists());

        let path = live.path.clone();
        drop(live);
        assert!(!path.exists() && !path.with_extension("lock").exists());
    }

    #[test]
    fn the_state_directory_is_private() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("deep/images");
        Directories::open(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
    }
}
