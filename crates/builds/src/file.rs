//! A build file: TOML. The steps run in the order in which they are written.

use super::client_step::ClientStep;
use paddock_model::{Limits, LimitsLayer, Policy};
use paddock_settings::SettingsError;
use paddock_settings::policy_file::{self, Entry, LARGEST_FILE, PolicyError, entries, position};
use std::collections::BTreeMap;
use std::path::{Component, Path};
use toml::Spanned;
use toml::de::DeValue;

const KEYS: [&str; 12] =
    ["base", "mirror", "apt", "pip", "npm", "copy", "run", "env", "preload", "template", "build", "limits"];
/// The limits of a step if the file sets none. Memory is large because the step's files are in memory.
const MEMORY: &str = "4GiB";
const DISK: &str = "3GiB";
const TIMEOUT: &str = "30m";
const PIDS: &str = "4096";

#[derive(Debug, Clone, PartialEq)]
pub struct BuildFile {
    /// An image reference, a path, or a Debian release as in `debian:bookworm`.
    pub base: String,
    /// The source of Debian's packages, instead of the host's sources.
    pub mirror: Option<String>,
    pub steps: Vec<Step>,
    pub env: BTreeMap<String, String>,
    /// The settings of the template, `preload` and `env` among them.
    pub settings: Policy,
    /// The limits of each step.
    pub limits: Limits,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Apt {
        packages: Vec<String>,
    },
    Pip {
        packages: Vec<String>,
    },
    Npm {
        packages: Vec<String>,
    },
    Copy {
        from: String,
        to: String,
    },
    Run {
        command: String,
        network: bool,
    },
    /// The steps of a client's build, which no build file has.
    Client(ClientStep),
}

