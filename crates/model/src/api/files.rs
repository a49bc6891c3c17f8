//! Files inside. Paths are absolute, or relative to the sandbox's working directory; the guest resolves them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    File,
    Directory,
    Link,
    /// A pipe, socket or device.
    Other,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FileEntry {
    pub path: String,
    /// The path's bytes in base64, only where they are not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    pub kind: FileKind,
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub modified_at_ms: i64,
    /// Where a link points.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Extended attributes of the user's namespace that are text, by their names without `user.`; none where they have more than
    /// 3072 bytes. In answers about one file, and in lists.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
    /// What a link leads to in the end; absent where it leads nowhere. In the same answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved: Option<ResolvedLink>,
}

/// The file at the end of a link, through any number of links.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ResolvedLink {
    /// Absolute, and without links.
    pub path: String,
    pub kind: FileKind,
    /// Permission bits.
    pub mode: u32,
}

/// Where a path leads, through all links. Parts that are missing stay as they are written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ResolvedPath {
    /// Absolute, without links, `.` and `..`.
    pub path: String,
    /// The path's bytes in base64, only where they are not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// The file there; left out if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<FileEntry>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FilePage {
    pub entries: Vec<FileEntry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct MakeDirectory {
    pub path: String,
    /// Permission bits, default 0o755 (493).
    #[serde(default)]
    pub mode: Option<u32>,
    /// Make what is missing above it, and be content if it exists.
    #[serde(default)]
    pub parents: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct MoveFile {
    pub from: String,
    pub to: String,
    #[serde(default)]
    pub overwrite: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ChangeMode {
    pub path: String,
    pub mode: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum FileEventKind {
    /// The watch is set: what happens from here on is seen.
    Watching,
    Created,
    Modified,
    Deleted,
    MovedFrom,
    MovedTo,
    /// Permissions, owner or times.
    Attributes,
    /// The kernel dropped events: list again.
    Overflow,
    /// Nothing happened. A quiet watch says so every 15 s, so that a client notices a lost connection.
    Alive,
}

/// One line of `GET .../files/watch`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FileEvent {
    pub kind: FileEventKind,
    pub path: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SignPath {
    pub path: String,
    /// `read` or `write`.
    pub operation: String,
    #[cfg_attr(feature = "schema", schema(exclusive_minimum = 0.0, maximum = 604800.0))]
    pub expires_seconds: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SignedUrl {
    /// Relative to the server's own address; needs no token.
    pub url: String,
    pub expires_at_ms: u64,
}
