//! One step: its line for people, its programs, and the key that tells if an earlier result is as good.

use super::file::Step;
use paddock_images::digest::{Digest, Hasher};
use std::collections::BTreeMap;

/// Part of every key: a builder that does a step differently must not find the results of an older one.
const BUILDER: &str = "paddock-build 1";
const SHOWN: usize = 100;

/// One program of a step, in a shell of the image or without.
pub type Argv = Vec<String>;

impl Step {
    /// One line for people.
    pub fn shown(&self) -> String {
        let text = match self {
            Step::Apt { packages } => format!("apt {}", packages.join(" ")),
            Step::Pip { packages } => format!("pip {}", packages.join(" ")),
            Step::Npm { packages } => format!("npm {}", packages.join(" ")),
            Step::Copy { from, to } => format!("copy {from} {to}"),
            Step::Run { command, .. } => format!("run {command}"),
            Step::Client(step) => step.shown(),
        };
        let line: String = text.lines().next().unwrap_or("").chars().take(SHOWN).collect();
        let cut = line.len() < text.len();
        let harmless: String = line.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        format!("{harmless}{}", if cut { "..." } else { "" })
    }

    pub fn fetches(&self) -> bool {
        match self {
            Step::Apt { .. } | Step::Pip { .. } | Step::Npm { .. } => true,
            Step::Run { network, .. } => *network,
            Step::Copy { .. } => false,
            Step::Client(step) => step.fetches(),
        }
    }

    /// The programs of the step, in order. The packages are arguments, never text of a shell.
    pub fn programs(&self) -> Vec<Argv> {
        let words = |words: &[&str], more: &[String]| -> Argv {
            words.iter().map(|word| word.to_string()).chain(more.iter().cloned()).collect()
        };
        match self {
            Step::Apt { packages } => {
                vec![
                    words(&["apt-get", "-q", "update"], &[]),
                    words(&["apt-get", "-qy", "install", "--"], packages),
                ]
            }
            Step::Pip { packages } => {
                let pip = ["python3", "-m", "pip", "install", "--no-cache-dir", "--no-input"];
                let quiet =
                    ["--break-system-packages", "--root-user-action=ignore", "--progress-bar=off", "--"];
                vec![words(&[&pip[..], &quiet].concat(), packages)]
            }
            Step::Npm { packages } => {
                let npm = ["npm", "install", "--global", "--no-fund", "--no-audit", "--no-progress"];
                let cache = format!("--cache={NPM_CACHE}");
                vec![words(&[&npm[..], &[cache.as_str(), "--"]].concat(), packages)]
            }
            Step::Run { command, .. } => vec![words(&["/bin/sh", "-c", command], &[])],
            Step::Copy { .. } => Vec::new(),
            Step::Client(step) => step.programs(),
        }
    }

    /// Directories that a step needs and no image keeps: empty file systems in memory.
    pub fn scratch(&self) -> &'static [&'static str] {
        match self {
            Step::Apt { .. } => &["/var/cache/apt", "/var/lib/apt/lists"],
            Step::Npm { .. } => &[NPM_CACHE],
            Step::Pip { .. } | Step::Copy { .. } | Step::Run { .. } | Step::Client(_) => &[],
        }
    }

    /// The same key means the same result, as far as a build can know: a mirror is not asked for newer packages.
    ///
    /// `content`: the digest of the copied files. `sources`: the list of package sources.
    pub fn key(
        &self,
        parent: &Digest,
        env: &BTreeMap<String, String>,
        content: Option<&Digest>,
        sources: &str,
    ) -> Digest {
        let mut key = Key::new("step");
        key.add(parent.hex());
        match self {
            Step::Apt { packages } => key.add("apt").add(sources).all(packages),
            Step::Pip { packages } => key.add("pip").all(packages).all(pairs(env)),
            Step::Npm { packages } => key.add("npm").all(packages).all(pairs(env)),
            Step::Copy { to, .. } => key.add("copy").add(to).add(content.map_or("", Digest::hex)),
            Step::Run { command, network } => {
                key.add("run").add(command).add(if *network { "host" } else { "none" }).all(pairs(env))
            }
            Step::Client(step) => step.add_to(&mut key, content, &pairs(env)),
        };
        key.finish()
    }
}

