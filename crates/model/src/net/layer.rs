//! The network part of one layer of policy, and how the layers become rules.

use super::rule::{Rule, RuleError};
use super::{Mode, NetRules};
use crate::quantity::{QuantityError, parse_bytes};
use serde::de::value::MapAccessDeserializer;
use serde::{Deserialize, Deserializer, Serialize};

/// `net` of a policy: a word, or a table of rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum NetSetting {
    Word(String),
    Rules(NetLayer),
}

/// As written: text, so that every source takes the same forms and gets the same errors.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct NetLayer {
    /// `api.example.com`, `*.example.org:443`, `10.1.2.0/24:5432`, `[fd00::]/8:443`, `preset:model-apis`. Without ports: 80
    /// and 443.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// As `allow`, but only for public addresses: none of these opens loopback, link-local, private or metadata addresses, or
    /// one of the host's own. For rules that somebody else wrote, such as a script's header.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_public: Vec<String>,
    /// As `allow`; wins over it. Without ports: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
    /// Of HTTP requests that can be seen; what cannot be seen is refused then.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<String>,
    /// Bytes per second, such as `10MiB`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
    /// Bytes in its whole life, such as `1GiB`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<String>,
    /// `enforce` (default), `learn-deny` or `learn-allow`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetError {
    Rule(RuleError),
    /// A rule of a preset; the author of the preset has to mend it.
    PresetRule {
        preset: String,
        error: RuleError,
    },
    UnknownPreset(String),
    PresetInPreset {
        preset: String,
        rule: String,
    },
    Method(String),
    /// Methods cannot be seen where TLS goes through unopened.
    MethodsUnseen(String),
    Mode(String),
    Quantity {
        key: &'static str,
        error: QuantityError,
    },
    TooMany {
        key: &'static str,
        count: usize,
    },
}

/// The rules of one sandbox are looked through for each connection.
const MOST_RULES: usize = 1024;

impl NetLayer {
    pub const KEYS: [&'static str; 7] = ["allow", "allow_public", "deny", "methods", "rate", "bytes", "mode"];

    /// Lists add up, so that no layer takes back a denial of the one below.
    pub fn overlaid_by(mut self, above: NetLayer) -> NetLayer {
        self.allow.extend(above.allow);
        self.allow_public.extend(above.allow_public);
        self.deny.extend(above.deny);
        NetLayer {
            methods: if above.methods.is_empty() { self.methods } else { above.methods },
            rate: above.rate.or(self.rate),
            bytes: above.bytes.or(self.bytes),
            mode: above.mode.or(self.mode),
            ..self
        }
    }

    /// `presets`: the rules that a name stands for. `opened`: true if the gate ends TLS to the hosts of the rule.
    pub fn resolve(
        &self,
        presets: &dyn Fn(&str) -> Option<Vec<String>>,
        opened: &dyn Fn(&Rule) -> bool,
    ) -> Result<NetRules, NetError> {
        let mut methods = Vec::new();
        for method in &self.methods {
            methods.push(check_method(method)?);
        }
        let quantity = |key, text: &Option<String>| {
            let parsed = text.as_deref().map(parse_bytes).transpose();
            parsed.map_err(|error| NetError::Quantity { key, error })
        };
        let rules = NetRules {
            allow: written_out("allow", &self.allow, presets)?,
            allow_public: written_out("allow_public", &self.allow_public, presets)?,
            deny: written_out("deny", &self.deny, presets)?,
            methods: (!methods.is_empty()).then_some(methods),
            rate: quantity("rate", &self.rate)?,
            bytes: quantity("bytes", &self.bytes)?,
            mode: parse_mode(self.mode.as_deref())?,
        };
        let unseen = |rule: &&Rule| rule.ports.allow(443) && !opened(rule);
        let unseen = rules.allowed().find(unseen).map(ToString::to_string);
        match unseen {
            Some(rule) if rules.methods.is_some() => Err(NetError::MethodsUnseen(rule)),
            _ => Ok(rules),
        }
    }
}

fn written_out(
    key: &'static str,
    texts: &[String],
    presets: &dyn Fn(&str) -> Option<Vec<String>>,
) -> Result<Vec<Rule>, NetError> {
    let mut rules: Vec<Rule> = Vec::new();
    for text in texts {
        match text.strip_prefix("preset:") {
            None => rules.push(Rule::parse(text).map_err(NetError::Rule)?),
            Some(name) => {
                let shown = || name.chars().take(80).collect::<String>();
                let members = presets(name).ok_or_else(|| NetError::UnknownPreset(shown()))?;
                for rule in members {
                    if rule.starts_with("preset:") {
                        return Err(NetError::PresetInPreset { preset: shown(), rule });
                    }
                    let parsed = Rule::parse(&rule);
                    rules.push(parsed.map_err(|error| NetError::PresetRule { preset: shown(), error })?);
                }
            }
        }
        if rules.len() > MOST_RULES {
            return Err(NetError::TooMany { key, count: rules.len() });
        }
    }
    Ok(rules)
}

fn check_method(text: &str) -> Result<String, NetError> {
    let fine = (1..=32).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphabetic() || b == b'-');
    // CONNECT is the way through the proxy, and no request of its own.
    if !fine || text.eq_ignore_ascii_case("connect") {
        return Err(NetError::Method(text.chars().take(80).collect()));
    }
    Ok(text.to_ascii_uppercase())
}

