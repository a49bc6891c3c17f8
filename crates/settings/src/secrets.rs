//! The secrets of a policy -> values that were read and hosts that were checked.

use crate::{Bound, certificate_variables};
use paddock_gate::HeaderName;
use paddock_model::net::{Ports, Rule, RuleError, Target};
use paddock_model::{NameError, SecretLayer, SecretValue, check_environment_name};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use zeroize::Zeroizing;

const MOST_SECRETS: usize = 64;
const MOST_HOSTS: usize = 64;
const MOST_HEADERS: usize = 16;
/// The server keeps these, and finds them itself.
const OF_THE_SERVER: [&str; 2] = ["secret:", "resource:"];
/// A shorter value could not be told from other text, in requests and in answers.
const SHORTEST: usize = 8;
const LONGEST: usize = 16 * 1024;
/// The text of a header around a value.
const LONGEST_TEXT: usize = 1024;
/// A header of the message itself: with another one, host and gate could read different requests.
const OF_THE_GATE: [&str; 13] = [
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

#[derive(Debug, thiserror::Error)]
pub enum SecretSettingError {
    #[error("{0} secrets are too many: {MOST_SECRETS} are the most")]
    TooMany(usize),
    #[error("secret `{}`: {error}", .name.escape_debug())]
    Name { name: String, error: NameError },
    #[error("secret `{0}` has the name of a variable that is set already")]
    Taken(String),
    #[error("secret `{0}` has neither `value` nor `from`")]
    NoValue(String),
    #[error("secret `{0}` has both `value` and `from`")]
    TwoValues(String),
    #[error("secret `{0}` is bound to no host")]
    NoHosts(String),
    #[error("secret `{name}` is bound to {count} hosts, and {MOST_HOSTS} are the most")]
    ManyHosts { name: String, count: usize },
    #[error("secret `{name}`: {error}")]
    Host { name: String, error: RuleError },
    #[error("secret `{name}` is bound to `{}`, which is no name of a host", .host.escape_debug())]
    NotAName { name: String, host: String },
    #[error("secret `{name}`: `{}` is no name of a header", .header.escape_debug())]
    Header { name: String, header: String },
    #[error("secret `{name}` has {count} headers, and {MOST_HEADERS} are the most")]
    ManyHeaders { name: String, count: usize },
    #[error("secret `{0}` has both `header`, the only one, and `headers`, more than the usual ones")]
    OnlyAndMore(String),
    #[error("secret `{0}` has `inject`, and `header` or `headers`, which are for a placeholder")]
    InjectedAndSent(String),
    #[error("secret `{name}`: the gate cannot set header `{header}`, which says how the message is sent")]
    HeaderOfTheGate { name: String, header: String },
    #[error(
        "secret `{name}`: the text of header `{header}` has to be printable ASCII of {LONGEST_TEXT} bytes at most, with `{{}}` once, where the value goes"
    )]
    InjectedText { name: String, header: String },
    #[error("secret `{name}`: `from` is `{}`, and has to be env:NAME or file:/PATH", .from.escape_debug())]
    From { name: String, from: String },
    #[error("secret `{name}`: there is no variable `{}`", .variable.escape_debug())]
    NoVariable { name: String, variable: String },
    #[error("secret `{name}`: `{}` cannot be read: {reason}", .path.escape_debug())]
    File { name: String, path: String, reason: String },
    #[error("the value of secret `{name}` has {length} bytes; {SHORTEST} to {LONGEST} are possible")]
    Length { name: String, length: usize },
    #[error("the value of secret `{0}` cannot stand in a header: it has other than printable ASCII")]
    Text(String),
}

