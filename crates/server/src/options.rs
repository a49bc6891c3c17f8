//! The settings of a server.

use crate::gateway_key::GatewayKey;
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Ports inside are at `{port}-{id}.{domain}`; its names are allowed as Host.
    pub domain: Option<String>,
    /// Further names (or `name:port`) that are allowed as Host and as Origin.
    pub allow_hosts: Vec<String>,
    /// End when for this long no sandbox lived and no request came.
    pub idle_exit: Option<Duration>,
    /// Every client may read /metrics; else only the owner by the socket, and admin tokens of the tenant `owner`.
    pub open_metrics: bool,
    /// The key of the gateway whose word on a caller counts; `None`: there is no gateway.
    pub gateway_key: Option<GatewayKey>,
    /// For people; `None`: the name of the host.
    pub node_name: Option<String>,
    /// For the choice of a node.
    pub labels: BTreeMap<String, String>,
    pub limits: ServerLimits,
}

/// Bounds on the memory and the time that strangers can cost the server.
#[derive(Debug, Clone)]
pub struct ServerLimits {
    /// Per listener, so that a flood over TCP leaves the owner's socket free.
    pub connections: usize,
    /// The most of these whose client has shown no right yet: all of them, and of one peer.
    pub strangers: usize,
    pub strangers_per_peer: usize,
    /// How long such a connection may be without a request.
    pub stranger_time: Duration,
    pub json_bytes: usize,
    pub header_bytes: usize,
    pub header_count: usize,
    /// Time for the handshake, and for the head of each request.
    pub head_timeout: Duration,
    /// Time for a JSON body, and between two pieces of an upload.
    pub body_timeout: Duration,
    /// Time for the requests under way when the server shall end.
    pub shutdown_grace: Duration,
    pub concurrent_streams: u32,
}

impl Default for ServerLimits {
    fn default() -> ServerLimits {
        ServerLimits {
            connections: 4096,
            strangers: 1024,
            strangers_per_peer: 256,
            stranger_time: Duration::from_secs(10),
            json_bytes: 8 << 20,
            header_bytes: 64 << 10,
            header_count: 100,
            head_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(60),
            shutdown_grace: Duration::from_secs(5),
            concurrent_streams: 256,
        }
    }
}
