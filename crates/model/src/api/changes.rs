//! The changes of a sandbox, and merging them back into its parent.

use super::files::FileEntry;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Since {
    /// Its own first moment: empty, its snapshot, or its parent at the time of the fork.
    #[default]
    Start,
    /// The snapshot that it began with; an error where it began with none.
    Snapshot,
    /// Its parent at the time of the fork; an error where it has none.
    Parent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    Added,
    Modified,
    Deleted,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Change {
    pub kind: ChangeKind,
    pub path: String,
    /// As it is now; absent for what was deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<FileEntry>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Changes {
    pub since: Since,
    /// Sorted by path.
    pub changes: Vec<Change>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct MergeRequest {
    /// The fork whose changes are wanted.
    pub from: String,
    /// Absolute paths; a directory means everything below it. Empty means all that the fork changed.
    #[serde(default)]
    pub paths: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MergeConflict {
    pub path: String,
    pub reason: String,
}

/// With conflicts nothing at all was merged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MergeReport {
    pub merged: Vec<Change>,
    pub conflicts: Vec<MergeConflict>,
    /// Left out, with the reason: pipes, sockets and devices. They keep nothing else from being merged.
    #[serde(default)]
    pub skipped: Vec<MergeConflict>,
}
