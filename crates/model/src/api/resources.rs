//! Typed values that are kept for scripts.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SetResource {
    /// Its type, a word of its owner's: `anthropic`, `postgresql`. Default: `variable` for text, else `object`.
    #[serde(rename = "type", default)]
    #[cfg_attr(feature = "schema", schema(pattern = "^[A-Za-z0-9_-]{1,64}$"))]
    pub kind: Option<String>,
    /// Any JSON; encrypted at rest.
    pub value: serde_json::Value,
    /// By the field (`apiKey`, `auth.token`; empty for the value itself): the hosts that this text is bound to. It never
    /// enters a sandbox, and no call shows it again: a placeholder stands for it inside, and the gate puts it into requests to
    /// these hosts.
    #[serde(default)]
    pub secrets: BTreeMap<String, Vec<String>>,
}

/// Its value is not printed.
impl std::fmt::Debug for SetResource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SetResource").field("kind", &self.kind).field("secrets", &self.secrets).finish()
    }
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Resource {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub updated_at_ms: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, Vec<String>>,
    /// Absent in lists, and for a read-only token. Text that is bound to hosts is replaced by words that say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<serde_json::Value>,
}

/// Its value is not printed.
impl std::fmt::Debug for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resource").field("name", &self.name).field("kind", &self.kind).finish()
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ResourceList {
    pub resources: Vec<Resource>,
}