impl SecretSettingError {
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            SecretSettingError::NoValue(_) => "give the value itself, or env:NAME or file:/PATH as `from`",
            SecretSettingError::NoHosts(_) => {
                "name the hosts whose requests may carry it, such as api.example.com"
            }
            SecretSettingError::Host { error, .. } => return Some(error.hint()),
            SecretSettingError::NotAName { .. } => {
                "a certificate shows who a host is by its name: write names or *.NAME, with :PORT where it is not 443"
            }
            SecretSettingError::Taken(_) => "the placeholder needs the variable: leave the other out",
            SecretSettingError::NoVariable { .. } => "set it before, or give another `from`",
            SecretSettingError::Length { .. } => {
                "a shorter one cannot be told from other text; a password of a few letters is no secret"
            }
            _ => return None,
        };
        Some(text.to_string())
    }
}

/// `env`: the variables that are set inside anyway.
pub fn resolve(
    layers: &BTreeMap<String, SecretLayer>,
    env: &BTreeMap<String, String>,
) -> Result<Vec<Bound>, SecretSettingError> {
    check_count(layers.len())?;
    let one = |(name, layer): (&String, &SecretLayer)| {
        check_environment_name(name).map_err(|error| {
            let name = name.chars().take(80).collect();
            SecretSettingError::Name { name, error }
        })?;
        let is_ours = super::network::is_variable(name) || certificate_variables::is_variable(name);
        if env.contains_key(name) || is_ours || name == "PATH" {
            return Err(SecretSettingError::Taken(name.clone()));
        }
        let hosts = hosts(name, &layer.hosts)?;
        let header = layer.header.as_deref().map(|header| header_of(name, header)).transpose()?;
        if header.is_some() && !layer.headers.is_empty() {
            return Err(SecretSettingError::OnlyAndMore(name.clone()));
        }
        if layer.headers.len() > MOST_HEADERS {
            return Err(SecretSettingError::ManyHeaders { name: name.clone(), count: layer.headers.len() });
        }
        let headers = layer.headers.iter().map(|header| header_of(name, header)).collect::<Result<_, _>>()?;
        let inject = injected(name, layer)?;
        Ok(Bound { name: name.clone(), value: value(name, layer)?, hosts, header, headers, inject })
    };
    layers.iter().map(one).collect()
}

/// Of one sandbox.
pub fn check_count(secrets: usize) -> Result<(), SecretSettingError> {
    if secrets > MOST_SECRETS { Err(SecretSettingError::TooMany(secrets)) } else { Ok(()) }
}

/// Reads the values of secrets from the caller's variables and files, so that the layer can be sent elsewhere.
pub fn read_secrets(layers: &mut BTreeMap<String, SecretLayer>) -> Result<(), SecretSettingError> {
    for (name, layer) in layers.iter_mut() {
        let is_here = |from: &String| !OF_THE_SERVER.iter().any(|scheme| from.starts_with(scheme));
        if layer.from.as_ref().is_some_and(is_here) {
            let value = value(name, layer)?;
            (layer.value, layer.from) = (Some(SecretValue(value.to_string())), None);
        }
    }
    Ok(())
}

fn hosts(name: &str, texts: &[String]) -> Result<Vec<Rule>, SecretSettingError> {
    let owned = || name.to_string();
    if texts.is_empty() {
        return Err(SecretSettingError::NoHosts(owned()));
    }
    if texts.len() > MOST_HOSTS {
        return Err(SecretSettingError::ManyHosts { name: owned(), count: texts.len() });
    }
    let host = |text: &String| {
        let rule = Rule::parse(text).map_err(|error| SecretSettingError::Host { name: owned(), error })?;
        match rule.target {
            Target::Name(_) | Target::Below(_) => Ok(with_ports(rule)),
            // This would be any host, or an address, for which no certificate can prove a name.
            Target::AnyName | Target::Block(_) => {
                let host = text.chars().take(120).collect();
                Err(SecretSettingError::NotAName { name: owned(), host })
            }
        }
    };
    texts.iter().map(host).collect()
}

/// Without ports a rule gets port 443 only: port 80 would carry the secret in the clear.
fn with_ports(rule: Rule) -> Rule {
    match rule.ports {
        Ports::Usual => Rule { ports: Ports::Ranges(vec![(443, 443)]), ..rule },
        Ports::Ranges(_) => rule,
    }
}

