//! The server about itself.

use serde::{Deserialize, Serialize};

/// The fields that name processes and places of the host are the owner's only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ServerStatus {
    pub version: String,
    /// Whether a sandbox could be created now, as /readyz says.
    pub ready: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Its process on the host; the owner only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
    /// The owner only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_dir: Option<String>,
    /// The owner only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at_ms: Option<u64>,
    /// Where it listens besides its socket, as URLs; the owner only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// Of all tenants; the owner only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandboxes: Option<SandboxCounts>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SandboxCounts {
    pub creating: u64,
    pub running: u64,
    pub paused: u64,
    pub hibernated: u64,
}
