//! A server as one node of many: what it reports to a gateway, and what a gateway tells it of a caller.

use super::access::{Quota, Role};
use super::server::SandboxCounts;
use crate::check_template_name;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The gateway's key. Names of headers are in lower case, as HTTP/2 has them.
pub const GATEWAY_HEADER: &str = "paddock-gateway";
/// The version of the protocol between gateway and node, in decimal.
pub const GATEWAY_PROTOCOL_HEADER: &str = "paddock-gateway-protocol";
/// A [`GatewayCaller`], encoded.
pub const GATEWAY_CALLER_HEADER: &str = "paddock-caller";
/// With a request whose Host names a port inside, so that no node takes its path for a route of its own.
pub const GATEWAY_PORT_HEADER: &str = "paddock-port";
/// The version that this build speaks. It understands one older and one newer.
pub const GATEWAY_PROTOCOL: u32 = 1;

/// True if two sides that speak these versions understand each other.
pub fn gateway_protocols_meet(one: u32, other: u32) -> bool {
    one.abs_diff(other) <= 1
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum NodeState {
    /// It takes new sandboxes.
    Ready,
    /// Its sandboxes go on, and it takes no new one.
    Cordoned,
    /// It takes no new sandbox, and those it has leave it.
    Draining,
}

/// A pool of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NodePool {
    pub template: String,
    /// Absent: it serves every tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Sandboxes that wait in it.
    pub ready: u32,
}

/// What a node says of itself, for the placement of sandboxes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NodeReport {
    /// 0 to 4095. Ids of this node begin with it, as three hexadecimal digits. Absent: the server was started without `--node`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u16>,
    /// For people: `--node-name`, else the name of the host.
    pub name: String,
    /// The version of the protocol between gateway and node.
    pub protocol: u32,
    /// Of Paddock.
    pub version: String,
    pub state: NodeState,
    pub started_at_ms: u64,
    /// The node's clock.
    pub at_ms: u64,
    /// Sandboxes by state, of all tenants.
    pub live: SandboxCounts,
    /// The most live sandboxes: as many as there are while the host has no memory left for more. Absent: there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    pub processors: u32,
    /// Of the host, or of the server's control group where that has less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_available_bytes: Option<u64>,
    /// Backends whose parts this host has. `paddock doctor` says whether they work.
    pub backends: Vec<String>,
    /// Names of guarantees (`require`) that a sandbox could have, for each of those backends. Not all of them can be had together. Absent:
    /// an older node, which does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guarantees: Option<BTreeMap<String, Vec<String>>>,
    pub pools: Vec<NodePool>,
    /// Names of templates that it has.
    pub templates: Vec<String>,
    /// From `--label`.
    pub labels: BTreeMap<String, String>,
    /// Live sandboxes of each tenant that has any.
    pub tenants: BTreeMap<String, u32>,
}

/// The caller of a request that a gateway passes on, in the header `Paddock-Caller`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatewayCaller {
    pub tenant: String,
    pub role: Role,
    /// True only for requests that came through the gateway's own unix socket.
    #[serde(default)]
    pub owner: bool,
    /// The id of the token that the gateway was shown, or `owner`; not secret.
    pub token: String,
    /// True: the client has shown no token, only a right that names this one (an access token of E2B, a signed URL, a right to a port).
    /// The node checks the right itself; for all else the client is a stranger.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub derived: bool,
    /// The tenant's quota. The node uses it instead of its own, from this request on until it is told another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Quota>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GatewayCallerError {
    TooLong,
    NotBase64,
    /// Without the text, which could be anything.
    NotACaller(String),
    Tenant(String),
    Token,
    Quota,
    DerivedOwner,
}

impl std::fmt::Display for GatewayCallerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            GatewayCallerError::TooLong => {
                write!(f, "it is longer than {} bytes", GatewayCaller::LONGEST)
            }
            GatewayCallerError::NotBase64 => f.write_str("it is not base64url without padding"),
            GatewayCallerError::NotACaller(why) => write!(f, "it is not a caller in JSON: {why}"),
            GatewayCallerError::Tenant(why) => f.write_str(why),
            GatewayCallerError::Token => {
                f.write_str("its token is not `tk-` and 16 hexadecimal digits, or `owner` for the owner")
            }
            GatewayCallerError::DerivedOwner => f.write_str("no right is derived from the owner's socket"),
            GatewayCallerError::Quota => f.write_str("its quota of cpus is not a number above 0"),
        }
    }
}

impl std::error::Error for GatewayCallerError {}

impl GatewayCaller {
    /// The longest value of the header, in bytes.
    pub const LONGEST: usize = 2048;

    /// The value of the header, or an error where [`GatewayCaller::decode`] would refuse it.
    pub fn encode(&self) -> Result<String, GatewayCallerError> {
        self.check()?;
        let json = serde_json::to_vec(self).map_err(|error| GatewayCallerError::NotACaller(place(&error)))?;
        let text = URL_SAFE_NO_PAD.encode(json);
        if text.len() > Self::LONGEST { Err(GatewayCallerError::TooLong) } else { Ok(text) }
    }

