use serde::{Deserialize, Serialize};

/// Every answer that is not a success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ApiError {
    /// Stable, for programs: `sandbox_not_found`, `quota_exceeded`, ...
    pub code: String,
    /// What was wrong, with which value.
    pub message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    pub request_id: String,
}