const NPM_CACHE: &str = "/run/paddock-npm";

pub(super) fn pairs(env: &BTreeMap<String, String>) -> Vec<String> {
    env.iter().map(|(name, value)| format!("{name}={value}")).collect()
}

/// A digest over parts. Each part has its length before it, so that two different lists never give the same text.
pub struct Key(Hasher);

impl Key {
    pub fn new(kind: &str) -> Key {
        let mut key = Key(Hasher::default());
        key.add(BUILDER).add(kind);
        key
    }

    pub fn add(&mut self, part: &str) -> &mut Key {
        self.0.update(&(part.len() as u64).to_le_bytes());
        self.0.update(part.as_bytes());
        self
    }

    pub fn all(&mut self, parts: impl AsRef<[String]>) -> &mut Key {
        self.0.update(&(parts.as_ref().len() as u64).to_le_bytes());
        parts.as_ref().iter().for_each(|part| {
            self.add(part);
        });
        self
    }

    pub fn finish(self) -> Digest {
        self.0.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(command: &str, network: bool) -> Step {
        Step::Run { command: command.into(), network }
    }

    #[test]
    fn a_key_changes_with_everything_that_a_step_depends_on() {
        let (parent, other) = (Digest::of(b"a"), Digest::of(b"b"));
        let none = BTreeMap::new();
        let env = BTreeMap::from([("A".to_string(), "1".to_string())]);
        let apt =
            |packages: &[&str]| Step::Apt { packages: packages.iter().map(|p| p.to_string()).collect() };
        let copy = |to: &str| Step::Copy { from: "x".into(), to: to.into() };
        let mut keys = vec![
            run("a", false).key(&parent, &none, None, ""),
            run("a", false).key(&other, &none, None, ""),
            run("a", false).key(&parent, &env, None, ""),
            run("a", true).key(&parent, &none, None, ""),
            run("b", false).key(&parent, &none, None, ""),
            apt(&["a", "b"]).key(&parent, &none, None, "one"),
            apt(&["a", "b"]).key(&parent, &none, None, "two"),
            apt(&["ab"]).key(&parent, &none, None, "one"),
            apt(&["b", "a"]).key(&parent, &none, None, "one"),
            copy("/a").key(&parent, &none, Some(&parent), ""),
            copy("/a").key(&parent, &none, Some(&other), ""),
            copy("/b").key(&parent, &none, Some(&other), ""),
        ];
        assert_eq!(keys[0], run("a", false).key(&parent, &none, None, ""), "the same is the same");
        assert_eq!(apt(&["a"]).key(&parent, &none, None, ""), apt(&["a"]).key(&parent, &env, None, ""));
        let count = keys.len();
        keys.sort_by_key(|key| key.hex().to_string());
        keys.dedup();
        assert_eq!(keys.len(), count);
    }

    #[test]
    fn packages_are_arguments_and_never_text_of_a_shell() {
        let step = Step::Pip { packages: vec!["a; touch /x".into()] };
        let programs = step.programs();
        assert_eq!(programs[0].last().unwrap(), "a; touch /x");
        assert_eq!(programs[0][programs[0].len() - 2], "--");
        assert!(!programs[0].contains(&"-c".to_string()));
    }

    #[test]
    fn a_step_is_shown_in_one_line() {
        assert_eq!(run("echo a\necho b", false).shown(), "run echo a...");
        assert!(run(&"x".repeat(500), false).shown().len() < 120);
        assert!(!run("\u{1b}[31m", false).shown().contains('\u{1b}'));
    }
}
