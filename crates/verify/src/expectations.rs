//! The expected outcome of each attack, from `expectations.toml`: one file for all backends and identities.

use crate::attack::Outcome;
use crate::fence::{Engine, Identity};
use anyhow::{Context, Result, bail};
use paddock_model::Guarantees;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The operation fails.
    Deny,
    /// It may succeed, but its effect stays inside: the canaries and the run's own report show it.
    Contain,
    /// A limit is hit.
    Bound,
    /// No value of the host is seen.
    Hide,
    /// Paddock answers with an error of its own.
    Err,
}

impl Verdict {
    pub fn accepts(self, outcome: Outcome) -> bool {
        match self {
            Verdict::Deny | Verdict::Hide => matches!(outcome, Outcome::Denied | Outcome::Hidden),
            Verdict::Bound => matches!(outcome, Outcome::Bounded | Outcome::Denied),
            Verdict::Err => outcome == Outcome::Denied,
            Verdict::Contain => outcome != Outcome::Error,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    pub verdict: Verdict,
    /// The engines the attack is meant for; both when absent.
    engines: Option<Vec<Engine>>,
    /// Why the control may fail on a host: usually because its kernel was built without the thing attacked.
    pub control_may_fail: Option<String>,
    #[serde(default)]
    not_applicable: Vec<NotApplicable>,
}

/// An exception, which holds only where the sandbox itself says that it has no better.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NotApplicable {
    backend: Option<String>,
    engine: Option<Engine>,
    /// Field of the guarantees, and the values for which the attack does not apply.
    guarantee: String,
    is: Vec<String>,
    reason: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectations {
    attacks: BTreeMap<String, Expectation>,
    /// Lines of the catalogue that other tests try: file and name of each, from the root of the workspace.
    pub elsewhere: BTreeMap<String, Vec<String>>,
    /// Lines of the catalogue that nothing tries yet, or parts of them, each with the reason.
    pub skipped: BTreeMap<String, String>,
}

impl Expectations {
    pub fn load() -> Result<Expectations> {
        toml::from_str(include_str!("../expectations.toml")).context("expectations.toml")
    }

    /// Every attack has an expectation and every expectation an attack.
    pub fn match_with<'a>(&self, ids: impl Iterator<Item = &'a str>) -> Result<()> {
        let ids: BTreeSet<&str> = ids.collect();
        let expected: BTreeSet<&str> = self.attacks.keys().map(String::as_str).collect();
        let unexpected: Vec<_> = ids.difference(&expected).collect();
        let unknown: Vec<_> = expected.difference(&ids).collect();
        if !unexpected.is_empty() || !unknown.is_empty() {
            bail!(
                "attacks without an expectation: {unexpected:?}; expectations without an attack: {unknown:?}"
            );
        }
        Ok(())
    }

    /// Every one of these lines is tried here or elsewhere, or skipped with a reason.
    pub fn complete(&self, lines: &[&str]) -> Result<()> {
        let of_line = |id: &str, line: &str| id == line || id.starts_with(&format!("{line}-"));
        let told = |line: &&&str| {
            let known = self.attacks.keys().chain(self.skipped.keys());
            self.elsewhere.contains_key(**line) || known.into_iter().any(|id| of_line(id, line))
        };
        let missing: Vec<_> = lines.iter().filter(|line| !told(line)).collect();
        if !missing.is_empty() {
            bail!("neither a test nor a reason: {missing:?}");
        }
        Ok(())
    }

    /// Every test that is said to try a line is there.
    pub fn found_in(&self, workspace: &Path) -> Result<()> {
        for (line, tests) in &self.elsewhere {
            for test in tests {
                let (file, name) = test.split_once("::").with_context(|| format!("{line}: {test}"))?;
                let text = std::fs::read_to_string(workspace.join(file)).with_context(|| test.clone())?;
                if !text.contains(&format!("fn {name}(")) {
                    bail!("{line}: there is no test `{name}` in {file}");
                }
            }
        }
        Ok(())
    }

    pub fn of(&self, id: &str) -> Option<&Expectation> {
        self.attacks.get(id)
    }
}

impl Expectation {
    /// Why the attack does not apply to this sandbox, if it does not.
    pub fn excuse(&self, identity: Identity, guarantees: &Guarantees) -> Option<String> {
        if self.engines.as_ref().is_some_and(|engines| !engines.contains(&identity.engine)) {
            return Some(format!("not an attack on a {} engine", identity.engine));
        }
        let said = serde_json::to_value(guarantees).unwrap_or_default();
        let holds = |exception: &&NotApplicable| {
            let value =
                said.get(&exception.guarantee).map(|v| v.as_str().map_or(v.to_string(), String::from));
            exception.backend.as_ref().is_none_or(|backend| *backend == guarantees.backend)
                && exception.engine.is_none_or(|engine| engine == identity.engine)
                && value.is_some_and(|value| exception.is.contains(&value))
        };
        let exception = self.not_applicable.iter().find(holds)?;
        let value = &said[&exception.guarantee];
        Some(format!("{} (the sandbox says {} = {value})", exception.reason, exception.guarantee))
    }
}
