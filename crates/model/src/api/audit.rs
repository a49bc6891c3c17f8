//! The outputs in a sandbox's timeline.

use super::CodeError;
use serde::{Deserialize, Serialize};

/// The output of one call, as the audit keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AuditOutput {
    /// The entry of the timeline that tells of the call's end.
    pub seq: u64,
    pub at_ms: u64,
    pub exec: u32,
    pub state: AuditOutputState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout: Option<AuditStream>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<AuditStream>,
    /// Of code, in the form of `results` of an exec. Representations over 4 KiB are replaced by their length and digest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schema(value_type = Vec<Object>))]
    pub results: Vec<serde_json::Value>,
    #[serde(default)]
    pub results_left_out: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<CodeError>,
    /// True if the entry is signed by this server, names exactly this output, and has the digest of every stream of which nothing
    /// was left out.
    pub verified: bool,
    /// The reason why it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum AuditOutputState {
    Kept,
    /// The call printed and returned nothing.
    Nothing,
    /// A policy, or the owner of the server, keeps no outputs.
    Off,
    /// The sandbox had printed more than is kept of one.
    Full,
    /// The disk did not take it.
    Failed,
    /// It was removed to make room for newer ones, or was kept by nobody.
    Removed,
}

/// The kept part of one stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AuditStream {
    /// Of all that was printed, as the signed entry has it.
    pub bytes: u64,
    pub sha256: String,
    /// Base64 of the beginning, at most 32 KiB.
    pub first: String,
    /// Bytes between the two parts.
    pub left_out: u64,
    /// Base64 of the end, at most 32 KiB.
    pub last: String,
}