#[derive(Debug, thiserror::Error)]
pub enum BuildFileError {
    #[error(transparent)]
    Form(#[from] PolicyError),
    #[error("line {line}: `{key}` is not a key of a build file; {suggestion}")]
    UnknownKey { line: usize, key: String, suggestion: String },
    #[error("`base` is missing: what the build begins with, as in `base = \"debian:bookworm\"`")]
    NoBase,
    #[error("line {line}: {key} `{}`: {reason}", .value.escape_debug())]
    Value { line: usize, key: &'static str, value: String, reason: &'static str },
    #[error("line {line}: {source}")]
    Settings { line: usize, source: Box<SettingsError> },
    #[error("the limits of `build` are not usable: {0}")]
    Limits(#[from] paddock_settings::LimitsError),
}

/// Text to a build. Never panics, and does work in proportion to the text's length.
pub fn parse(text: &str) -> Result<BuildFile, BuildFileError> {
    if text.len() > LARGEST_FILE {
        return Err(PolicyError::TooLarge.into());
    }
    let document = policy_file::document(text)?;
    let (mut base, mut mirror, mut steps) = (None, None, Vec::new());
    let (mut env, mut preload, mut limits) = (BTreeMap::new(), Vec::new(), LimitsLayer::default());
    let mut settings = Policy::default();
    for entry in entries(text, "", document.get_ref()) {
        match entry.key {
            "base" => base = Some(checked(&entry, "base", entry.string()?, name_problem)?),
            "mirror" => mirror = Some(checked(&entry, "mirror", entry.string()?, mirror_problem)?),
            "apt" => {
                steps.extend(packages(&entry, "apt", apt_problem)?.map(|packages| Step::Apt { packages }))
            }
            "pip" => {
                steps.extend(packages(&entry, "pip", pip_problem)?.map(|packages| Step::Pip { packages }))
            }
            "npm" => {
                steps.extend(packages(&entry, "npm", npm_problem)?.map(|packages| Step::Npm { packages }))
            }
            "copy" => steps.extend(items(text, &entry, "a list of tables", copy)?),
            "run" => steps.extend(items(text, &entry, "a list of commands", run)?),
            "env" => {
                env = policy_file::read_env(text, entry.table("a table of strings")?)?;
                let wrong =
                    |source| BuildFileError::Settings { line: entry.line(), source: Box::new(source) };
                paddock_settings::check_environment(&env).map_err(wrong)?;
            }
            "preload" => {
                let wrong =
                    |source| BuildFileError::Settings { line: entry.line(), source: Box::new(source) };
                preload = paddock_settings::modules(entry.strings()?).map_err(wrong)?;
            }
            "template" => settings = template(text, &entry)?,
            "build" => limits = policy_file::read_limits(text, entry.table("a table of limits")?)?,
            _ => return Err(unknown(&entry)),
        }
    }
    settings.env = env.clone().into_iter().chain(std::mem::take(&mut settings.env)).collect();
    settings.preload = preload.into_iter().chain(std::mem::take(&mut settings.preload)).collect();
    let limits = paddock_settings::resolve_limits(&usual_limits().overlaid_by(limits))?;
    Ok(BuildFile { base: base.ok_or(BuildFileError::NoBase)?, mirror, steps, env, settings, limits })
}

/// The limits of a step for which nothing else is set.
pub(super) fn usual_limits() -> LimitsLayer {
    let usual = |value: &str| Some(value.to_string());
    LimitsLayer {
        memory: usual(MEMORY),
        disk: usual(DISK),
        timeout: usual(TIMEOUT),
        pids: usual(PIDS),
        ..Default::default()
    }
}

fn template(text: &str, entry: &Entry<'_>) -> Result<Policy, BuildFileError> {
    let settings = policy_file::read_policy(text, entry.table("a table of settings")?)?;
    match settings.image {
        Some(value) => Err(BuildFileError::Value {
            line: entry.line(),
            key: "template.image",
            value,
            reason: "the build makes the image; what it begins with is `base`",
        }),
        None => Ok(settings),
    }
}

fn items(
    text: &str,
    entry: &Entry<'_>,
    expected: &'static str,
    read: fn(&str, &Entry<'_>, &Spanned<DeValue<'_>>) -> Result<Step, BuildFileError>,
) -> Result<Vec<Step>, BuildFileError> {
    match entry.value.get_ref() {
        DeValue::Array(items) => items.iter().map(|item| read(text, entry, item)).collect(),
        other => Err(entry.wrong_type(expected, other, entry.value.span().start).into()),
    }
}

fn copy(text: &str, entry: &Entry<'_>, item: &Spanned<DeValue<'_>>) -> Result<Step, BuildFileError> {
    let (line, _) = position(text, item.span().start);
    let DeValue::Table(table) = item.get_ref() else {
        let expected = "a list of tables with `from` and `to`";
        return Err(entry.wrong_type(expected, item.get_ref(), item.span().start).into());
    };
    let (mut from, mut to) = (None, None);
    for part in entries(text, "copy.", table) {
        match part.key {
            "from" => from = Some(checked(&part, "copy.from", part.string()?, from_problem)?),
            "to" => to = Some(checked(&part, "copy.to", part.string()?, to_problem)?),
            _ => return Err(unknown_in(&part, "copy.", "known are copy.from and copy.to")),
        }
    }
    let missing = |key| {
        let reason = "both `from`, a path below the build file's directory, and `to`, one inside, are needed";
        BuildFileError::Value { line, key, value: String::new(), reason }
    };
    Ok(Step::Copy {
        from: from.ok_or_else(|| missing("copy.from"))?,
        to: to.ok_or_else(|| missing("copy.to"))?,
    })
}

fn run(text: &str, entry: &Entry<'_>, item: &Spanned<DeValue<'_>>) -> Result<Step, BuildFileError> {
    let (line, _) = position(text, item.span().start);
    let command = |value: String| match value {
        value if value.trim().is_empty() || value.contains('\0') => {
            let reason = "a command for the shell cannot be empty or hold a NUL";
            Err(BuildFileError::Value { line, key: "run", value, reason })
        }
        value => Ok(value),
    };
    let table = match item.get_ref() {
        DeValue::String(text) => {
            return Ok(Step::Run { command: command(text.to_string())?, network: false });
        }
        DeValue::Table(table) => table,
        other => {
            let expected = "a list of commands, each a string or { command = \"...\", net = \"host\" }";
            return Err(entry.wrong_type(expected, other, item.span().start).into());
        }
    };
    let (mut line_of_shell, mut network) = (None, false);
    for part in entries(text, "run.", table) {
        match part.key {
            "command" => line_of_shell = Some(command(part.string()?)?),
            "net" => {
                let reason = "known are none and host";
                network = match part.string()?.as_str() {
                    "none" => false,
                    "host" => true,
                    value => {
                        let (line, value) = (part.line(), value.to_string());
                        return Err(BuildFileError::Value { line, key: "run.net", value, reason });
                    }
                };
            }
            _ => return Err(unknown_in(&part, "run.", "known are run.command and run.net")),
        }
    }
    Ok(Step::Run { command: command(line_of_shell.unwrap_or_default())?, network })
}

/// An empty list is no step.
fn packages(
    entry: &Entry<'_>,
    key: &'static str,
    problem: fn(&str) -> Option<&'static str>,
) -> Result<Option<Vec<String>>, BuildFileError> {
    let names = entry.strings()?;
    for name in &names {
        checked(entry, key, name.clone(), problem)?;
    }
    Ok(Some(names).filter(|names| !names.is_empty()))
}

fn checked(
    entry: &Entry<'_>,
    key: &'static str,
    value: String,
    problem: fn(&str) -> Option<&'static str>,
) -> Result<String, BuildFileError> {
    match problem(&value) {
        Some(reason) => {
            let value = value.chars().take(80).collect();
            Err(BuildFileError::Value { line: entry.line(), key, value, reason })
        }
        None => Ok(value),
    }
}

fn name_problem(text: &str) -> Option<&'static str> {
    let bad = text.is_empty() || text.contains(|c: char| c.is_whitespace() || c.is_control());
    bad.then_some("an image is named by a reference or a path, without spaces")
}

fn mirror_problem(text: &str) -> Option<&'static str> {
    let web = text.starts_with("http://") || text.starts_with("https://");
    let plain = text.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'[' | b']' | b'"' | b'\''));
    (!web || !plain).then_some("a mirror is an address that begins with http:// or https://")
}

