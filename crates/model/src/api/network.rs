//! The network rules of a sandbox, and the decisions of its gate.

use crate::net::{NetEvent, NetOutcome, NetRules};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NetworkView {
    /// `none`, `host`, or `gate` where there are rules.
    pub network: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Object>))]
    pub rules: Option<NetRules>,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    /// That are open now.
    pub connections: u64,
    /// The last 500 at most; all are in the audit.
    pub decisions: Vec<NetworkDecision>,
    /// Number of the last decision, to ask for those after it.
    pub last: u64,
    /// The rules that what was tried would have needed, as `allow` takes them.
    pub needed: Vec<String>,
    /// True if more hosts were tried than are kept.
    pub needed_more: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NetworkDecision {
    pub number: u64,
    pub at_ms: u64,
    /// Which way was tried: `dns`, `connect`, `http`, `tunnel`, `socks`, `udp`, `icmp` or `other`.
    pub way: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// `allowed`, `denied` or `closed`.
    pub verdict: String,
    /// In words.
    pub reason: String,
    /// How to allow what was denied, in one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// Of a connection that has closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received_bytes: Option<u64>,
    /// How often it happened since it was last told.
    pub count: u64,
}

impl NetworkDecision {
    pub fn new(number: u64, event: &NetEvent) -> NetworkDecision {
        let (verdict, reason, moved) = match &event.outcome {
            NetOutcome::Allowed(grant) => ("allowed", grant.to_string(), None),
            NetOutcome::Denied(denial) => ("denied", denial.to_string(), None),
            NetOutcome::Closed { sent, received, why } => {
                let reason = why.as_ref().map_or_else(|| "at its end".to_string(), ToString::to_string);
                ("closed", reason, Some((*sent, *received)))
            }
        };
        NetworkDecision {
            number,
            at_ms: event.time,
            way: event.way.name().into(),
            name: event.name.as_ref().map(ToString::to_string),
            address: event.address.map(|address| address.to_string()),
            port: event.port,
            verdict: verdict.into(),
            reason,
            advice: event.advice(),
            sent_bytes: moved.map(|(sent, _)| sent),
            received_bytes: moved.map(|(_, received)| received),
            count: event.count,
        }
    }
}
