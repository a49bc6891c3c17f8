//! E2B's rules for what leaves a sandbox, as rules of the gate. Rules of others open public addresses only.

use super::errors::{Refusal, Result};
use super::header_rules::{self, HeaderRules};
use super::json::Json;
use super::labels::{NETWORK_LABEL, ShownNetwork};
use super::ports;
use super::sandboxes::find;
use crate::app::App;
use crate::auth::Caller;
use crate::errors::shorten;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use paddock_fleet::OwnChanges;
use paddock_model::SecretLayer;
use paddock_model::api::UpdateSandbox;
use paddock_model::net::{NetLayer, NetSetting};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Every name and every public address, on all ports: what E2B allows where nothing else is said.
const EVERYTHING: [&str; 3] = ["*:*", "0.0.0.0/0:*", "[::]/0:*"];
/// Of the description that is kept for a look.
const LONGEST_LABEL: usize = 8 << 10;
/// The gate takes no more rules than these.
pub const MOST_BLOCKS: usize = 1024;
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
    rules: Option<HeaderRules>,
    allow_public_traffic: Option<bool>,
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
    let network = Some(setting(wanted.internet, Some(&wanted))?);
    let ports = ports::settings(&app, &actor, wanted.public_traffic(), wanted.request_host()).await?;
    let ports = (!ports.is_default()).then_some(ports);
    let change = UpdateSandbox { network, ports, ..UpdateSandbox::default() };
    let secrets = Some(header_rules::instead(wanted.secrets()?));
    let labels = [(NETWORK_LABEL.to_string(), label(wanted.internet, Some(&wanted)).map(|(_, text)| text))];
    let own = OwnChanges { labels: labels.into(), secrets };
    app.fleet().update_with(&actor, &sandbox.id, change, own).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The label by which a look at the sandbox tells its network. A description that is too long for a label is not told.
pub fn label(internet: Option<bool>, wanted: Option<&Network>) -> Option<(String, String)> {
    if internet.is_none() && wanted.is_none() {
        return None;
    }
    let shown = ShownNetwork { internet, network: wanted.map_or_else(|| json!({}), Network::shown) };
    let text = serde_json::to_string(&shown).ok().filter(|text| text.len() <= LONGEST_LABEL);
    text.map(|text| (NETWORK_LABEL.to_string(), text))
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
        // With E2B a rule for a host does not open it; a secret of the gate would.
        let closed = wanted.rules.iter().flat_map(header_rules::hosts);
        let closed = closed.filter(|host| !allow.iter().any(|rule| is_within(host, rule)));
        NetLayer {
            allow_public: allow.iter().map(|rule| on_all_ports(rule)).collect(),
            deny: closed.map(|host| on_all_ports(host_alone(host))).collect(),
            ..NetLayer::default()
        }
    } else {
        NetLayer {
            allow_public: EVERYTHING.map(String::from).into(),
            deny: without_exceptions(deny, allow)?,
            ..NetLayer::default()
        }
    };
    Ok(NetSetting::Rules(layer))
}

impl Network {
    pub fn public_traffic(&self) -> Option<bool> {
        self.allow_public_traffic
    }

    pub fn request_host(&self) -> Option<&str> {
        self.mask_request_host.as_deref()
    }

    /// For a look at the sandbox: what was asked for, with the names of headers and without their values, unless these name secrets.
    fn shown(&self) -> Value {
        let mut shown = serde_json::Map::new();
        let mut put =
            |name: &str, value: Option<Value>| shown.extend(value.map(|value| (name.into(), value)));
        put("allowOut", self.allow_out.as_ref().map(|rules| json!(rules)));
        put("denyOut", self.deny_out.as_ref().map(|rules| json!(rules)));
        put("rules", self.rules.as_ref().map(header_rules::shown));
        Value::Object(shown)
    }

    /// The secrets that stand for the headers of `rules`.
    pub fn secrets(&self) -> Result<BTreeMap<String, SecretLayer>> {
        self.rules.as_ref().map_or(Ok(BTreeMap::new()), header_rules::secrets)
    }

    /// Refuses by name what the gate does not do for E2B's clients.
    fn check(&self) -> Result<()> {
        let is_some = |value: &Option<Value>| {
            value.as_ref().is_some_and(|value| !value.is_null() && *value != json!({}))
        };
        let asked = [
            (
                "dnsServers",
                "names are resolved by the gate, and no UDP passes it; leave it out, allowed names work without",
                self.dns_servers.as_ref().is_some_and(|servers| !servers.is_empty()),
            ),
            (
                "egressProxy",
                "the gate checks the address of each connection and opens it itself, which a proxy would do in its place; leave it out, and \
                 name what is to be reached in allowOut",
                is_some(&self.egress_proxy),
            ),
            (
                "httpsPorts",
                "the server speaks plain HTTP to a port inside; serve HTTP there, TLS is the server's",
                self.https_ports.as_ref().is_some_and(|ports| !ports.is_empty()),
            ),
        ];
        match asked.iter().find(|(_, _, asked)| *asked) {
            Some((what, why, _)) => {
                Err(Refusal::invalid(format!("network.{what}: this server does not have it: {why}")))
            }
            None => Ok(()),
        }
    }
}

/// True if an entry of `allowOut` is for this host of `rules`.
fn is_within(host: &str, rule: &str) -> bool {
    let host = host_alone(host);
    rule.eq_ignore_ascii_case(host)
        || rule.strip_prefix('*').is_some_and(|end| {
            end.starts_with('.') && host.to_ascii_lowercase().ends_with(&end.to_ascii_lowercase())
        })
}

