//! Settings for the command lines of coding agents: those that come with Paddock, and the owner's own in the state
//! directory.
//!
//! The name of a file is the name of the command that it is for.

use paddock_model::net::{NetLayer, NetSetting};
use paddock_model::{NameError, Policy, SecretLayer, check_template_name};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

const SHIPPED: [(&str, &str); 3] = [
    ("claude", include_str!("../agents/claude.toml")),
    ("codex", include_str!("../agents/codex.toml")),
    ("opencode", include_str!("../agents/opencode.toml")),
];
const LARGEST: u64 = 1 << 20;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agent {
    #[serde(skip_deserializing)]
    pub name: String,
    pub description: String,
    /// The command that installs the agent into the home that it runs with; empty if there is none.
    #[serde(default)]
    pub install: Vec<String>,
    /// Hosts that are allowed while the agent is installed, and only then.
    #[serde(default)]
    pub install_hosts: Vec<String>,
    /// Hosts that are allowed beside the interfaces of models.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Paths below its home that have to stay from one start to the next.
    #[serde(default)]
    pub state: Vec<String>,
    /// Names that are read-only in the workspace, beside the protected names.
    #[serde(default)]
    pub protect: Vec<String>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Secrets by variable. One is bound if the caller has the variable.
    #[serde(default)]
    pub secrets: BTreeMap<String, Key>,
}

/// A key of the caller's that never enters the sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    pub hosts: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("there is no agent `{name}`; known are {known}")]
    Missing { name: String, known: String },
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("agent file `{}` cannot be read", .path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("agent file `{}` is damaged: {detail}", .path.display())]
    Damaged { path: PathBuf, detail: String },
}

impl AgentError {
    pub fn hint(&self) -> Option<String> {
        match self {
            AgentError::Missing { .. } => {
                Some("`paddock shield --list` shows them; your own is a file NAME.toml in agents/ of the state directory".into())
            }
            AgentError::Unreadable { .. } | AgentError::Damaged { .. } => {
                Some("mend the file, or take it away".into())
            }
            AgentError::Name(_) => None,
        }
    }
}

/// Precondition of a name: it is one of those that [`names`] has.
pub fn load(state: &Path, name: &str) -> Result<Agent, AgentError> {
    check_template_name(name)?;
    find(state, name)?
        .ok_or_else(|| AgentError::Missing { name: name.to_string(), known: names(state).join(", ") })
}

/// The agent of a command, if there is one; the command may be a path.
pub fn of_command(state: &Path, command: &str) -> Result<Option<Agent>, AgentError> {
    let name = command.rsplit('/').next().unwrap_or(command);
    if check_template_name(name).is_err() {
        return Ok(None);
    }
    find(state, name)
}

/// The names of all agents, sorted.
pub fn names(state: &Path) -> Vec<String> {
    let own = std::fs::read_dir(directory(state)).into_iter().flatten().flatten();
    let own = own.filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".toml")?.to_string()));
    let own = own.filter(|name| check_template_name(name).is_ok());
    let mut names: Vec<String> = own.chain(SHIPPED.iter().map(|(name, _)| name.to_string())).collect();
    names.sort();
    names.dedup();
    names
}

impl Agent {
    /// The agent as one layer of settings. `has`: true if the caller has the variable.
    pub fn layer(&self, has: impl Fn(&str) -> bool) -> Policy {
        let bound = self.secrets.iter().filter(|(name, _)| has(name));
        let secret = |(name, key): (&String, &Key)| {
            let from = Some(format!("env:{name}"));
            let layer = SecretLayer {
                value: None,
                from,
                hosts: key.hosts.clone(),
                header: key.header.clone(),
                ..SecretLayer::default()
            };
            (name.clone(), layer)
        };
        Policy {
            protect: self.protect.clone(),
            env: self.env.clone(),
            net: Some(NetSetting::Rules(NetLayer { allow: self.hosts.clone(), ..NetLayer::default() })),
            secrets: bound.map(secret).collect(),
            ..Policy::default()
        }
    }
}

fn directory(state: &Path) -> PathBuf {
    state.join("agents")
}

/// The owner's own agent takes the place of a shipped one.
fn find(state: &Path, name: &str) -> Result<Option<Agent>, AgentError> {
    let path = directory(state).join(format!("{name}.toml"));
    let text = match std::fs::metadata(&path) {
        Ok(found) if found.len() > LARGEST => {
            return Err(AgentError::Damaged { path, detail: "it is larger than 1 MiB".into() });
        }
        _ => std::fs::read_to_string(&path),
    };
    let text = match text {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            match SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
                Some((_, text)) => text.to_string(),
                None => return Ok(None),
            }
        }
        Err(source) => return Err(AgentError::Unreadable { path, source }),
    };
    let agent: Agent = toml::from_str(&text)
        .map_err(|error| AgentError::Damaged { path, detail: error.message().to_string() })?;
    Ok(Some(Agent { name: name.to_string(), ..agent }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Surroundings, resolve};

    #[test]
    fn what_is_shipped_is_fine() {
        let state = tempfile::tempdir().unwrap();
        assert_eq!(names(state.path()), ["claude", "codex", "opencode"]);
        for (name, _) in SHIPPED {
            let agent = load(state.path(), name).unwrap();
            assert!(!agent.install.is_empty() && !agent.secrets.is_empty(), "{name}");
            let none = agent.layer(|_| false);
            assert!(none.secrets.is_empty());
            let surroundings =
                Surroundings { state_dir: state.path(), home: None, backends: paddock_backends::all };
            resolve(&[none], surroundings).unwrap();
            let hosts = NetLayer { allow: agent.install_hosts.clone(), ..NetLayer::default() };
            hosts.resolve(&|_| None, &|_| false).unwrap();
        }
    }

    #[test]
    fn a_command_has_the_agent_of_its_name() {
        let state = tempfile::tempdir().unwrap();
        assert_eq!(of_command(state.path(), "/usr/bin/claude").unwrap().unwrap().name, "claude");
        for none in ["true", "", "/", "..", "a b", "Claude"] {
            assert_eq!(of_command(state.path(), none).unwrap(), None, "{none}");
        }
    }

    #[test]
    fn only_what_the_caller_has_is_bound() {
        let state = tempfile::tempdir().unwrap();
        let agent = load(state.path(), "claude").unwrap();
        let layer = agent.layer(|name| name == "ANTHROPIC_API_KEY");
        assert_eq!(layer.secrets.len(), 1);
        assert_eq!(layer.secrets["ANTHROPIC_API_KEY"].from.as_deref(), Some("env:ANTHROPIC_API_KEY"));
        assert_eq!(layer.secrets["ANTHROPIC_API_KEY"].hosts, ["api.anthropic.com"]);
    }

    #[test]
    fn the_owners_own_takes_its_place_and_a_damaged_one_is_said() {
        let state = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory(state.path())).unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(directory(state.path()).join(name), text).unwrap();
        write("claude.toml", "description = \"ours\"");
        write("broken.toml", "description = \"x\"\nhost = []");
        assert_eq!(load(state.path(), "claude").unwrap().description, "ours");
        let error = load(state.path(), "broken").unwrap_err().to_string();
        assert!(error.contains("broken.toml") && error.contains("host"), "{error}");
        let error = load(state.path(), "nope").unwrap_err().to_string();
        assert_eq!(error, "there is no agent `nope`; known are broken, claude, codex, opencode");
        load(state.path(), "../x").unwrap_err();
    }
}
