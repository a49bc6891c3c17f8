//! Directories that outlive sandboxes, their versions, and how a sandbox has them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A volume in a sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct VolumeMount {
    /// A volume of one's own, or TENANT/NAME of one that was shared. One of one's own that is not there is made.
    pub name: String,
    /// Where it stands inside: below /data, /home, /mnt, /opt, /tmp or /workspace. Relative: below /workspace.
    pub path: String,
    #[serde(default)]
    pub mode: VolumeMode,
    /// The fate of the changes when the sandbox fails: out of memory, over a limit, its guest or host lost.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// Commit so often while it runs; absent: only at its end.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(minimum = 1.0, maximum = 86400.0))]
    pub checkpoint_seconds: Option<f64>,
    /// A version that is not the current one; only with `ro`.
    #[serde(default)]
    pub version: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum VolumeMode {
    /// As it is now, whoever writes to it meanwhile. Nothing inside can change it.
    Ro,
    /// One at a time; a version is made of it at the end.
    #[default]
    Rw,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    Discard,
    /// As a version of its own, which is not what the next sandbox gets.
    #[default]
    Keep,
    Commit,
}

/// A volume in a sandbox, as it is or was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MountedVolume {
    pub name: String,
    pub path: String,
    pub mode: VolumeMode,
    pub on_failure: OnFailure,
    /// The version that it began with, or that was last made of it; absent for one that was empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Its fate at the end, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
}

impl MountedVolume {
    /// How an outcome begins that is what was asked for.
    pub const COMMITTED: &str = "committed as version";
    pub const UNCHANGED: &str = "nothing was changed";
    pub const KEPT_ASIDE: &str = "kept aside as version";
    pub const DISCARDED: &str = "discarded";

    /// True if the files that a writer left are where they were to be.
    pub fn is_settled(&self) -> bool {
        let fine = [Self::COMMITTED, Self::UNCHANGED, Self::KEPT_ASIDE, Self::DISCARDED];
        self.outcome.as_deref().is_some_and(|outcome| fine.iter().any(|words| outcome.starts_with(words)))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateVolume {
    /// 2 to 255 of A-Z, a-z, 0-9, `-`, `_` and `.`, with a letter or digit at both ends and no `..`.
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Volume {
    /// No other volume of the same name had it or will have it.
    pub id: String,
    pub name: String,
    pub tenant: String,
    pub created_at_ms: u64,
    /// The version that a sandbox gets; absent while it is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Of that version.
    pub files: u64,
    pub bytes: u64,
    /// Size of all its versions in the store.
    pub stored_bytes: u64,
    /// Versions that are kept.
    pub versions: u64,
    /// The sandbox that writes to it now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writer_until_ms: Option<u64>,
    /// Tenants that have it too, and how.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub shared: BTreeMap<String, VolumeMode>,
    pub encrypted: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct VolumeVersion {
    pub version: u64,
    /// `commit`, `checkpoint`, `kept` (after a failure) or `restore`.
    pub kind: String,
    pub at_ms: u64,
    pub by: String,
    /// The version that it was made from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    pub current: bool,
    pub files: u64,
    pub bytes: u64,
    /// Size that it added to the store.
    pub stored_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct VolumeFile {
    pub path: String,
    /// `file`, `directory` or `symlink`.
    pub kind: String,
    pub size: u64,
    pub mode: u32,
    pub modified_at_ms: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RestoreVolume {
    pub version: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ShareVolume {
    pub tenant: String,
    /// Absent takes it back.
    #[serde(default)]
    pub mode: Option<VolumeMode>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct VolumeList {
    pub volumes: Vec<Volume>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct VolumeHistory {
    /// The newest first.
    pub versions: Vec<VolumeVersion>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct VolumeFiles {
    pub files: Vec<VolumeFile>,
    /// There are more than are shown; ask for a path below.
    pub truncated: bool,
}
