//! What a policy says about the network -> what may leave the sandbox.

use super::presets::{self, PresetError};
use paddock_model::Network;
use paddock_model::net::{NetError, NetSetting, place};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    #[error("network `{}` is not known; known are none and host, or rules", .0.escape_debug())]
    Unknown(String),
    #[error(transparent)]
    Rules(NetError),
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
            NetworkError::Preset { .. } => Some(
                "a preset of your own is a file NAME.toml in net/presets of the state directory".to_string(),
            ),
            NetworkError::PresetFile(_) => Some("mend the file, or take it away".to_string()),
        }
    }
}

pub fn resolve(setting: Option<&NetSetting>, state: &Path) -> Result<Network, NetworkError> {
    let layer = match setting {
        None => return Ok(Network::default()),
        Some(NetSetting::Word(word)) => {
            return match word.as_str() {
                "none" => Ok(Network::None),
                "host" => Ok(Network::Host),
                _ => Err(NetworkError::Unknown(word.chars().take(80).collect())),
            };
        }
        Some(NetSetting::Rules(layer)) => layer,
    };
    // The rules know of no files: what went wrong with one is kept until they are done.
    let damaged = RefCell::new(None);
    let preset = |name: &str| {
        presets::load(state, name).unwrap_or_else(|error| {
            *damaged.borrow_mut() = Some(error);
            None
        })
    };
    let resolved = layer.resolve(&preset, &|_| false);
    match (damaged.into_inner(), resolved) {
        (Some(error), _) => Err(error.into()),
        (None, Ok(rules)) => Ok(Network::Gate(rules)),
        (None, Err(NetError::UnknownPreset(name))) => {
            Err(NetworkError::Preset { name, known: presets::names(state).join(", ") })
        }
        (None, Err(error)) => Err(NetworkError::Rules(error)),
    }
}

/// Variables by which programs find the proxy: the quicker way out. Those that do not look meet the same rules.
pub fn environment(network: &Network) -> BTreeMap<String, String> {
    if !matches!(network, Network::Gate(_)) {
        return BTreeMap::new();
    }
    let proxy = format!("http://127.0.0.1:{}", place::PROXY_PORT);
    let own = "localhost,127.0.0.1,::1";
    let values = [("HTTP_PROXY", &*proxy), ("HTTPS_PROXY", &proxy), ("ALL_PROXY", &proxy), ("NO_PROXY", own)];
    let both = values.iter().flat_map(|(name, value)| {
        [(name.to_string(), value.to_string()), (name.to_lowercase(), value.to_string())]
    });
    both.collect()
}
