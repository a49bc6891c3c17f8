//! The rules that a run would have needed, gathered from its events.

use super::event::{NetEvent, NetOutcome, Way};
use super::layer::NetLayer;
use super::special::is_special;
use super::verdict::{Denial, Grant};
use std::collections::{BTreeMap, BTreeSet};

/// More than this many hosts is a scan and no need.
const MOST_HOSTS: usize = 1000;

#[derive(Debug, Clone, Default)]
pub struct Learned {
    hosts: BTreeMap<String, BTreeSet<u16>>,
    overflowed: bool,
}

impl Learned {
    pub fn note(&mut self, event: &NetEvent) {
        // A request for a name does not say which port is wanted.
        let (Some(port), true) = (event.port, event.way != Way::Dns) else { return };
        let host = NetEvent { port: None, ..event.clone() };
        let address = NetEvent { name: None, ..host.clone() };
        match &event.outcome {
            // Behind a name or alone, the address is the missing rule.
            NetOutcome::Denied(Denial::Special(_)) => self.need(address.target(), port),
            NetOutcome::Denied(Denial::NotAllowed) => self.need(host.target(), port),
            NetOutcome::Allowed(Grant::Rule(_) | Grant::Learning) => {
                self.need(host.target(), port);
                // Behind a name, it had a rule of its own.
                if event.address.is_some_and(is_special) {
                    self.need(address.target(), port);
                }
            }
            _ => {}
        }
    }

    fn need(&mut self, host: String, port: u16) {
        if self.hosts.len() >= MOST_HOSTS && !self.hosts.contains_key(&host) {
            self.overflowed = true;
            return;
        }
        self.hosts.entry(host).or_default().insert(port);
    }

    /// True if there was more than is kept.
    pub fn overflowed(&self) -> bool {
        self.overflowed
    }

    pub fn layer(&self) -> NetLayer {
        let usual: BTreeSet<u16> = [80, 443].into();
        let rule = |(host, ports): (&String, &BTreeSet<u16>)| {
            if *ports == usual {
                return host.clone();
            }
            let ports: Vec<String> = ports.iter().take(64).map(u16::to_string).collect();
            format!("{host}:{}", ports.join(","))
        };
        NetLayer { allow: self.hosts.iter().map(rule).collect(), ..NetLayer::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{DomainName, SpecialKind};

    #[test]
    fn the_rules_that_were_needed_allow_what_was_wanted() {
        let event = |name: Option<&str>, address: Option<&str>, port, way, outcome| NetEvent {
            time: 0,
            way,
            name: name.map(|name| DomainName::parse(name).unwrap()),
            address: address.map(|address| address.parse().unwrap()),
            port,
            outcome,
            count: 1,
        };
        let learning = || NetOutcome::Allowed(Grant::Learning);
        let refused = || NetOutcome::Denied(Denial::NotAllowed);
        let mut learned = Learned::default();
        for event in [
            event(Some("asked.example"), None, None, Way::Dns, refused()),
            event(Some("a.example"), Some("1.2.3.4"), Some(443), Way::Connect, learning()),
            event(Some("a.example"), None, Some(80), Way::Http, refused()),
            event(Some("in.example"), Some("10.0.0.9"), Some(80), Way::Http, learning()),
            event(Some("b.example"), None, Some(8443), Way::Socks, refused()),
            event(None, Some("fd00::1"), Some(22), Way::Connect, refused()),
            event(
                Some("db.example"),
                Some("10.0.0.1"),
                Some(5432),
                Way::Connect,
                NetOutcome::Denied(Denial::Special(SpecialKind::Private)),
            ),
            event(Some("no.example"), None, Some(1), Way::Connect, NetOutcome::Denied(Denial::Bytes)),
        ] {
            learned.note(&event);
        }
        let layer = learned.layer();
        assert_eq!(
            layer.allow,
            ["10.0.0.1:5432", "10.0.0.9:80", "[fd00::1]:22", "a.example", "b.example:8443", "in.example:80"]
        );
        layer.resolve(&|_| None, &|_| false).unwrap();
    }

    #[test]
    fn a_scan_does_not_fill_memory() {
        let mut learned = Learned::default();
        for index in 0..2000u32 {
            learned.note(&NetEvent {
                time: 0,
                way: Way::Connect,
                name: None,
                address: Some(std::net::Ipv4Addr::from(0x0100_0000 + index).into()),
                port: Some(443),
                outcome: NetOutcome::Denied(Denial::NotAllowed),
                count: 1,
            });
        }
        assert!(learned.overflowed());
        assert_eq!(learned.layer().allow.len(), MOST_HOSTS);
    }
}
