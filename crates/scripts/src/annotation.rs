//! The annotations of a header. Every line is checked by itself here; names that hold arguments are filled in by
//! [`crate::plan`].

use crate::header::{self, Class};
use crate::resource::{Reference, ReferenceError};
use crate::{Language, ScriptError};
use paddock_model::net::Rule;
use paddock_model::{Limits, Requirement, parse_bytes, parse_duration};
use serde::{Deserialize, Serialize};
use std::time::Duration;

pub const MOST_VOLUMES: usize = 10;
const MOST_RULES: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Sandbox,
    Volume,
    Net,
    Secret,
    Timeout,
    Memory,
    Cpus,
    Backend,
    Require,
}

impl Key {
    pub const WITH_VALUE: [Key; 8] = [
        Key::Volume,
        Key::Net,
        Key::Secret,
        Key::Timeout,
        Key::Memory,
        Key::Cpus,
        Key::Backend,
        Key::Require,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Key::Sandbox => "sandbox",
            Key::Volume => "volume",
            Key::Net => "net",
            Key::Secret => "secret",
            Key::Timeout => "timeout",
            Key::Memory => "memory",
            Key::Cpus => "cpus",
            Key::Backend => "backend",
            Key::Require => "require",
        }
    }
}

/// All that a header says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Annotations {
    /// The script is fenced even without this line.
    pub sandbox: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The line of the image; 0 if there is none.
    #[serde(skip_serializing_if = "is_zero")]
    pub image_line: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<VolumeLine>,
    /// `Some` and empty: `net: none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub net: Option<Vec<String>>,
    /// The last line with `net:`.
    #[serde(skip_serializing_if = "is_zero")]
    pub net_line: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<SecretLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub require: Vec<String>,
}

fn is_zero(line: &u32) -> bool {
    *line == 0
}

/// `volume: NAME TARGET`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeLine {
    pub line: u32,
    /// With `$workspace` and `$args[...]` unchanged.
    pub name: String,
    pub target: String,
}

