//! Secrets that are kept under a name. No call shows a value again.

use crate::SecretValue;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateSecret {
    /// 1 to 256 characters, without control characters, `{` and `}`.
    pub name: String,
    /// 8 to 16,384 printable characters; encrypted at rest, and never shown.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub value: SecretValue,
    /// Its owner's own words about it, which are shown.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    /// The hosts that it may be sent to. A sandbox has it with `from = "secret:NAME"` of its secrets, for these hosts and no others.
    #[serde(default)]
    pub hosts: Vec<String>,
}

/// A new value, as the next version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct UpdateSecret {
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub value: SecretValue,
    /// Absent: as before.
    #[serde(default)]
    pub metadata: Option<BTreeMap<String, String>>,
    /// Absent: as before.
    #[serde(default)]
    pub hosts: Option<Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Secret {
    pub id: String,
    pub name: String,
    /// 1 for the first value; each new value is one more. Only the last one is kept.
    pub version: u64,
    pub created_at_ms: u64,
    pub updated_at_ms: u64,
    pub metadata: BTreeMap<String, String>,
    pub hosts: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SecretPage {
    /// The newest first.
    pub secrets: Vec<Secret>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}
