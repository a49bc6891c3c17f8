//! The settings that a snapshot keeps, as its record has them.

use paddock_model::Policy;
use serde::{Deserialize, Serialize};

/// What a snapshot keeps of its source, besides the files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptSettings {
    /// The template that the source was made from.
    pub template: Option<String>,
    pub policy: Policy,
    /// True if root could install packages in the source.
    pub root_may_install: bool,
    /// True if the source's user could become root.
    pub become_root: bool,
}
