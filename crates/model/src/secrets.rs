//! A secret in one layer of policy: a value that never enters the sandbox.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The variable of its name holds a placeholder inside; the gate puts the value into requests to its hosts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct SecretLayer {
    /// The value itself; or `from`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub value: Option<SecretValue>,
    /// Where the value is read: `env:NAME` or `file:/PATH`, to a server only for the host's owner, for it is the server's
    /// environment and disk; or `resource:NAME[.FIELD]`, of the tenant's resources, for hosts that it is bound to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// `api.example.com`, `*.example.org:8443`. Without ports: 443. They are allowed by this, unless `deny` names them.
    pub hosts: Vec<String>,
    /// The only header that the value is put into; absent: the usual ones for credentials, such as `Authorization` and
    /// `X-API-Key`, and those of `headers`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// Headers besides the usual ones that the value is put into. A host that repeats one of them tells the value.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<String>,
    /// Headers that the gate sets itself in every request to the hosts, over what the program sent, such as `Authorization` to
    /// `Bearer {}`, where `{}` stands for the value. The program knows nothing of it: there is no variable inside.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub inject: BTreeMap<String, String>,
}

/// Never printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretValue(pub String);

impl std::fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(not shown)")
    }
}

impl SecretLayer {
    pub const KEYS: [&'static str; 6] = ["value", "from", "hosts", "header", "headers", "inject"];

    /// For audits and other readers: everything but the value.
    pub fn without_value(&self) -> SecretLayer {
        SecretLayer { value: None, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_not_printed() {
        let layer = SecretLayer { value: Some(SecretValue("sk-real".into())), ..SecretLayer::default() };
        assert!(!format!("{layer:?}").contains("sk-real"));
        assert_eq!(layer.without_value().value, None);
    }
}