fn parse_mode(text: Option<&str>) -> Result<Mode, NetError> {
    let Some(text) = text else { return Ok(Mode::default()) };
    let known = Mode::NAMES.into_iter().find(|(name, _)| *name == text);
    known.map(|(_, mode)| mode).ok_or_else(|| NetError::Mode(text.chars().take(80).collect()))
}

impl NetSetting {
    /// A word replaces the setting below it; rules add to rules.
    pub fn overlaid_by(self, above: NetSetting) -> NetSetting {
        match (self, above) {
            (NetSetting::Rules(below), NetSetting::Rules(above)) => {
                NetSetting::Rules(below.overlaid_by(above))
            }
            (_, above) => above,
        }
    }
}

impl<'de> Deserialize<'de> for NetSetting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = NetSetting;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("`none`, `host` or a table with `allow`")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<NetSetting, E> {
                Ok(NetSetting::Word(text.to_string()))
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<NetSetting, A::Error> {
                NetLayer::deserialize(MapAccessDeserializer::new(map)).map(NetSetting::Rules)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl std::fmt::Display for NetError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NetError::Rule(error) => write!(f, "{error}"),
            NetError::PresetRule { preset, error } => {
                write!(f, "preset `{}`: {error}", preset.escape_debug())
            }
            NetError::UnknownPreset(name) => write!(f, "there is no preset `{}`", name.escape_debug()),
            NetError::PresetInPreset { preset, rule } => {
                write!(f, "preset `{}` has `{}` in it", preset.escape_debug(), rule.escape_debug())
            }
            NetError::Method(method) => write!(f, "`{}` is no method of a request", method.escape_debug()),
            NetError::MethodsUnseen(rule) => {
                write!(
                    f,
                    "`methods` cannot be held for rule `{rule}`: what goes to port 443 is encrypted end to end"
                )
            }
            NetError::Mode(mode) => {
                write!(
                    f,
                    "mode `{}` is not known; known are enforce, learn-deny and learn-allow",
                    mode.escape_debug()
                )
            }
            NetError::Quantity { key, error } => write!(f, "`{key}` of the network: {error}"),
            NetError::TooMany { key, count } => {
                write!(f, "`{key}` of the network has {count} rules, and {MOST_RULES} are the most")
            }
        }
    }
}

impl std::error::Error for NetError {}

impl NetError {
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            NetError::Rule(error) | NetError::PresetRule { error, .. } => return Some(error.hint()),
            NetError::PresetInPreset { .. } => "a preset holds rules only: write them out",
            NetError::Method(_) => "write GET, HEAD, POST and so on; CONNECT is always possible",
            NetError::MethodsUnseen(_) => {
                "write the rule with :80, bind a secret to the host, or leave `methods` out"
            }
            _ => return None,
        };
        Some(text.to_string())
    }
}

#[cfg(test)]
#[path = "layer_tests.rs"]
mod tests;
