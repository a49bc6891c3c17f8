//! A secret as the settings ask for it: a value, and the hosts that may have it.

use paddock_model::net::Rule;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use zeroize::Zeroizing;

/// A secret that was asked for and checked.
#[derive(Clone, Serialize, Deserialize)]
pub struct Bound {
    pub name: String,
    pub value: Zeroizing<String>,
    pub hosts: Vec<Rule>,
    /// The only header; without it the usual headers and `headers`.
    pub header: Option<String>,
    #[serde(default)]
    pub headers: Vec<String>,
    /// Headers that the gate sets, with `{}` for the value.
    #[serde(default)]
    pub inject: BTreeMap<String, String>,
}

/// Never shows the value.
impl std::fmt::Debug for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bound").field("name", &self.name).field("hosts", &self.hosts).finish_non_exhaustive()
    }
}
