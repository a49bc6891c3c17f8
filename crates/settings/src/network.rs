//! The network settings of a policy -> the rules for connections out of the sandbox.

use super::presets::{self, PresetError};
use crate::Bound;
use paddock_model::Network;
use paddock_model::net::{NetError, NetLayer, NetRules, NetSetting, Rule, Target, place};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    #[error("network `{}` is not known; known are none and host, or rules", .0.escape_debug())]
    Unknown(String),
    #[error(transparent)]
    Rules(NetError),
    #[error("secrets need the gate, and the network is `{0}`")]
    NoGate(&'static str),
    #[error("there is no preset `{}`; known are {known}", .name.escape_debug())]
    Preset { name: String, known: String },
    #[error(transparent)]
    PresetFile(#[from] PresetError),
}

impl NetworkError {
    pub fn hint(&self) -> Option<String> {
        match self {
            NetworkError::Unknown(_) => Some("to allow a name, write --allow-net NAME".to_string()),
            NetworkError::Rules(error) => error.hint(),
            NetworkError::NoGate(_) => Some(
                "leave the word out: the hosts of a secret are allowed by it, and nothing else is"
                    .to_string(),
            ),
            NetworkError::Preset { .. } => Some(
                "a preset of your own is a file NAME.toml in net/presets of the state directory".to_string(),
            ),
            NetworkError::PresetFile(_) => Some("mend the file, or take it away".to_string()),
        }
    }
}

/// `secrets`: their hosts are allowed, and the gate sees the requests to them.
pub fn resolve(
    setting: Option<&NetSetting>,
    secrets: &[Bound],
    state: &Path,
) -> Result<Network, NetworkError> {
    let none = NetLayer::default();
    let layer = match setting {
        None if secrets.is_empty() => return Ok(Network::default()),
        None => &none,
        Some(NetSetting::Word(word)) => {
            return match word.as_str() {
                "none" if !secrets.is_empty() => Err(NetworkError::NoGate("none")),
                "host" if !secrets.is_empty() => Err(NetworkError::NoGate("host")),
                "none" => Ok(Network::None),
                "host" => Ok(Network::Host),
                _ => Err(NetworkError::Unknown(word.chars().take(80).collect())),
            };
        }
        Some(NetSetting::Rules(layer)) => layer,
    };
    // The rules know of no files: the error of a preset's file is kept until they are done.
    let damaged = RefCell::new(None);
    let preset = |name: &str| {
        presets::load(state, name).unwrap_or_else(|error| {
            *damaged.borrow_mut() = Some(error);
            None
        })
    };
    let resolved =
        layer.resolve(&preset, &|rule| is_opened(rule, secrets)).map(|rules| with_hosts(rules, secrets));
    match (damaged.into_inner(), resolved) {
        (Some(error), _) => Err(error.into()),
        (None, Ok(rules)) => Ok(Network::Gate(rules)),
        (None, Err(NetError::UnknownPreset(name))) => {
            Err(NetworkError::Preset { name, known: presets::names(state).join(", ") })
        }
        (None, Err(error)) => Err(NetworkError::Rules(error)),
    }
}

/// True if the gate ends all TLS that the rule allows on port 443.
fn is_opened(rule: &Rule, secrets: &[Bound]) -> bool {
    let covers = |host: &Rule| match &rule.target {
        Target::Name(name) => host.matches_name(name),
        other => host.target == *other,
    };
    secrets.iter().flat_map(|secret| &secret.hosts).any(|host| host.ports.allow(443) && covers(host))
}

/// Allows the hosts of the secrets. `deny` wins over them as over everything.
fn with_hosts(mut rules: NetRules, secrets: &[Bound]) -> NetRules {
    for host in secrets.iter().flat_map(|secret| &secret.hosts) {
        if !rules.allow.contains(host) {
            rules.allow.push(host.clone());
        }
    }
    rules
}

pub fn is_variable(name: &str) -> bool {
    PROXY_VARIABLES.iter().any(|variable| variable.eq_ignore_ascii_case(name))
}

const PROXY_VARIABLES: [&str; 4] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"];

/// Variables by which programs find the proxy, which is the quicker way out. Programs that ignore them meet the same
/// rules.
pub fn environment(network: &Network) -> BTreeMap<String, String> {
    if !matches!(network, Network::Gate(_)) {
        return BTreeMap::new();
    }
    let proxy = format!("http://127.0.0.1:{}", place::PROXY_PORT);
    let own = "localhost,127.0.0.1,::1";
    let values = PROXY_VARIABLES.iter().zip([&*proxy, &proxy, &proxy, own]);
    let both = values.flat_map(|(name, value)| {
        [(name.to_string(), value.to_string()), (name.to_lowercase(), value.to_string())]
    });
    both.collect()
}
