//! The last results of `paddock verify` on the server's host.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct VerifyResults {
    /// By backend: its last complete run, and behind it a later one that tried some groups only.
    pub results: Vec<VerifyResult>,
}

/// One run of `paddock verify`, as far as it was about one backend.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct VerifyResult {
    pub backend: String,
    /// When it ended.
    pub at_ms: u64,
    pub seconds: f64,
    /// Of the Paddock that was verified.
    pub version: String,
    /// The kernel of the host, as in `6.18.5`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The groups, lines or attacks that were asked for; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<String>,
    /// True if it ran, every attack that applies was held, and nothing was left behind.
    pub held: bool,
    /// The letters of the groups, and the subject of each.
    pub groups: BTreeMap<String, String>,
    /// By engine and user inside; empty where the host does not have the backend.
    pub rows: Vec<VerifyRow>,
    /// Why it was not tried, by engine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_run: Vec<VerifyLack>,
    /// The remains of the whole run on the host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_behind: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct VerifyRow {
    /// `root` or `rootless`: the user that Paddock ran as.
    pub engine: String,
    /// The user inside.
    pub user: String,
    pub attacks: Vec<VerifyAttack>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct VerifyAttack {
    /// Its first letter is its group.
    pub id: String,
    pub title: String,
    pub verdict: VerifyVerdict,
    /// Why, of one that was not held or does not apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum VerifyVerdict {
    Held,
    Failed,
    /// The host lacks something that the attack needs; `detail` says what.
    NotApplicable,
}

/// A backend that the host does not have for this engine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct VerifyLack {
    pub engine: String,
    pub reason: String,
}