    pub fn decode(text: &str) -> Result<GatewayCaller, GatewayCallerError> {
        if text.len() > Self::LONGEST {
            return Err(GatewayCallerError::TooLong);
        }
        let json = URL_SAFE_NO_PAD.decode(text).map_err(|_| GatewayCallerError::NotBase64)?;
        let caller: GatewayCaller =
            serde_json::from_slice(&json).map_err(|error| GatewayCallerError::NotACaller(place(&error)))?;
        caller.check()?;
        Ok(caller)
    }

    fn check(&self) -> Result<(), GatewayCallerError> {
        // The same rule as for the tenant of a token.
        check_template_name(&self.tenant).map_err(|error| {
            GatewayCallerError::Tenant(format!("its tenant is not allowed: {}", error.rule))
        })?;
        // Another word could stand for a right of the node's own.
        let digits = self.token.strip_prefix("tk-").unwrap_or_default();
        let is_token = digits.len() == 16 && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if !(if self.owner { self.token == "owner" } else { is_token }) {
            return Err(GatewayCallerError::Token);
        }
        if self.derived && self.owner {
            return Err(GatewayCallerError::DerivedOwner);
        }
        let cpus = self.quota.as_ref().and_then(|quota| quota.cpus);
        if cpus.is_some_and(|cpus| !(cpus.is_finite() && cpus > 0.0)) {
            return Err(GatewayCallerError::Quota);
        }
        Ok(())
    }
}

/// The kind of a JSON error and its place, without a part of the text.
fn place(error: &serde_json::Error) -> String {
    let kind = match error.classify() {
        serde_json::error::Category::Data => "a field is missing, unknown, twice or of another type",
        _ => "the syntax is wrong",
    };
    format!("{kind}, at column {}", error.column())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller() -> GatewayCaller {
        GatewayCaller {
            tenant: "acme".into(),
            role: Role::ReadOnly,
            owner: false,
            token: "tk-0000000000000001".into(),
            derived: false,
            quota: Some(Quota { live_sandboxes: Some(3), ..Quota::default() }),
        }
    }

    #[test]
    fn a_caller_round_trips() {
        for caller in [
            caller(),
            GatewayCaller { derived: true, ..caller() },
            GatewayCaller { owner: true, token: "owner".into(), quota: None, ..caller() },
        ] {
            let text = caller.encode().unwrap();
            assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')));
            assert_eq!(GatewayCaller::decode(&text), Ok(caller));
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let decode = |json: &str| GatewayCaller::decode(&URL_SAFE_NO_PAD.encode(json));
        decode(r#"{"tenant":"a","role":"user","token":"tk-0000000000000001"}"#).unwrap();
        for bad in [
            "",
            "[]",
            "null",
            r#"{"tenant":"a","role":"user"}"#,
            r#"{"tenant":"a","role":"root","token":"tk-0000000000000001"}"#,
            r#"{"tenant":"a","role":"user","token":"tk-0000000000000001","extra":1}"#,
            r#"{"tenant":"a","tenant":"b","role":"user","token":"tk-0000000000000001"}"#,
            r#"{"tenant":"a","role":"user","token":"tk-0000000000000001","owner":1}"#,
            r#"{"tenant":"a","role":"user","token":"owner","owner":true,"derived":true}"#,
            r#"{"tenant":"","role":"user","token":"tk-0000000000000001"}"#,
            r#"{"tenant":"../a","role":"user","token":"tk-0000000000000001"}"#,
            r#"{"tenant":"A","role":"user","token":"tk-0000000000000001"}"#,
            r#"{"tenant":"a","role":"user","token":""}"#,
            r#"{"tenant":"a","role":"user","token":"owner"}"#,
            r#"{"tenant":"a","role":"user","token":"tk-000000000000000A"}"#,
            r#"{"tenant":"a","role":"user","token":"tk-0000000000000001","owner":true}"#,
            r#"{"tenant":"a","role":"user","token":"a\nb"}"#,
            r#"{"tenant":"a","role":"user","token":"tk-0000000000000001","quota":{"cpus":-1}}"#,
            r#"{"tenant":"a","role":"user","token":"tk-0000000000000001","quota":{"other":1}}"#,
            r#"{"tenant":"a","role":"user","token":"tk-0000000000000001"} x"#,
        ] {
            let error = decode(bad).expect_err(bad).to_string();
            assert!(!error.contains("tk-0"), "{error}");
        }
        for bad in ["a", "e30=", "{}", "e30 ", &"A".repeat(GatewayCaller::LONGEST + 1)] {
            GatewayCaller::decode(bad).expect_err(bad);
        }
        GatewayCaller { tenant: "A".into(), ..caller() }.encode().expect_err("never sent");
    }

    #[test]
    fn versions_that_differ_by_one_understand_each_other() {
        assert!(gateway_protocols_meet(1, 1) && gateway_protocols_meet(1, 2) && gateway_protocols_meet(2, 1));
        assert!(!gateway_protocols_meet(1, 3) && !gateway_protocols_meet(3, 1));
    }
}
