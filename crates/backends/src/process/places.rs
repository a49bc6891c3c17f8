//! How many sandboxes this host can have by Paddock's own numbers, and where their records lie.

use super::run_directory::run_directory;
use super::slot::{self, SLOTS};
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub struct Places {
    pub most: u64,
    /// Of this user's, whichever state directory they belong to.
    pub taken: u64,
    pub run_directory: PathBuf,
}

impl Places {
    pub fn look(state: &Path) -> Places {
        let run_directory = run_directory(state);
        Places { most: SLOTS.into(), taken: slot::taken(&run_directory) as u64, run_directory }
    }
}