fn header_of(name: &str, header: &str) -> Result<String, SecretSettingError> {
    match header.parse::<HeaderName>() {
        Ok(header) => Ok(header.as_str().to_string()),
        Err(_) => {
            let header = header.chars().take(80).collect();
            Err(SecretSettingError::Header { name: name.to_string(), header })
        }
    }
}

/// The headers that the gate sets.
fn injected(name: &str, layer: &SecretLayer) -> Result<BTreeMap<String, String>, SecretSettingError> {
    let owned = || name.to_string();
    if layer.inject.len() > MOST_HEADERS {
        return Err(SecretSettingError::ManyHeaders { name: owned(), count: layer.inject.len() });
    }
    if !layer.inject.is_empty() && (layer.header.is_some() || !layer.headers.is_empty()) {
        return Err(SecretSettingError::InjectedAndSent(owned()));
    }
    let one = |(header, text): (&String, &String)| {
        let header = header_of(name, header)?;
        if OF_THE_GATE.contains(&header.as_str()) {
            return Err(SecretSettingError::HeaderOfTheGate { name: owned(), header });
        }
        let fits = text.len() <= LONGEST_TEXT && text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        match text.matches("{}").count() {
            1 if fits => Ok((header, text.clone())),
            _ => Err(SecretSettingError::InjectedText { name: owned(), header }),
        }
    };
    layer.inject.iter().map(one).collect()
}

fn value(name: &str, layer: &SecretLayer) -> Result<Zeroizing<String>, SecretSettingError> {
    let owned = || name.to_string();
    let value = match (&layer.value, &layer.from) {
        (Some(_), Some(_)) => return Err(SecretSettingError::TwoValues(owned())),
        (None, None) => return Err(SecretSettingError::NoValue(owned())),
        (Some(value), None) => Zeroizing::new(value.0.clone()),
        (None, Some(from)) => read(name, from)?,
    };
    check_secret_value(name, &value)?;
    Ok(value)
}

/// A value that a header can carry and that can be told from other text.
pub fn check_secret_value(name: &str, value: &str) -> Result<(), SecretSettingError> {
    if !(SHORTEST..=LONGEST).contains(&value.len()) {
        return Err(SecretSettingError::Length { name: name.to_string(), length: value.len() });
    }
    if !value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return Err(SecretSettingError::Text(name.to_string()));
    }
    Ok(())
}

