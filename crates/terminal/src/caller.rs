//! The surroundings of one call: environment and streams. Tests hand in their own.

use crate::env_vars;
use paddock_engine::FindBackends;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal, Read, Write};
use std::path::Path;

pub struct Caller<'a> {
    pub environment: Environment,
    pub terminals: Terminals,
    /// The backends that this command has.
    pub backends: FindBackends,
    pub stdin: &'a mut dyn Read,
    pub stdout: &'a mut dyn Write,
    pub stderr: &'a mut dyn Write,
}

/// Which of the three streams are terminals.
#[derive(Debug, Clone, Copy, Default)]
pub struct Terminals {
    pub stdin: bool,
    pub stdout: bool,
    pub stderr: bool,
}

#[derive(Debug, Clone, Default)]
pub struct Environment(BTreeMap<OsString, OsString>);

impl Caller<'_> {
    pub fn colour_on_stdout(&self) -> bool {
        self.terminals.stdout && self.environment.get(env_vars::NO_COLOR).is_none()
    }

    pub fn colour_on_stderr(&self) -> bool {
        self.terminals.stderr && self.environment.get(env_vars::NO_COLOR).is_none()
    }
}

impl Terminals {
    pub fn of_this_process() -> Self {
        Terminals {
            stdin: std::io::stdin().is_terminal(),
            stdout: std::io::stdout().is_terminal(),
            stderr: std::io::stderr().is_terminal(),
        }
    }
}

impl Environment {
    /// A variable's value; one that is set to nothing counts as unset.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.value(name).filter(|value| !value.is_empty())
    }

    /// A variable's value, empty or not.
    pub fn value(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// The variables whose values are text.
    pub fn texts(&self) -> BTreeMap<String, String> {
        let text = |value: &OsString| value.to_str().map(String::from);
        self.0.iter().filter_map(|(name, value)| Some((text(name)?, text(value)?))).collect()
    }

    pub fn home(&self) -> Option<&Path> {
        self.get(env_vars::HOME).map(Path::new).filter(|home| home.is_absolute())
    }
}

impl FromIterator<(OsString, OsString)> for Environment {
    fn from_iter<I: IntoIterator<Item = (OsString, OsString)>>(variables: I) -> Self {
        Environment(variables.into_iter().collect())
    }
}
