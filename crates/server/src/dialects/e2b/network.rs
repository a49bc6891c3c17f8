//! E2B's rules for what leaves a sandbox, as rules of the gate. Rules of others open public addresses only.

use super::errors::{Refusal, Result};
use super::json::Json;
use super::sandboxes::find;
use crate::app::App;
use crate::auth::Caller;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use paddock_model::api::UpdateSandbox;
use paddock_model::net::{NetLayer, NetSetting};
use serde::Deserialize;
use serde_json::Value;
use std::net::IpAddr;

/// Every name and every public address, on all ports: what E2B allows where nothing else is said.
const EVERYTHING: [&str; 3] = ["*:*", "0.0.0.0/0:*", "[::]/0:*"];
/// E2B's word for all traffic.
const ALL_TRAFFIC: &str = "0.0.0.0/0";

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Network {
    allow_out: Option<Vec<String>>,
    deny_out: Option<Vec<String>>,
    #[serde(rename = "allow_internet_access")]
    internet: Option<bool>,
    dns_servers: Option<Vec<Value>>,
    egress_proxy: Option<Value>,
    rules: Option<Value>,
    mask_request_host: Option<String>,
    https_ports: Option<Vec<Value>>,
}

pub async fn update(
    State(app): State<App>,
    Caller(actor): Caller,
    Path(id): Path<String>,
    Json(wanted): Json<Network>,
) -> Result<StatusCode> {
    let sandbox = find(&app, &actor, &id).await?;
    let network = setting(wanted.internet, Some(&wanted))?;
    let change = UpdateSandbox { network: Some(network), ..UpdateSandbox::default() };
    app.fleet().update(&actor, &sandbox.id, change).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `internet`: false is the same as denying everything.
pub fn setting(internet: Option<bool>, wanted: Option<&Network>) -> Result<NetSetting> {
    let none = Network::default();
    let wanted = wanted.unwrap_or(&none);
    wanted.check()?;
    let allow = wanted.allow_out.as_deref().unwrap_or_default();
    let deny = wanted.deny_out.as_deref().unwrap_or_default();
    let denies_all = internet == Some(false) || deny.iter().any(|rule| rule == ALL_TRAFFIC);
    let layer = if denies_all {
        NetLayer {
            allow_public: allow.iter().map(|rule| on_all_ports(rule)).collect(),
            ..NetLayer::default()
        }
    } else if !allow.is_empty() && !deny.is_empty() {
        return Err(Refusal::invalid(
            "network: allowOut makes exceptions from denyOut only where denyOut is [\"0.0.0.0/0\"]; here a denial always wins",
        ));
    } else {
        NetLayer {
            allow_public: EVERYTHING.map(String::from).into(),
            deny: deny.iter().map(|rule| on_all_ports(rule)).collect(),
            ..NetLayer::default()
        }
    };
    Ok(NetSetting::Rules(layer))
}

impl Network {
    /// Refuses by name what the gate does not do for E2B's clients.
    fn check(&self) -> Result<()> {
        let is_some = |value: &Option<Value>| {
            value.as_ref().is_some_and(|value| !value.is_null() && *value != serde_json::json!({}))
        };
        let asked = [
            ("dnsServers", self.dns_servers.as_ref().is_some_and(|servers| !servers.is_empty())),
            ("egressProxy", is_some(&self.egress_proxy)),
            ("rules", is_some(&self.rules)),
            ("maskRequestHost", self.mask_request_host.is_some()),
            ("httpsPorts", self.https_ports.as_ref().is_some_and(|ports| !ports.is_empty())),
        ];
        match asked.iter().find(|(_, asked)| *asked) {
            Some((what, _)) => {
                Err(Refusal::invalid(format!("network.{what}: this server's E2B dialect does not have it")))
            }
            None => Ok(()),
        }
    }
}

/// As the gate's rules are written.
fn on_all_ports(rule: &str) -> String {
    let (address, block) =
        rule.split_once('/').map_or((rule, None), |(address, block)| (address, Some(block)));
    let address = match address.parse() {
        Ok(IpAddr::V6(_)) => format!("[{address}]"),
        _ => address.to_string(),
    };
    match block {
        Some(block) => format!("{address}/{block}:*"),
        None => format!("{address}:*"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    fn layer(internet: Option<bool>, wanted: Value) -> NetLayer {
        match setting(internet, Some(&from_value(wanted).expect("valid"))).expect("to be had") {
            NetSetting::Rules(layer) => layer,
            NetSetting::Word(word) => panic!("{word}"),
        }
    }

    #[test]
    fn by_default_everything_public_is_open() {
        assert_eq!(layer(None, json!({})).allow_public, EVERYTHING);
        let closed = layer(Some(false), json!({}));
        assert!(closed.allow_public.is_empty() && closed.allow.is_empty());
        assert_eq!(layer(None, json!({ "denyOut": ["8.8.8.8"] })).deny, ["8.8.8.8:*"]);
    }

    #[test]
    fn exceptions_from_a_denial_of_everything_are_the_only_way_out() {
        let found = layer(
            None,
            json!({ "allowOut": ["api.example.com", "1.1.1.0/24", "2606:4700::1111"], "denyOut": ["0.0.0.0/0"] }),
        );
        assert_eq!(found.allow_public, ["api.example.com:*", "1.1.1.0/24:*", "[2606:4700::1111]:*"]);
        assert!(found.deny.is_empty() && found.allow.is_empty());
        let both: Network =
            from_value(json!({ "allowOut": ["8.8.8.8"], "denyOut": ["8.0.0.0/8"] })).expect("valid");
        assert!(setting(None, Some(&both)).is_err());
        let proxy: Network = from_value(json!({ "egressProxy": { "url": "x" } })).expect("valid");
        assert!(setting(None, Some(&proxy)).expect_err("refused").message().contains("egressProxy"));
    }
}
