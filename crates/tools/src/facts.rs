//! The facts about one sandbox in the texts of the tools.

use paddock_model::api::Sandbox;
use paddock_model::net::NetRules;
use paddock_model::{Limits, NetworkEnforcement};

/// Where commands start and relative paths begin.
const WORKING_DIRECTORY: &str = "/workspace";
/// The most hosts that are named: more are not worth a model's reading.
const NAMED_HOSTS: usize = 20;
/// The time limit of a call that names none, in seconds.
const TIMEOUT_SECONDS: f64 = 120.0;

/// An unknown fact is not told.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    pub network: Option<NetworkFacts>,
    pub memory_bytes: Option<u64>,
    pub cpus: Option<f64>,
    pub disk_bytes: Option<u64>,
    /// The time limit of a call that names none.
    pub timeout_seconds: f64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkFacts {
    None,
    Host,
    /// Through the gate, to these; empty where they are not known.
    Gate {
        allowed: Vec<String>,
    },
}

impl Default for Facts {
    fn default() -> Facts {
        Facts {
            network: None,
            memory_bytes: None,
            cpus: None,
            disk_bytes: None,
            timeout_seconds: TIMEOUT_SECONDS,
        }
    }
}

impl Facts {
    /// The facts of a live sandbox.
    pub fn of(sandbox: &Sandbox) -> Facts {
        let network = match sandbox.guarantees.network {
            NetworkEnforcement::None => NetworkFacts::None,
            NetworkEnforcement::Host => NetworkFacts::Host,
            NetworkEnforcement::Gate => NetworkFacts::Gate { allowed: Vec::new() },
        };
        Facts { network: Some(network), ..Facts::default() }.with_limits(&sandbox.limits)
    }

    pub fn with_limits(mut self, limits: &Limits) -> Facts {
        self.memory_bytes = Some(limits.memory);
        self.cpus = Some(limits.cpus);
        self.disk_bytes = Some(limits.disk);
        self
    }

    /// Names the hosts that the gate's rules allow.
    pub fn with_rules(mut self, rules: &NetRules) -> Facts {
        let allowed = rules.allowed().map(|rule| String::from(rule.clone())).collect();
        self.network = Some(NetworkFacts::Gate { allowed });
        self
    }

    /// A text of the tools with its words filled in.
    pub fn fill(&self, text: &str) -> String {
        let words = [
            (
                "{state}",
                "Variables, imports and files of earlier calls are still there, for each language its own."
                    .into(),
            ),
            ("{network}", self.network()),
            ("{limits}", self.limits()),
            ("{directory}", WORKING_DIRECTORY.into()),
            ("{timeout}", self.timeout_seconds.to_string()),
        ];
        let filled = words.iter().fold(text.to_string(), |text, (word, meaning)| text.replace(word, meaning));
        filled.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn network(&self) -> String {
        match &self.network {
            None => String::new(),
            Some(NetworkFacts::None) => {
                "There is no network: do not try to download or install anything.".into()
            }
            Some(NetworkFacts::Host) => "The network of the host can be reached.".into(),
            Some(NetworkFacts::Gate { allowed }) if allowed.is_empty() || allowed.len() > NAMED_HOSTS => {
                "Only some hosts can be reached; a refusal names the one that was refused.".into()
            }
            Some(NetworkFacts::Gate { allowed }) => format!(
                "Only these hosts can be reached: {}; a refusal names the one that was refused.",
                allowed.join(", ")
            ),
        }
    }

    fn limits(&self) -> String {
        let memory = self.memory_bytes.map(|bytes| format!("{} of memory", size(bytes)));
        let cpus = self.cpus.map(|cpus| format!("{cpus} processors"));
        let disk = self.disk_bytes.map(|bytes| format!("{} of disk", size(bytes)));
        let said: Vec<String> = [memory, cpus, disk].into_iter().flatten().collect();
        if said.is_empty() { String::new() } else { format!("It has {}.", said.join(", ")) }
    }
}

fn size(count: u64) -> String {
    for (unit, step) in [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
        if count >= step {
            let number = format!("{:.2}", count as f64 / step as f64);
            return format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'));
        }
    }
    format!("{count} bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use paddock_model::net::Rule;

    #[test]
    fn sizes_are_short() {
        for (count, text) in
            [(2 << 30, "2 GiB"), (1536 << 20, "1.5 GiB"), (1000 << 20, "1000 MiB"), (700, "700 bytes")]
        {
            assert_eq!(size(count), text);
        }
    }

    #[test]
    fn hosts_are_named_where_they_are_few() {
        let rules = NetRules { allow: vec![Rule::parse("pypi.org").unwrap()], ..NetRules::default() };
        assert!(
            Facts::default().with_rules(&rules).fill("{network}").contains("hosts can be reached: pypi.org;")
        );
        let many = NetworkFacts::Gate { allowed: vec!["a.example".into(); NAMED_HOSTS + 1] };
        let facts = Facts { network: Some(many), ..Facts::default() };
        assert!(facts.fill("{network}").starts_with("Only some hosts"));
        assert_eq!(Facts::default().fill("a {network} {limits} b {timeout}"), "a b 120");
    }
}
