//! The settings that a snapshot keeps, as its record has them, and a request with settings under it.

use paddock_model::Policy;
use paddock_model::api::CreateSandbox;
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

/// A request with the settings under it.
pub(super) struct Under {
    /// The name of the template, as the record has it.
    pub template: Option<String>,
    pub layer: Option<Policy>,
    pub request: CreateSandbox,
}