/// `secret: NAME@HOST[,HOST...][=FROM]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretLine {
    pub line: u32,
    /// The variable that holds a placeholder inside.
    pub variable: String,
    pub hosts: Vec<String>,
    pub from: Reference,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnnotationError {
    #[error("`{found}` is no annotation; did you mean `{meant}`?")]
    Misspelt { found: String, meant: &'static str },
    #[error("`{0}` is no annotation")]
    Unknown(String),
    #[error("`{key} {rest}` has no colon")]
    NoColon { key: &'static str, rest: String },
    #[error("`{0}` is there twice, also in line {1}")]
    Twice(&'static str, u32),
    #[error("`sandbox={0}`: the sandbox cannot be turned off")]
    SandboxOff(String),
    #[error("`sandbox` has `{0}`, and takes one image or nothing")]
    SandboxValue(String),
    #[error("`sandbox:{0}` has a colon")]
    SandboxColon(String),
    #[error("image `{0}` is a path of the host")]
    ImagePath(String),
    #[error("`{0}:` has nothing behind it")]
    NoValue(&'static str),
    #[error("volume `{0}` has no target")]
    NoTarget(String),
    #[error("{message}")]
    Volume { message: String, hint: Option<String> },
    #[error("volume target `{0}` is where the script itself is")]
    Reserved(String),
    #[error("volume `{name}` is there twice, also in line {line}")]
    VolumeTwice { name: String, line: u32 },
    #[error("volume target `{target}` is taken by line {line}")]
    TargetTaken { target: String, line: u32 },
    #[error("more than {MOST_VOLUMES} volumes are asked for")]
    ManyVolumes,
    #[error("volume name `{name}` needs argument `{argument}`, which {problem}")]
    Interpolation { name: String, argument: String, problem: &'static str },
    #[error("volume name `{0}` has a `$` that is neither $workspace nor $args[NAME]")]
    Dollar(String),
    #[error("`net: {0}` is not for a script to ask for")]
    NetWord(String),
    #[error("`net: {rule}` is an address of the host or its networks, which a header does not open")]
    NetInside { rule: String },
    #[error("the registry `{registry}` is on the host or in its networks, where a header sends nobody")]
    RegistryInside { registry: String },
    #[error("{message}")]
    Rule { message: String, hint: Option<String> },
    #[error("more than {MOST_RULES} rules are asked for")]
    ManyRules,
    #[error("secret `{0}` is not NAME@HOST")]
    Secret(String),
    #[error("secret `{variable}`: {error}")]
    SecretFrom { variable: String, error: ReferenceError },
    #[error(
        "secret `{variable}` is to be sent to `{host}`, and resource `{resource}` is not bound to that host"
    )]
    SecretHost { variable: String, host: String, resource: String },
    #[error("{key}: {message}")]
    Value { key: &'static str, message: String },
    #[error("backend `{0}` is no name of one")]
    Backend(String),
    #[error("`{0}` stands below the header, where annotations are not read")]
    Below(String),
}

impl AnnotationError {
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            AnnotationError::Misspelt { meant, .. } if *meant == "sandbox" => {
                "write `sandbox`; begin a comment that is none with another word"
            }
            AnnotationError::Misspelt { .. } | AnnotationError::Unknown(_) => {
                "annotations are sandbox, volume, net, secret, timeout, memory, cpus, backend and require; a comment that is none can stand apart, after an empty line"
            }
            AnnotationError::NoColon { key, rest } => return Some(format!("write `{key}: {rest}`")),
            AnnotationError::Twice(..) | AnnotationError::VolumeTwice { .. } => "leave one of them out",
            AnnotationError::SandboxOff(_) => "leave the line out: every script runs in a sandbox",
            AnnotationError::SandboxValue(_) | AnnotationError::SandboxColon(_) => {
                "write `sandbox`, or `sandbox IMAGE` as in `sandbox python:3.12`"
            }
            AnnotationError::ImagePath(_) => "name an image of a registry, as in `sandbox python:3.12`",
            AnnotationError::NoValue(key) => return Some(format!("write it as in `{}`", example(key))),
            AnnotationError::NoTarget(_) => "write `volume: NAME PATH`, as in `volume: agent-state .agent`",
            AnnotationError::Volume { hint, .. } | AnnotationError::Rule { hint, .. } => return hint.clone(),
            AnnotationError::Reserved(_) => "choose another place",
            AnnotationError::TargetTaken { .. } => "give each a place of its own, none inside another",
            AnnotationError::Interpolation { .. } => "give it as text or number with --arg",
            AnnotationError::Dollar(_) => "write $workspace, or $args[NAME] with an argument's name",
            AnnotationError::NetWord(_) => "write `net: none`, or the hosts that it needs",
            AnnotationError::NetInside { rule } => {
                return Some(format!("if you mean it, say so outside of the script: --allow-net {rule}"));
            }
            AnnotationError::RegistryInside { registry } => {
                return Some(format!("if you mean it, say so outside of the script: --allow-net {registry}"));
            }
            AnnotationError::Secret(_) => {
                "write `secret: NAME@HOST[,HOST...]`, with =$res:RESOURCE.FIELD or =$var:NAME for its value"
            }
            AnnotationError::SecretHost { .. } => {
                "the owner of the resource binds it: `paddock resource set NAME --secret FIELD@HOST ...`"
            }
            AnnotationError::Backend(_) => "`paddock doctor` lists those there are",
            AnnotationError::Below(_) => {
                "move it to the top, above everything but comments; if it is text of a comment, begin that otherwise"
            }
            _ => return None,
        };
        Some(hint.into())
    }
}

fn example(key: &str) -> &'static str {
    match key {
        "volume" => "volume: agent-state .agent",
        "net" => "net: api.example.com",
        "secret" => "secret: API_KEY@api.example.com",
        "timeout" => "timeout: 10m",
        "memory" => "memory: 512MiB",
        "cpus" => "cpus: 2",
        "backend" => "backend: gvisor",
        _ => "require: own-kernel",
    }
}

impl Annotations {
    /// Reads the header, and finds annotations that stand below it by mistake.
    pub fn parse(source: &str, language: Language) -> Result<Annotations, ScriptError> {
        let comment = language.comment();
        let (lines, below) = header::lines(source, comment);
        let mut found = Annotations::default();
        let mut seen: Vec<(Key, u32)> = Vec::new();
        let classes: Vec<Class> = lines.iter().map(|line| header::classify(line.text)).collect();
        for (at, line) in lines.iter().enumerate() {
            let wrong = |error| ScriptError::Annotation { line: line.number, error };
            match &classes[at] {
                Class::Wrong(error) => return Err(wrong(error.clone())),
                Class::Annotation(key, value) => {
                    found.take(*key, value, line.number, &mut seen).map_err(wrong)?;
                }
                Class::Comment => {
                    let touches = |other: usize| {
                        lines.get(other).is_some_and(|next| next.number.abs_diff(line.number) == 1)
                            && matches!(classes.get(other), Some(Class::Annotation(..)))
                    };
                    let touched = touches(at + 1) || at.checked_sub(1).is_some_and(touches);
                    if let Some(word) = header::unknown_key(line.text).filter(|_| touched) {
                        return Err(wrong(AnnotationError::Unknown(word.to_string())));
                    }
                }
            }
        }
        for (number, text) in source.lines().enumerate().skip(below as usize) {
            if header::is_below(text, comment) {
                let line = u32::try_from(number + 1).unwrap_or(u32::MAX);
                let error = AnnotationError::Below(crate::error::shown(text.trim()));
                return Err(ScriptError::Annotation { line, error });
            }
        }
        Ok(found)
    }

    fn take(
        &mut self,
        key: Key,
        value: &str,
        line: u32,
        seen: &mut Vec<(Key, u32)>,
    ) -> Result<(), AnnotationError> {
        let name = key.name();
        let again = matches!(key, Key::Volume | Key::Net | Key::Secret | Key::Require);
        if let Some((_, first)) = seen.iter().find(|(other, _)| *other == key && !again) {
            return Err(AnnotationError::Twice(name, *first));
        }
        seen.push((key, line));
        if value.is_empty() && key != Key::Sandbox {
            return Err(AnnotationError::NoValue(name));
        }
        let refuse = |message: String| AnnotationError::Value { key: name, message };
        match key {
            Key::Sandbox => {
                self.sandbox = true;
                self.image = image(value)?;
                self.image_line = if self.image.is_some() { line } else { 0 };
            }
            Key::Volume => self.volume(value, line)?,
            Key::Net => {
                self.rules(value)?;
                self.net_line = line;
            }
            Key::Secret => self.secrets.push(secret(value, line)?),
            Key::Timeout => {
                self.timeout = Some(parse_duration(value).map_err(|error| refuse(error.to_string()))?);
            }
            Key::Memory => self.memory = Some(parse_bytes(value).map_err(|error| refuse(error.to_string()))?),
            Key::Cpus => {
                let number = value.parse::<f64>().ok().filter(|number| number.is_finite());
                let shown = crate::error::shown(value);
                self.cpus = Some(number.ok_or_else(|| refuse(format!("`{shown}` is no number")))?);
            }
            Key::Backend => {
                let known = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
                if value.len() > 32 || !value.bytes().all(known) {
                    return Err(AnnotationError::Backend(crate::error::shown(value)));
                }
                self.backend = Some(value.to_string());
            }
            Key::Require => {
                for word in words(value) {
                    let known = word.parse::<Requirement>();
                    known.map_err(|error| refuse(error.to_string()))?;
                    self.require.push(word.to_string());
                }
            }
        }
        self.check_limits(name)
    }

    fn check_limits(&self, key: &'static str) -> Result<(), AnnotationError> {
        let defaults = Limits::default();
        let limits = Limits {
            memory: self.memory.unwrap_or(defaults.memory),
            cpus: self.cpus.unwrap_or(defaults.cpus),
            timeout: self.timeout.or(defaults.timeout),
            ..defaults
        };
        limits.check().map_err(|error| AnnotationError::Value { key, message: error.to_string() })
    }

    fn volume(&mut self, value: &str, line: u32) -> Result<(), AnnotationError> {
        let (name, target) = value.split_once(char::is_whitespace).unwrap_or((value, ""));
        let target = target.trim();
        if target.is_empty() {
            return Err(AnnotationError::NoTarget(crate::error::shown(name)));
        }
        if self.volumes.len() == MOST_VOLUMES {
            return Err(AnnotationError::ManyVolumes);
        }
        self.volumes.push(VolumeLine { line, name: name.into(), target: target.into() });
        Ok(())
    }

    fn rules(&mut self, value: &str) -> Result<(), AnnotationError> {
        let rules = self.net.get_or_insert_default();
        if value == "none" {
            return Ok(());
        }
        for word in words(value) {
            if matches!(word, "host" | "none" | "all" | "any") {
                return Err(AnnotationError::NetWord(crate::error::shown(value)));
            }
            if !word.starts_with("preset:") {
                Rule::parse(word).map_err(|error| AnnotationError::Rule {
                    message: error.to_string(),
                    hint: Some(error.hint()),
                })?;
            }
            if rules.len() == MOST_RULES {
                return Err(AnnotationError::ManyRules);
            }
            rules.push(word.to_string());
        }
        Ok(())
    }
}

/// Divided by commas, spaces, or both.
fn words(value: &str) -> impl Iterator<Item = &str> {
    value.split([',', ' ', '\t']).filter(|word| !word.is_empty())
}

/// A script says which image it wants, and not which directory of the host it would like to see.
fn image(value: &str) -> Result<Option<String>, AnnotationError> {
    if value.is_empty() {
        return Ok(None);
    }
    let shown = || crate::error::shown(value);
    if value.contains(char::is_whitespace) || value.len() > 512 {
        return Err(AnnotationError::SandboxValue(shown()));
    }
    let path = value.starts_with(['/', '.', '~', '-']) || value.contains("..") || value.contains("://");
    let plain =
        |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b'/' | b':' | b'@' | b'+');
    match path {
        true => Err(AnnotationError::ImagePath(shown())),
        false if !value.bytes().all(plain) => Err(AnnotationError::SandboxValue(shown())),
        false => Ok(Some(value.to_string())),
    }
}

fn secret(value: &str, line: u32) -> Result<SecretLine, AnnotationError> {
    let wrong = || AnnotationError::Secret(crate::error::shown(value));
    let (variable, rest) = value.split_once('@').ok_or_else(wrong)?;
    let (hosts, from) = rest.split_once('=').map_or((rest, None), |(hosts, from)| (hosts, Some(from)));
    let named = variable.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && variable.len() <= 128
        && variable.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !named || rest.contains(char::is_whitespace) {
        return Err(wrong());
    }
    let hosts: Vec<String> = hosts.split(',').map(str::to_string).collect();
    for host in &hosts {
        Rule::parse(host).map_err(|error| AnnotationError::Rule {
            message: format!("secret `{variable}`: {error}"),
            hint: Some(error.hint()),
        })?;
    }
    let own = format!("$var:{variable}");
    let from = Reference::parse(from.unwrap_or(&own))
        .map_err(|error| AnnotationError::SecretFrom { variable: variable.into(), error })?;
    Ok(SecretLine { line, variable: variable.into(), hosts, from: from.ok_or_else(wrong)? })
}
