//! A place for volumes, and directories to fill them from.

use paddock_volumes::{Checkout, Committed, Head, Kind, Limits, Location, Volumes};
use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

pub const TENANT: &str = "owner";

pub struct Place {
    pub root: TempDir,
    pub volumes: Volumes,
}

impl Place {
    pub fn new() -> Place {
        let root = tempfile::tempdir().unwrap();
        let volumes = Volumes::new(Location::directory(&root.path().join("store")).unwrap(), None, None);
        Place { root, volumes }
    }

    pub fn with_times(keep: usize, lease: Duration) -> Place {
        let place = Place::new();
        let volumes = place.volumes.clone().with_times(keep, Duration::ZERO, lease);
        Place { volumes, ..place }
    }

    /// The same store, as a process that has read nothing of it.
    pub fn opened_anew(self) -> Place {
        let volumes = Volumes::new(Location::directory(&self.root.path().join("store")).unwrap(), None, None);
        Place { volumes, ..self }
    }

    pub fn directory(&self, name: &str) -> std::path::PathBuf {
        let path = self.root.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }
}

/// One commit by a writer of its own.
pub async fn commit(volumes: &Volumes, name: &str, directory: &Path) -> Committed {
    let mut writer = volumes.acquire(TENANT, name, "a test", true).await.unwrap();
    let committed = writer.commit(directory, None, Limits::default(), Kind::Commit).await.unwrap();
    writer.release().await.unwrap();
    committed
}

pub async fn checkout(volumes: &Volumes, head: &Head, version: Option<u64>, to: &Path) -> Checkout {
    volumes.checkout(head, version, to, None).await.unwrap()
}

/// Everything that a version keeps of a directory.
pub fn look(directory: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![directory.to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            let metadata = path.symlink_metadata().unwrap();
            let what = if metadata.is_symlink() {
                format!("-> {}", path.read_link().unwrap().display())
            } else if metadata.is_dir() {
                open.push(path.clone());
                "directory".into()
            } else {
                let content = std::fs::read(&path).unwrap();
                format!("{} {}", content.len(), blake3(&content))
            };
            let mode = metadata.permissions().mode() & 0o7777;
            let mode = if metadata.is_symlink() { 0 } else { mode };
            let name = path.strip_prefix(directory).unwrap().display().to_string();
            let times = (metadata.mtime(), metadata.mtime_nsec());
            found.insert(name, format!("{mode:o} {times:?} {what}"));
        }
    }
    found
}

/// Enough to tell contents apart in a test.
fn blake3(content: &[u8]) -> u64 {
    content
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

pub fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..length).map(|_| next()).collect()
}
