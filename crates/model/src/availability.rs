//! The abilities of this host for one backend, in words a person can act on.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Availability {
    pub backend: String,
    /// True if a sandbox can be made at all.
    pub usable: bool,
    pub checks: Vec<Check>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    pub name: String,
    pub state: CheckState,
    /// The finding of the check.
    pub detail: String,
    /// The exact command or setting that would mend the lack.
    pub remedy: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckState {
    Good,
    /// A sandbox can be made, with a weaker guarantee.
    Degraded,
    /// No sandbox can be made.
    Missing,
}
