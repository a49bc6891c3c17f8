//! Named states of a sandbox's files, and forks.

use super::sandboxes::Sandbox;
use crate::ForkKind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct CreateSnapshot {
    /// Unique among the tenant's snapshots.
    pub name: Option<String>,
    /// True: the code contexts are kept too, with all that they know, so that a sandbox with the snapshot begins with them. They
    /// are kept in memory, in a sandbox that counts as one of the tenant's, until the snapshot is deleted or was not used for a
    /// day. An error if one cannot be.
    pub live: bool,
    /// Whether its memory is kept too, so that a sandbox with the snapshot goes on where this one stood. By default it is where the
    /// backend keeps memory. `true`: it is an error where the backend does not. `false`: the files alone are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Snapshot {
    /// `sn-` and 16 hexadecimal digits.
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub tenant: String,
    /// The sandbox that it was taken of.
    pub sandbox: String,
    pub created_at_ms: u64,
    /// Its content: `filesystem`; or `interpreter`, which is that and code contexts; or `memory` and that.
    pub kind: String,
    /// Of one that keeps memory: the backend that a sandbox needs to go on with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// The template of its sandbox. What begins with the snapshot has the settings that this sandbox had, unless the request names a
    /// template or other settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// The image that its files were written over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The user of commands; absent: `agent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Where commands start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Its sandbox had `root_may_install`. What begins with the snapshot has it where the request asks for it and its caller may.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub root_may_install: bool,
    /// Its sandbox had `become_root`; likewise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub become_root: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SnapshotPage {
    pub snapshots: Vec<Snapshot>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Fork {
    /// 1 to 100; default 1.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 100))]
    pub count: Option<u32>,
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(exclusive_minimum = 0.0, maximum = 31622400.0))]
    pub ttl_seconds: Option<f64>,
    /// Added to the source's.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    /// True: the children get the source's secrets too; by default they have none.
    #[serde(default)]
    pub secrets: bool,
    /// True: code contexts go along, with all that they know. By default those that can, unless another token made the source:
    /// its code has rights over forks with its contexts. The others begin anew, and the answer says why. `true`: it is an error
    /// if one cannot. `false`: only files.
    #[serde(default)]
    pub live: Option<bool>,
    /// True: each fork is made or fails by itself, and `failed` of the answer says why; each takes room that is free at once, and
    /// none waits for it. By default all are made or none.
    // Not written where it is unset: the fingerprint of a request with an idempotency key stays as it was.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Forked {
    pub sandboxes: Vec<Sandbox>,
    /// The state that the children began with.
    #[serde(default)]
    pub kind: ForkKind,
    /// Why it is not more than files, where it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The fate of the source's contexts in each child.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contexts: Vec<ForkedContext>,
    /// Commands that ran in the source, and do not in the children.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_behind: Vec<LeftBehind>,
    /// With `partial`: the forks that were not made, by their places.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<NotForked>,
}

/// One of several forks that was not made, while others may have been.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NotForked {
    /// Its place among all that were asked for, from 0. `sandboxes` has those of the other places, in their order.
    pub place: u32,
    /// The status that a request for this one alone would have been answered with.
    pub status: u16,
    /// As in an error.
    pub code: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Time after which there may be room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u32>,
}

/// One context of the source, in one child.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ForkedContext {
    pub sandbox: String,
    pub context: String,
    /// True if it goes on with all that it knew.
    pub carried: bool,
    /// Why it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How long the source's interpreter stood still for it, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stood_still_us: Option<u64>,
    /// Files that it had open and has no more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub closed: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LeftBehind {
    pub exec: u32,
    pub command: String,
}
