//! Connections that are open, so that they are bounded, counted, and cut when the rules change.

use crate::events::{Events, Subject};
use crate::wire::host::Host;
use paddock_model::net::{Denial, NetOutcome, NetRules, Way};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Connections of one sandbox at once.
pub const MOST_FLOWS: usize = 1024;

/// Where a connection is to go, and how that was asked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    pub host: Host,
    pub port: u16,
    pub way: Way,
}

#[derive(Default)]
pub struct Flows {
    open: Mutex<HashMap<u64, Open>>,
    next: AtomicU64,
}

struct Open {
    target: Target,
    address: Option<IpAddr>,
    cut: watch::Sender<Option<Denial>>,
}

/// One connection. Its end is told when the last owner lets go.
pub struct Flow {
    id: u64,
    flows: Arc<Flows>,
    events: Arc<Events>,
    target: Target,
    address: Mutex<Option<IpAddr>>,
    sent: AtomicU64,
    received: AtomicU64,
    cut: watch::Receiver<Option<Denial>>,
}

impl Flows {
    /// A place for one more.
    pub fn admit(self: &Arc<Self>, target: Target, events: &Arc<Events>) -> Result<Flow, Denial> {
        let mut open = self.locked();
        if open.len() >= MOST_FLOWS {
            return Err(Denial::TooManyFlows);
        }
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = watch::channel(None);
        open.insert(id, Open { target: target.clone(), address: None, cut: sender });
        Ok(Flow {
            id,
            flows: self.clone(),
            events: events.clone(),
            target,
            address: Mutex::new(None),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            cut: receiver,
        })
    }

    pub fn count(&self) -> usize {
        self.locked().len()
    }

    /// Cuts the connections that these rules would not let through. `own` is asked for addresses of this host.
    pub fn cut_forbidden(&self, rules: &NetRules, own: impl Fn(IpAddr) -> bool) {
        for open in self.locked().values() {
            let allowed = match (&open.target.host, open.address) {
                (Host::Name(name), Some(address)) => rules
                    .name(name, open.target.port)
                    .and_then(|_| rules.resolved(address, open.target.port, own(address)))
                    .is_ok(),
                (Host::Name(name), None) => rules.name(name, open.target.port).is_ok(),
                (Host::Address(address), _) => {
                    rules.address(*address, open.target.port, own(*address)).is_ok()
                }
            };
            if !allowed {
                let _ = open.cut.send(Some(Denial::Changed));
            }
        }
    }

    /// Every one of them, for this reason.
    pub fn cut_all(&self, why: &Denial) {
        self.cut_those(why, |_| true);
    }

    /// Those with such a target.
    pub fn cut_those(&self, why: &Denial, is_meant: impl Fn(&Target) -> bool) {
        for open in self.locked().values().filter(|open| is_meant(&open.target)) {
            let _ = open.cut.send(Some(why.clone()));
        }
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<u64, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Flow {
    /// The connection stands: notes the address that was dialled.
    pub fn connected(&self, address: IpAddr) {
        *self.address.lock().unwrap_or_else(PoisonError::into_inner) = Some(address);
        if let Some(open) = self.flows.locked().get_mut(&self.id) {
            open.address = Some(address);
        }
    }

    pub fn count(&self, sent: u64, received: u64) {
        self.sent.fetch_add(sent, Ordering::Relaxed);
        self.received.fetch_add(received, Ordering::Relaxed);
    }

    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Ends it, as a change of the rules would.
    pub fn deny(&self, why: Denial) {
        if let Some(open) = self.flows.locked().get(&self.id) {
            let _ = open.cut.send(Some(why));
        }
    }

    /// Resolves when the connection is cut.
    pub async fn cut(&self) {
        let mut cut = self.cut.clone();
        // The sender lives as long as this flow.
        let _ = cut.wait_for(Option::is_some).await;
    }

    pub fn subject(&self) -> Subject {
        let address = *self.address.lock().unwrap_or_else(PoisonError::into_inner);
        self.target.subject(address)
    }
}

impl Target {
    pub fn subject(&self, dialled: Option<IpAddr>) -> Subject {
        match &self.host {
            Host::Name(name) => Subject { name: Some(name.clone()), address: dialled, port: Some(self.port) },
            Host::Address(address) => Subject { name: None, address: Some(*address), port: Some(self.port) },
        }
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        let why = self.cut.borrow().clone();
        self.flows.locked().remove(&self.id);
        let subject = self.subject();
        // A connection that never stood has been told of already.
        if subject.address.is_none() || self.address.lock().is_ok_and(|address| address.is_none()) {
            return;
        }
        let (sent, received) = (self.sent.load(Ordering::Relaxed), self.received.load(Ordering::Relaxed));
        self.events.tell(self.target.way, subject, NetOutcome::Closed { sent, received, why });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paddock_model::net::{DomainName, NetLayer};

    fn target(name: &str) -> Target {
        Target { host: Host::Name(DomainName::parse(name).unwrap()), port: 443, way: Way::Connect }
    }

    #[tokio::test]
    async fn what_new_rules_forbid_is_cut_and_the_rest_stays() {
        let (events, mut receiver) = Events::new();
        let (events, flows) = (Arc::new(events), Arc::new(Flows::default()));
        let stays = flows.admit(target("a.example"), &events).unwrap();
        let goes = flows.admit(target("b.example"), &events).unwrap();
        for flow in [&stays, &goes] {
            flow.connected("1.2.3.4".parse().unwrap());
            flow.count(1, 2);
        }
        let layer = NetLayer { allow: vec!["a.example".into()], ..NetLayer::default() };
        flows.cut_forbidden(&layer.resolve(&|_| None, &|_| false).unwrap(), |_| false);
        goes.cut().await;
        drop(goes);
        let event = receiver.try_recv().unwrap();
        let closed = NetOutcome::Closed { sent: 1, received: 2, why: Some(Denial::Changed) };
        assert_eq!((event.target().as_str(), &event.outcome), ("b.example:443", &closed));
        assert_eq!(*stays.cut.borrow(), None);
        // The address behind the name is forbidden now.
        let layer = NetLayer { deny: vec!["1.2.3.0/24".into()], ..layer };
        flows.cut_forbidden(&layer.resolve(&|_| None, &|_| false).unwrap(), |_| false);
        stays.cut().await;
    }

    #[tokio::test]
    async fn there_is_an_end_to_them() {
        let (events, _receiver) = Events::new();
        let (events, flows) = (Arc::new(events), Arc::new(Flows::default()));
        let held: Vec<Flow> =
            (0..MOST_FLOWS).map(|_| flows.admit(target("a.example"), &events).unwrap()).collect();
        assert_eq!(flows.admit(target("a.example"), &events).err(), Some(Denial::TooManyFlows));
        drop(held);
        assert_eq!(flows.count(), 0);
        flows.admit(target("a.example"), &events).unwrap();
    }
}
