//! The meanings of the names in one piece of code. Neither scopes nor the order of statements count: a name stands for
//! everything that it is bound to anywhere.

use super::rules::{Rules, Standing};
use std::collections::{HashMap, HashSet};

/// A longer path is cut: its beginning says enough.
const LONGEST_PATH: usize = 6;
/// The most meanings of one name.
const MOST_MEANINGS: usize = 32;

#[derive(Default)]
pub struct Names {
    meanings: HashMap<String, Vec<String>>,
    /// Names that are bound to anything, known or unknown.
    bound: HashSet<String>,
    /// True if a name had more meanings than are kept.
    pub overfull: bool,
}

impl Names {
    /// Binds the name to an unknown value.
    pub fn bind(&mut self, name: &str) {
        if !self.bound.contains(name) {
            self.bound.insert(name.to_string());
        }
    }

    /// Only paths that a rule is about are kept.
    pub fn stands_for(&mut self, name: &str, path: &str, rules: &Rules) {
        self.bind(name);
        if rules.standing(path) == Standing::Plain {
            return;
        }
        let path: String = path.split('.').take(LONGEST_PATH).collect::<Vec<_>>().join(".");
        let meanings = self.meanings.entry(name.to_string()).or_default();
        if meanings.contains(&path) {
            return;
        }
        match meanings.len() < MOST_MEANINGS {
            true => meanings.push(path),
            false => self.overfull = true,
        }
    }

    pub fn meanings(&self, name: &str) -> &[String] {
        self.meanings.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    pub fn is_bound(&self, name: &str) -> bool {
        self.bound.contains(name)
    }
}

/// The path of `parts` below each of `paths`.
pub fn below(paths: Vec<String>, parts: &[String]) -> Vec<String> {
    let parts = &parts[..parts.len().min(LONGEST_PATH)];
    let joined = |path: String| parts.iter().fold(path, |path, part| format!("{path}.{part}"));
    paths.into_iter().map(joined).collect()
}