fn host_alone(host: &str) -> &str {
    host.split_once(':').map_or(host, |(name, _)| name)
}

/// With E2B an allowed address wins over a denied block around it, and with the gate a denial always wins. So the blocks are
/// denied without the addresses that are allowed. Names are exceptions from a denial of everything alone, as E2B has it.
fn without_exceptions(deny: &[String], allow: &[String]) -> Result<Vec<String>> {
    let mut holes = Vec::new();
    for rule in allow {
        holes.push(block(rule).ok_or_else(|| {
            Refusal::invalid(format!(
                "network.allowOut: {:?} is not an address or a block of addresses; a name is an exception only where denyOut is \
                 [{ALL_TRAFFIC:?}]",
                shorten(rule)
            ))
        })?);
    }
    let mut rules = Vec::new();
    for rule in deny {
        match block(rule).filter(|_| !holes.is_empty()) {
            Some(whole) => {
                let left = holes.iter().fold(vec![whole], |left, hole| {
                    left.iter().flat_map(|piece| piece.without(*hole)).take(MOST_BLOCKS + 1).collect()
                });
                rules.extend(left.iter().map(|piece| on_all_ports(&piece.to_string())));
            }
            None => rules.push(on_all_ports(rule)),
        }
        if rules.len() > MOST_BLOCKS {
            return Err(Refusal::invalid(format!(
                "network: denyOut without allowOut is more than {MOST_BLOCKS} blocks of addresses; allow fewer exceptions"
            )));
        }
    }
    Ok(rules)
}

fn block(rule: &str) -> Option<Block> {
    let (address, length) =
        rule.split_once('/').map_or((rule, None), |(address, length)| (address, Some(length)));
    let address: IpAddr = address.parse().ok()?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    let length =
        length.map_or(Some(longest), |length| length.parse().ok().filter(|length| *length <= longest))?;
    let bits = match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    };
    Some(Block { bits, length, longest }.cut())
}

/// Addresses with the same first bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Block {
    bits: u128,
    length: u32,
    /// The bits of one address.
    longest: u32,
}

impl Block {
    /// Without the bits that do not count.
    fn cut(self) -> Block {
        let free = self.longest - self.length;
        let bits = self.bits.checked_shr(free).and_then(|bits| bits.checked_shl(free)).unwrap_or_default();
        Block { bits, ..self }
    }

    fn has(self, other: Block) -> bool {
        self.longest == other.longest
            && self.length <= other.length
            && Block { length: self.length, ..other }.cut().bits == self.bits
    }

    /// The blocks that are left of it when a hole is cut out: its halves, and theirs, as far as the hole reaches.
    fn without(self, hole: Block) -> Vec<Block> {
        if hole.has(self) {
            return Vec::new();
        }
        if !self.has(hole) {
            return vec![self];
        }
        let length = self.length + 1;
        let upper = Block { bits: self.bits | (1 << (self.longest - length)), length, ..self };
        [Block { length, ..self }, upper].into_iter().flat_map(|half| half.without(hole)).collect()
    }
}

impl std::fmt::Display for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.longest {
            32 => write!(f, "{}", Ipv4Addr::from(self.bits as u32))?,
            _ => write!(f, "{}", Ipv6Addr::from(self.bits))?,
        }
        write!(f, "/{}", self.length)
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
    use serde_json::from_value;

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
    fn an_allowed_address_is_cut_out_of_a_denied_block() {
        let found = layer(
            None,
            json!({ "allowOut": ["8.8.8.8"], "denyOut": ["8.8.8.8/30", "9.9.9.9", "evil.example"] }),
        );
        assert_eq!(found.deny, ["8.8.8.9/32:*", "8.8.8.10/31:*", "9.9.9.9/32:*", "evil.example:*"]);
        let found =
            layer(None, json!({ "allowOut": ["10.0.0.0/8", "::1"], "denyOut": ["10.1.0.0/16", "::/126"] }));
        assert_eq!(found.deny, ["[::]/128:*", "[::2]/127:*"]);
        let whole = layer(None, json!({ "allowOut": ["::1"], "denyOut": ["::/0"] }));
        assert_eq!(whole.deny.len(), 128);
        for (allow, word) in [(json!(["web.example"]), "exception"), (json!(["1.2.3.4/33"]), "1.2.3.4/33")] {
            let wanted: Network =
                from_value(json!({ "allowOut": allow, "denyOut": ["8.0.0.0/8"] })).expect("valid");
            let refusal = setting(None, Some(&wanted)).expect_err("no address");
            assert!(refusal.message().contains(word), "{}", refusal.message());
        }
        let many: Vec<String> = (0..100).map(|number| format!("2001:db8:{number:x}::1")).collect();
        let wanted: Network = from_value(json!({ "allowOut": many, "denyOut": ["::/0"] })).expect("valid");
        assert!(setting(None, Some(&wanted)).expect_err("too many").message().contains("1024"));
    }

    #[test]
    fn exceptions_from_a_denial_of_everything_are_the_only_way_out() {
        let found = layer(
            None,
            json!({ "allowOut": ["api.example.com", "1.1.1.0/24", "2606:4700::1111"], "denyOut": ["0.0.0.0/0"] }),
        );
        assert_eq!(found.allow_public, ["api.example.com:*", "1.1.1.0/24:*", "[2606:4700::1111]:*"]);
        assert!(found.deny.is_empty() && found.allow.is_empty());
        let proxy: Network = from_value(json!({ "egressProxy": { "url": "x" } })).expect("valid");
        for word in ["egressProxy", "opens it itself"] {
            assert!(setting(None, Some(&proxy)).expect_err("refused").message().contains(word));
        }
    }
}
