//! Several candidates from one state: each runs in a sandbox of its own, a verifier judges it, the best one's changes come back.

use super::spec::JobCommand;
use crate::api::Change;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct BestOf {
    /// A sandbox (id or name) whose files, as they are when the job is sent, all candidates begin with. Without it they
    /// begin with the job's `snapshot`, `template` or `image`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// 1 to 100.
    #[cfg_attr(feature = "schema", schema(min_items = 1, max_items = 100))]
    pub candidates: Vec<Candidate>,
    pub verifier: Verifier,
    #[serde(default)]
    pub rule: BestRule,
    /// With `best_score`: a candidate that has so much wins at once, and the others are stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enough: Option<f64>,
}

/// The work that is tried: one of `command` and `code`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Candidate {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<JobCommand>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
}

/// Runs after a candidate that did not fail, in its sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Verifier {
    pub command: JobCommand,
    #[serde(default)]
    pub score: ScoreFrom,
    /// Default 600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(exclusive_minimum = 0.0, maximum = 604800.0))]
    pub timeout_seconds: Option<f64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ScoreFrom {
    /// Exit code 0 is a score of 1; anything else fails.
    #[default]
    Exit,
    /// The last line that it prints is a number, or an object whose `score` is one; an exit code other than 0 fails.
    Json,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum BestRule {
    /// The first that the verifier lets pass wins; the others are stopped.
    #[default]
    FirstPass,
    /// All run; the highest score wins, and of equal ones the lowest number.
    BestScore,
}

/// The winner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JobBest {
    /// The candidate's number, from 0.
    pub index: u32,
    pub score: f64,
    /// Its changes; at most 10,000 paths. The patch is the artifact `winner.patch` of its task.
    pub changes: Vec<Change>,
    /// There were more.
    pub truncated: bool,
}
