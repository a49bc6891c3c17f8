//! What leaves a sandbox: its gate is opened, what that decides is written down, and whoever asks is told.

use super::live::Live;
use super::{Actor, Fleet, FleetError, audit};
use crate::sandbox::Sandbox as Inside;
use paddock_model::Network;
use paddock_model::api::{NetworkDecision, NetworkView};
use paddock_model::net::{Learned, NetEvent};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Decisions that are shown without a look into the audit.
const KEPT: usize = 500;
/// Whoever watches asks again after that.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The last decisions on one sandbox, by whichever gate it had.
#[derive(Default)]
pub struct NetLog {
    state: Mutex<State>,
    more: Notify,
}

#[derive(Default)]
struct State {
    /// How many there were before those that are kept.
    gone: u64,
    kept: VecDeque<NetEvent>,
    learned: Learned,
}

impl NetLog {
    fn push(&self, event: NetEvent) {
        let mut state = self.locked();
        state.learned.note(&event);
        if state.kept.len() >= KEPT {
            state.kept.pop_front();
            state.gone += 1;
        }
        state.kept.push_back(event);
        drop(state);
        self.more.notify_waiters();
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those after number `after`, and the number of the last.
    fn after(&self, after: u64) -> (Vec<NetworkDecision>, u64) {
        let state = self.locked();
        let first = state.gone + 1;
        let skip = usize::try_from(after.saturating_sub(state.gone)).unwrap_or(usize::MAX);
        let numbered = state.kept.iter().zip(first..).skip(skip);
        let events = numbered.map(|(event, number)| NetworkDecision::new(number, event)).collect();
        (events, state.gone + state.kept.len() as u64)
    }
}

impl Fleet {
    /// Precondition: the inside is ready. Where it fails, nothing leaves.
    pub(super) async fn open_gate(&self, live: &Arc<Live>, inside: &Inside) -> Result<(), FleetError> {
        let Network::Gate(rules) = live.record().spec.network.clone() else { return Ok(()) };
        let secrets = self.secrets_of(&live.record().clone())?;
        let mut events = inside.open_gate(rules, secrets.as_ref(), &self.0.options.state).await?;
        let (inner, live) = (self.0.clone(), live.clone());
        // Ends with the gate, when the last of them has been told.
        tokio::spawn(async move {
            while let Some(event) = events.recv().await {
                audit::network(&inner, &live, &event);
                live.net.push(event);
            }
        });
        Ok(())
    }

    /// What may leave a sandbox, and what was decided. Waits for a decision after number `after`, if there is none yet.
    pub async fn network(
        &self,
        actor: &Actor,
        id: &str,
        after: u64,
        wait: Duration,
    ) -> Result<NetworkView, FleetError> {
        let live = self.find(actor, id)?;
        let deadline = tokio::time::Instant::now() + wait.min(LONGEST_WAIT);
        let (decisions, last) = loop {
            let more = live.net.more.notified();
            tokio::pin!(more);
            // From here on nothing is missed.
            more.as_mut().enable();
            let (decisions, last) = live.net.after(after);
            if !decisions.is_empty() || tokio::time::timeout_at(deadline, more).await.is_err() {
                break (decisions, last);
            }
        };
        let (network, rules) = match live.record().spec.network.clone() {
            Network::None => ("none", None),
            Network::Host => ("host", None),
            Network::Gate(rules) => ("gate", Some(rules)),
        };
        let (moved, connections) = live.running().and_then(|inside| inside.traffic()).unwrap_or_default();
        let learned = live.net.locked().learned.clone();
        Ok(NetworkView {
            network: network.into(),
            rules,
            sent_bytes: moved.sent,
            received_bytes: moved.received,
            connections: connections as u64,
            decisions,
            last,
            needed: learned.layer().allow,
            needed_more: learned.overflowed(),
        })
    }
}
