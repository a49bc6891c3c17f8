//! The things inside a job's sandbox besides its commands.

use crate::net::NetSetting;
use crate::secrets::SecretLayer;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A file that is there before the job runs: `text`, `base64`, or `from`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct JobInput {
    /// Where it lies inside; relative: below the job's directory.
    pub path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// Only in a job's file: a file or directory beside it, which `paddock job run` sends along.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Permission bits, default 0o644 (420).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(maximum = 4095))]
    pub mode: Option<u32>,
}

/// The rights of the job's sandboxes; a field that is left out is as the template has it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct JobPolicy {
    /// `none` (default), `host` (only for the host's owner), or rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetSetting>,
    /// Values that never enter; kept encrypted until the job has ended.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, SecretLayer>,
    /// `off`, `warn` or `deny`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scan: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_imports: Option<Vec<String>>,
    /// As of a sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live_forks: Option<bool>,
    /// As of a sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_may_install: Option<bool>,
    /// As of a sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub become_root: Option<bool>,
    /// As of a sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_certs: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tmpfs: Vec<String>,
    /// HOST[:INSIDE], read-only. Only for the host's owner.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<String>,
    /// HOST[:INSIDE], writable. Only for the host's owner.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<String>,
}
