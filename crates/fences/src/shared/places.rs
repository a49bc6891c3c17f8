//! How many sandboxes this host can have by Paddock's own numbers, and where their records lie.

use super::run_directory::run_directory;
use super::slot::{self, SLOTS};
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub struct Places {
    pub most: u64,
    /// The taken slots of this user, of all state directories.
    pub taken: u64,
    pub run_directory: PathBuf,
}

impl Places {
    pub fn look(state: &Path) -> Places {
        let run_directory = run_directory(state);
        Places { most: SLOTS.into(), taken: slot::taken(&run_directory) as u64, run_directory }
    }
}