/// Names, and `name=version`, `name/release`; nothing that apt would take for an option or a pattern.
fn apt_problem(text: &str) -> Option<&'static str> {
    let known = |b: u8| b.is_ascii_alphanumeric() || b"+-.:=~_/".contains(&b);
    let good = text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.bytes().all(known);
    let ends_well = !text.ends_with(['+', '-']) || text.ends_with("++");
    (!good || !ends_well || text.len() > 200).then_some("this is no name of a Debian package")
}

fn pip_problem(text: &str) -> Option<&'static str> {
    let good = text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(|b| b.is_ascii_graphic() || b == b' ');
    (!good || text.len() > 400)
        .then_some("this is no requirement of pip, as in `requests` or `numpy>=1.26,<3`")
}

fn npm_problem(text: &str) -> Option<&'static str> {
    let good = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '@')
        && text.bytes().all(|b| b.is_ascii_graphic());
    (!good || text.len() > 400)
        .then_some("this is no package of npm, as in `typescript` or `@scope/name@1.2.3`")
}

fn from_problem(text: &str) -> Option<&'static str> {
    let beneath =
        Path::new(text).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    (text.is_empty() || text.contains('\0') || !beneath)
        .then_some("what is copied lies below the directory of the build file: a relative path without `..`")
}

fn to_problem(text: &str) -> Option<&'static str> {
    let mut parts = Path::new(text).components();
    let absolute = parts.next() == Some(Component::RootDir);
    let beneath = parts.all(|part| matches!(part, Component::Normal(_)));
    (!absolute || !beneath || text.contains('\0'))
        .then_some("a place inside is an absolute path without `..`")
}

fn unknown(entry: &Entry<'_>) -> BuildFileError {
    let key: String = entry.key.chars().take(64).collect();
    let wanted = key.to_lowercase().replace('-', "_");
    let nearest = KEYS.iter().map(|name| (strsim::damerau_levenshtein(&wanted, name), *name)).min();
    let suggestion = match nearest {
        Some((_, "limits")) => {
            "did you mean `[template.limits]`, or `[build]` for those of the steps?".into()
        }
        Some((distance, name)) if distance <= 2 => format!("did you mean `{name}`?"),
        _ if Policy::KEYS.contains(&wanted.as_str()) => format!("did you mean `template.{wanted}`?"),
        _ => format!("known are {}", KEYS[..11].join(", ")),
    };
    BuildFileError::UnknownKey { line: entry.line(), key: key.escape_debug().to_string(), suggestion }
}

fn unknown_in(entry: &Entry<'_>, table: &str, known: &str) -> BuildFileError {
    let key: String = entry.key.chars().take(64).collect();
    let key = format!("{table}{}", key.escape_debug());
    BuildFileError::UnknownKey { line: entry.line(), key, suggestion: known.to_string() }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
