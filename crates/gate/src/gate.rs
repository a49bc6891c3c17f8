//! One sandbox's gate: started with the two sockets that were made in the sandbox's network namespace, gone when it is
//! dropped.

use crate::events::Events;
use crate::link::Link;
use crate::meter::{Meter, Moved};
use crate::resolver::Resolver;
use crate::secrets::{Mask, Secrets};
use crate::shared::Shared;
use crate::{proxy, stack};
use paddock_model::net::{NetEvent, NetRules};
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

pub struct Gate {
    shared: Arc<Shared>,
    /// Ended when this is dropped: from then on nothing is answered, and nothing leaves.
    _tasks: JoinSet<()>,
}

/// Both are made inside the sandbox's network namespace.
pub struct Ends {
    /// A packet socket on the far end of the veth ([`crate::open_link`]).
    pub link: OwnedFd,
    /// Listens on the sandbox's loopback.
    pub proxy: TcpListener,
}

pub struct Settings {
    pub rules: NetRules,
    /// Many gates may share one.
    pub resolver: Arc<Resolver>,
    /// The counts of an earlier gate of the same sandbox go on.
    pub meter: Arc<Meter>,
    /// The secrets that are put into requests to the hosts that they are bound to.
    pub secrets: Arc<Secrets>,
}

#[derive(Debug, thiserror::Error)]
pub enum GateError {
    #[error("the sandbox's link cannot be used: {0}")]
    Link(#[source] io::Error),
    #[error("the proxy's socket cannot be used: {0}")]
    Proxy(#[source] io::Error),
}

impl Gate {
    /// Precondition: called within a runtime with time and I/O.
    pub fn start(ends: Ends, settings: Settings) -> Result<(Gate, mpsc::Receiver<NetEvent>), GateError> {
        let link = Link::new(ends.link).map_err(GateError::Link)?;
        ends.proxy.set_nonblocking(true).map_err(GateError::Proxy)?;
        let listener = tokio::net::TcpListener::from_std(ends.proxy).map_err(GateError::Proxy)?;
        let (events, receiver) = Events::new();
        let shared = Arc::new(Shared::new(
            settings.rules,
            settings.resolver,
            events,
            settings.meter,
            settings.secrets,
        ));
        let mut tasks = JoinSet::new();
        tasks.spawn(stack::serve(shared.clone(), link));
        tasks.spawn(proxy::serve(shared.clone(), listener));
        let events = shared.events.clone();
        tasks.spawn(async move { events.keep_telling().await });
        Ok((Gate { shared, _tasks: tasks }, receiver))
    }

    /// The new rules hold for new connections and for open ones.
    pub fn update(&self, rules: NetRules) {
        self.shared.set_rules(rules);
    }

    /// Other secrets hold for the next requests, on open connections too. A connection to a host for which TLS begins or ceases
    /// to be ended here is cut. Returns the mask of all values that are and were.
    pub fn update_secrets(&self, secrets: Secrets) -> Mask {
        self.shared.set_secrets(secrets)
    }

    pub fn moved(&self) -> Moved {
        self.shared.meter.moved()
    }

    pub fn connections(&self) -> usize {
        self.shared.flows.count()
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.shared.close();
        self.shared.events.flush(true);
    }
}
