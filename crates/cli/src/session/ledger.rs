//! The hosts that a run connected to, and the hosts that were refused: one line for each host, however often it was
//! tried.

use paddock_model::net::{NetEvent, NetOutcome, Way};
use serde::Serialize;
use std::collections::BTreeMap;

/// A program that tries more hosts than that is not worth more lines.
const MOST_HOSTS: usize = 500;

#[derive(Debug, Default)]
pub struct Ledger {
    /// Keyed by the refusal (true if refused), and the target.
    hosts: BTreeMap<(bool, String), Host>,
    /// Decisions about hosts that are not kept.
    pub others: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Host {
    pub target: String,
    pub allowed: bool,
    pub times: u64,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    /// Why it was refused, or by which rule it was allowed.
    pub reason: String,
    /// The flag that would allow it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Ledger {
    pub fn note(&mut self, event: &NetEvent) {
        match &event.outcome {
            // The connection that follows is told.
            NetOutcome::Allowed(_) if event.way == Way::Dns => {}
            NetOutcome::Allowed(grant) => {
                if let Some(host) = self.host(event, true, || grant.to_string()) {
                    host.times += event.count;
                }
            }
            NetOutcome::Denied(why) => self.refuse(event, &why.to_string()),
            NetOutcome::Closed { sent, received, why } => {
                if let Some(host) = self.host(event, true, || "by a rule".into()) {
                    host.sent_bytes += sent;
                    host.received_bytes += received;
                }
                if let Some(why) = why {
                    self.refuse(event, &why.to_string());
                }
            }
        }
    }

    /// Allowed hosts come first.
    pub fn hosts(&self) -> Vec<Host> {
        self.hosts.values().cloned().collect()
    }

    fn refuse(&mut self, event: &NetEvent, why: &str) {
        if let Some(host) = self.host(event, false, || why.to_string()) {
            host.times += event.count;
        }
    }

    fn host(
        &mut self,
        event: &NetEvent,
        allowed: bool,
        reason: impl FnOnce() -> String,
    ) -> Option<&mut Host> {
        let key = (!allowed, event.target());
        if !self.hosts.contains_key(&key) && self.hosts.len() >= MOST_HOSTS {
            self.others += event.count;
            return None;
        }
        let new = |target: String| Host {
            target,
            allowed,
            reason: reason(),
            advice: event.advice(),
            ..Host::default()
        };
        Some(self.hosts.entry(key).or_insert_with_key(|(_, target)| new(target.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paddock_model::net::{Denial, DomainName, Grant};

    fn event(name: &str, way: Way, outcome: NetOutcome) -> NetEvent {
        let name = Some(DomainName::parse(name).unwrap());
        NetEvent { time: 1, way, name, address: None, port: Some(443), outcome, count: 2 }
    }

    #[test]
    fn one_line_for_each_host_and_how_to_allow_it() {
        let mut ledger = Ledger::default();
        let allowed = || NetOutcome::Allowed(Grant::Rule("a.example:443".into()));
        ledger.note(&event("a.example", Way::Dns, allowed()));
        assert!(ledger.hosts().is_empty());
        ledger.note(&event("a.example", Way::Tunnel, allowed()));
        let closed = NetOutcome::Closed { sent: 10, received: 20, why: None };
        ledger.note(&event("a.example", Way::Tunnel, closed));
        for _ in 0..3 {
            ledger.note(&event("b.example", Way::Connect, NetOutcome::Denied(Denial::NotAllowed)));
        }
        let hosts = ledger.hosts();
        assert_eq!(hosts.len(), 2);
        assert_eq!(
            (hosts[0].target.as_str(), hosts[0].times, hosts[0].received_bytes),
            ("a.example:443", 2, 20)
        );
        assert_eq!((hosts[1].allowed, hosts[1].times), (false, 6));
        assert_eq!(hosts[1].advice.as_deref(), Some("to allow it: --allow-net b.example:443"));
    }

    #[test]
    fn a_flood_of_names_is_counted_and_not_kept() {
        let mut ledger = Ledger::default();
        for number in 0..MOST_HOSTS + 10 {
            let name = format!("n{number}.example");
            ledger.note(&event(&name, Way::Connect, NetOutcome::Denied(Denial::NotAllowed)));
        }
        assert_eq!((ledger.hosts().len(), ledger.others), (MOST_HOSTS, 20));
    }
}
