//! A list of the things that a sandbox consists of on the host, for another process that has to remove them.

use super::super::lasting::Lasting;
use super::super::placeholder::Placeholder;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Record {
    /// PID 1 of the sandbox and when it started, by which it is told from a later process of the same number.
    pub guest: Option<(u32, u64)>,
    pub cgroups: Vec<PathBuf>,
    pub placeholders: Vec<Placeholder>,
    #[serde(default)]
    pub lasting: Option<Lasting>,
    /// As `guest`, for the nursery that it nests in.
    #[serde(default)]
    pub nursery: Option<(u32, u64)>,
}

impl Record {
    pub fn read(path: &Path) -> Option<Record> {
        serde_json::from_slice(&std::fs::read(path).ok()?).ok()
    }
}
