//! The nodes behind a gateway, as the gateway sees them.

use super::nodes::NodeReport;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `GET /v1/nodes` of a gateway.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ClusterNodes {
    pub nodes: Vec<ClusterNode>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ClusterNode {
    /// Absent: it has not said yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u16>,
    pub address: String,
    /// `ready`, `cordoned`, `draining`; `away`: nothing usable came for five seconds; `number_twice`: another node has its number.
    pub state: String,
    /// Why it gets no new sandboxes, where that is not its own wish.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// By the gateway's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard_at_ms: Option<u64>,
    pub labels: BTreeMap<String, String>,
    /// The last one, however old.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<NodeReport>,
}
