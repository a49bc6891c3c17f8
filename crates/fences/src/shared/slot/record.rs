//! A list of the things that a sandbox consists of on the host, for another process that has to remove them.

use crate::shared::cgroups::Hierarchies;
use crate::shared::placeholder::Placeholder;
use paddock_model::{Limits, SandboxId};
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

/// The record of a lasting sandbox: its owner, and where its parts are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lasting {
    pub id: SandboxId,
    /// The state directory of the engine that made it: root's engines share their run directory.
    pub state: PathBuf,
    pub slot: u32,
    pub hierarchies: Hierarchies,
    pub notes: Vec<String>,
    /// The backend that put something between this fence and the guest, where one did.
    #[serde(default)]
    pub between: Option<String>,
    /// True if its guest hands over the network link first on every connection.
    #[serde(default)]
    pub network: bool,
    /// The limits of cgroups that are made with the first command, if they are.
    #[serde(default)]
    pub cgroups_follow: Option<Limits>,
}
