//! Changes of a sandbox that are not in the store yet: noted before the sandbox is gone, forgotten when a version has
//! them.

use paddock_volumes::{Kind, Token};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unsynced {
    /// The directory, by its name in the storage.
    pub place: String,
    pub token: Token,
    /// The version that it was made from.
    pub from: Option<u64>,
    pub kind: Kind,
    /// True if no version can hold it as it is: it is kept for a look, and only until the volume's next version.
    #[serde(default)]
    pub refused: bool,
}

impl Unsynced {
    pub fn note(&self, state: &Path) -> std::io::Result<()> {
        let directory = directory(state);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let mut file = tempfile::NamedTempFile::new_in(&directory)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.persist(directory.join(&self.place)).map(drop).map_err(|error| error.error)
    }

    pub fn forget(&self, state: &Path) {
        let _ = std::fs::remove_file(directory(state).join(&self.place));
    }

    pub fn all(state: &Path) -> Vec<Unsynced> {
        let read = |entry: std::fs::DirEntry| serde_json::from_slice(&std::fs::read(entry.path()).ok()?).ok();
        std::fs::read_dir(directory(state)).into_iter().flatten().flatten().filter_map(read).collect()
    }
}

fn directory(state: &Path) -> PathBuf {
    state.join("volumes").join("unsynced")
}
