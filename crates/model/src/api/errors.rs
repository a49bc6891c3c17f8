use crate::scan::Finding;
use serde::{Deserialize, Serialize};

/// Every answer that is not a success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ApiError {
    /// Stable, for programs: `sandbox_not_found`, `quota_exceeded`, ...
    pub code: String,
    /// The mistake, with the value.
    pub message: String,
    /// The way to mend it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    pub request_id: String,
    /// Fields that only some codes have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<ErrorDetails>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct ErrorDetails {
    /// Of `scan_denied`: what was found in the code, at most 100.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// Findings beyond those.
    pub findings_missing: u64,
}