fn read(name: &str, from: &str) -> Result<Zeroizing<String>, SecretSettingError> {
    let owned = || name.to_string();
    match from.split_once(':') {
        Some(("env", variable)) if !variable.is_empty() => match std::env::var(variable) {
            Ok(value) => Ok(Zeroizing::new(value)),
            Err(_) => {
                let variable = variable.chars().take(80).collect();
                Err(SecretSettingError::NoVariable { name: owned(), variable })
            }
        },
        Some(("file", path)) if Path::new(path).is_absolute() => {
            let mut value = Zeroizing::new(String::new());
            let read = std::fs::File::open(path)
                .and_then(|file| file.take(LONGEST as u64 + 2).read_to_string(&mut value));
            read.map_err(|error| SecretSettingError::File {
                name: owned(),
                path: path.chars().take(200).collect(),
                reason: error.to_string(),
            })?;
            // Editors end a file with a new line, which is no part of the value.
            Ok(Zeroizing::new(value.trim_end_matches(['\r', '\n']).to_string()))
        }
        _ => Err(SecretSettingError::From { name: owned(), from: from.chars().take(80).collect() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn injecting(header: &str, text: &str) -> SecretLayer {
        let inject = [(header.to_string(), text.to_string())].into();
        SecretLayer { inject, ..layer("12345678", &["a.example"]) }
    }

    fn layer(value: &str, hosts: &[&str]) -> SecretLayer {
        SecretLayer {
            value: Some(SecretValue(value.into())),
            hosts: hosts.iter().map(ToString::to_string).collect(),
            ..SecretLayer::default()
        }
    }

    fn one(name: &str, layer: SecretLayer) -> Result<Bound, String> {
        let env = [("HOME".to_string(), "/".to_string())].into();
        let resolved = resolve(&[(name.to_string(), layer)].into(), &env);
        resolved.map(|mut all| all.remove(0)).map_err(|error| error.to_string())
    }

    #[test]
    fn hosts_are_names_and_tls_is_meant() {
        let bound = one("KEY", layer("12345678", &["A.example", "*.b.example:8443"])).unwrap();
        let shown: Vec<String> = bound.hosts.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["a.example:443", "*.b.example:8443"]);
        for (host, said) in
            [("10.0.0.1", "no name"), ("*", "no name"), ("https://a.example", "a.example"), ("", "KEY")]
        {
            assert!(one("KEY", layer("12345678", &[host])).unwrap_err().contains(said), "{host}");
        }
        assert!(one("KEY", layer("12345678", &[])).unwrap_err().contains("no host"));
    }

    #[test]
    fn values_are_read_and_checked() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        std::fs::write(&path, "from-a-file\r\n").unwrap();
        let from =
            |from: &str| SecretLayer { value: None, from: Some(from.into()), ..layer("", &["a.example"]) };
        assert_eq!(
            one("KEY", from(&format!("file:{}", path.display()))).unwrap().value.as_str(),
            "from-a-file"
        );
        for (wrong, said) in [
            (from("env:PADDOCK_NO_SUCH_VARIABLE"), "PADDOCK_NO_SUCH_VARIABLE"),
            (from("file:relative"), "file:relative"),
            (from("file:/no/such/file"), "/no/such/file"),
            (from("vault:x"), "vault:x"),
            (layer("short", &["a.example"]), "5 bytes"),
            (layer("with\nline", &["a.example"]), "printable"),
            (layer(&"x".repeat(LONGEST + 1), &["a.example"]), "16385 bytes"),
            (SecretLayer { from: Some("env:X".into()), ..layer("12345678", &["a.example"]) }, "both"),
            (SecretLayer { value: None, ..layer("", &["a.example"]) }, "neither"),
            (SecretLayer { header: Some("a b".into()), ..layer("12345678", &["a.example"]) }, "a b"),
            (SecretLayer { headers: vec!["c d".into()], ..layer("12345678", &["a.example"]) }, "c d"),
            (injecting("Host", "{}"), "`host`"),
            (injecting("x y", "{}"), "x y"),
            (injecting("x-mine", "no place"), "x-mine"),
            (injecting("x-mine", "{} {}"), "x-mine"),
            (injecting("x-mine", "{}\r\nhost: b.example"), "x-mine"),
            (SecretLayer { header: Some("x-a".into()), ..injecting("x-mine", "{}") }, "placeholder"),
            (
                SecretLayer {
                    header: Some("a".into()),
                    headers: vec!["b".into()],
                    ..layer("12345678", &["a.example"])
                },
                "`headers`",
            ),
            (
                SecretLayer { headers: vec!["b".into(); 17], ..layer("12345678", &["a.example"]) },
                "17 headers",
            ),
        ] {
            let error = one("KEY", wrong).unwrap_err();
            assert!(error.contains(said) && !error.contains("12345678"), "{error}");
        }
        let mut layers: BTreeMap<_, _> =
            [("KEY".to_string(), from(&format!("file:{}", path.display())))].into();
        let kept = from("secret:kept");
        layers.insert("KEPT".into(), kept.clone());
        read_secrets(&mut layers).unwrap();
        assert_eq!(layers["KEPT"], kept, "the server finds it");
        assert_eq!(layers["KEY"], layer("from-a-file", &["a.example"]));
    }

    #[test]
    fn a_variable_has_one_meaning() {
        for name in ["HOME", "HTTPS_PROXY", "no_proxy", "SSL_CERT_FILE", "PATH"] {
            assert!(
                one(name, layer("12345678", &["a.example"])).unwrap_err().contains("set already"),
                "{name}"
            );
        }
        assert!(one("A=B", layer("12345678", &["a.example"])).is_err());
    }
}
