//! The server about itself.

use serde::{Deserialize, Serialize};

/// The fields that name processes and places of the host are the owner's only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ServerStatus {
    pub version: String,
    /// True if a sandbox could be created now, as /readyz says.
    pub ready: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Pages behind a port are at `{port}-{id}.` and this name; absent: the server was started without `--domain`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports_domain: Option<String>,
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

/// The server and its host now.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ServerLoad {
    pub at_ms: u64,
    /// When the server began.
    pub started_at_ms: u64,
    /// Where it listens besides its socket, as URLs.
    pub addresses: Vec<String>,
    /// Of all tenants.
    pub sandboxes: SandboxCounts,
    pub creates: CreateNumbers,
    /// Commands that were started.
    pub execs_total: u64,
    pub host: HostLoad,
    /// Of the server's own process.
    pub server: ProcessLoad,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CreateNumbers {
    pub created_total: u64,
    pub failed_total: u64,
    /// Creates that wait for room.
    pub waiting: u64,
    /// The time of half of the last creates by `POST /v1/sandboxes`, 500 at most, and of 95 % of them; absent before the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95_ms: Option<f64>,
    /// The last hour, the oldest minute first; minutes without a create are left out.
    pub minutes: Vec<MinuteOfCreates>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MinuteOfCreates {
    /// The minute's beginning.
    pub at_ms: u64,
    pub created: u32,
    pub failed: u32,
}

/// A field is absent where the host does not say it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct HostLoad {
    pub processors: u32,
    /// Of all processors together since the host began, so that two answers give the use between them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processor_busy_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_available_bytes: Option<u64>,
    /// Below so much available memory load is shed; 0: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_keep_free_bytes: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ProcessLoad {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Since it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<u64>,
}
