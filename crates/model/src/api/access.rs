//! Tokens, roles and quotas: the rights of callers, and their limits.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Everything of its tenant, and its tokens.
    Admin,
    /// Everything of its tenant but tokens.
    User,
    /// Looks, and changes nothing.
    ReadOnly,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateToken {
    /// 1 to 64 of a-z, 0-9, `-`, `_` and `.`. Other tenants than one's own only for the host's owner.
    #[serde(default)]
    pub tenant: Option<String>,
    pub role: Role,
    /// For people.
    #[serde(default)]
    pub label: Option<String>,
    /// It ends by itself so many seconds from now; absent: it is valid until it is revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(exclusive_minimum = 0.0, maximum = 31622400.0))]
    pub ttl_seconds: Option<f64>,
}

/// What changes of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct UpdateToken {
    pub role: Role,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Token {
    /// `tk-` and 16 hexadecimal digits; not secret.
    pub id: String,
    pub tenant: String,
    pub role: Role,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    pub created_at_ms: u64,
    /// When it ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<u64>,
}

impl Token {
    pub fn has_expired(&self, now_ms: u64) -> bool {
        self.expires_at_ms.is_some_and(|end| end <= now_ms)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CreatedToken {
    #[serde(flatten)]
    pub token: Token,
    /// Shown once: only its hash is kept.
    pub secret: String,
}

/// A code that a browser exchanges for a token, once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateSignInCode {
    /// Other tenants than one's own only for the host's owner.
    #[serde(default)]
    pub tenant: Option<String>,
    pub role: Role,
    /// How long the token will be valid, from the exchange. Default 28800 (8 hours).
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(exclusive_minimum = 0.0, maximum = 604800.0))]
    pub token_seconds: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SignInCode {
    /// Good for one exchange, and secret until then.
    pub code: String,
    pub expires_at_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SignIn {
    pub code: String,
}

/// The most that a tenant may have at one time; absent is unlimited.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Quota {
    pub live_sandboxes: Option<u32>,
    /// Sum of the cpu limits of live sandboxes.
    pub cpus: Option<f64>,
    /// Sum of the memory limits of live sandboxes.
    pub memory_bytes: Option<u64>,
    pub creates_per_minute: Option<u32>,
    pub volumes: Option<u32>,
    /// The most that all its volumes may hold, each in its current version.
    pub volume_bytes: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TenantUsage {
    pub live_sandboxes: u32,
    pub cpus: f64,
    pub memory_bytes: u64,
    /// Creates that wait for room.
    pub waiting: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Tenant {
    pub name: String,
    pub quota: Quota,
    pub usage: TenantUsage,
}
