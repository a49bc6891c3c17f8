//! Rights to ports inside.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SignPort {
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 65535))]
    pub port: u16,
    #[cfg_attr(feature = "schema", schema(exclusive_minimum = 0.0, maximum = 86400.0))]
    pub expires_seconds: f64,
}

/// A right to one port of one sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SignedPort {
    /// The port with the right, relative to the server's own address; needs no other token.
    pub url: String,
    /// The name that the port has of its own, where the server was started with `--domain`. It takes the right as `url` does.
    pub host: Option<String>,
    /// The right alone: for the header `Authorization: Bearer`, or for the parameter or the cookie `paddock_token`.
    pub token: String,
    pub expires_at_ms: u64,
}
