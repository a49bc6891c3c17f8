//! The network of a sandbox: opens its gate, records the gate's decisions, and shows them to callers.

use super::live::Live;
use super::{Actor, Fleet, FleetError, audit};
use paddock_engine::Sandbox as Inside;
use paddock_gate::{Meter, Moved};
use paddock_model::Network;
use paddock_model::api::{NetworkDecision, NetworkView};
use paddock_model::net::{Learned, NetEvent};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// The most decisions that are shown without a look into the audit.
const SHOWN_DECISIONS: usize = 500;
/// The longest wait of one request; a watching client asks again after that.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The time between two notes of limited traffic: a killed server forgets at most this much.
const NOTED: Duration = Duration::from_secs(5);

/// The last decisions about one sandbox, over all gates that it had.
#[derive(Default)]
pub struct NetLog {
    /// The meter goes on from one gate to the next.
    meter: OnceLock<Arc<Meter>>,
    state: Mutex<State>,
    more: Notify,
}

#[derive(Default)]
struct State {
    /// The number of decisions before the kept ones.
    gone: u64,
    kept: VecDeque<NetEvent>,
    learned: Learned,
}

impl NetLog {
    fn push(&self, event: NetEvent) {
        let mut state = self.locked();
        state.learned.note(&event);
        if state.kept.len() >= SHOWN_DECISIONS {
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

    /// The decisions after number `after`, and the number of the last.
    fn after(&self, after: u64) -> (Vec<NetworkDecision>, u64) {
        let state = self.locked();
        let first = state.gone + 1;
        let skip = usize::try_from(after.saturating_sub(state.gone)).unwrap_or(usize::MAX);
        let numbered = state.kept.iter().zip(first..).skip(skip);
        let events = numbered.map(|(event, number)| NetworkDecision::new(number, event)).collect();
        (events, state.gone + state.kept.len() as u64)
    }
}

impl Live {
    fn meter(&self) -> Arc<Meter> {
        let begin = || {
            let (sent, received) = self.record().moved;
            Arc::new(Meter::starting_at(Moved { sent, received }))
        };
        self.net.meter.get_or_init(begin).clone()
    }

    /// The bytes sent and received, if they are limited and not on record yet.
    fn moved_unnoted(&self) -> Option<(u64, u64)> {
        let Moved { sent, received } = self.meter().moved();
        let record = self.record();
        let limited = matches!(&record.spec.network, Network::Gate(rules) if rules.bytes.is_some());
        (limited && record.moved != (sent, received)).then_some((sent, received))
    }
}

impl Fleet {
    /// Precondition: the inside is ready. If it fails, nothing leaves.
    pub(super) async fn open_gate(&self, live: &Arc<Live>, inside: &Inside) -> Result<(), FleetError> {
        let Network::Gate(rules) = live.record().spec.network.clone() else { return Ok(()) };
        let record = live.record().clone();
        let secrets = self.secrets_of(&record)?;
        let trust = self.trust_of(&record);
        let mut events = inside.open_gate(rules, live.meter(), secrets.as_ref(), trust).await?;
        let (fleet, live) = (self.clone(), live.clone());
        // The task ends with the gate, after its last decision.
        tokio::spawn(async move {
            let mut noted = tokio::time::interval(NOTED);
            loop {
                tokio::select! {
                    event = events.recv() => match event {
                        Some(event) => {
                            audit::network(&fleet.0, &live, &event);
                            live.net.push(event);
                        }
                        None => break,
                    },
                    _ = noted.tick() => fleet.note_traffic(&live).await,
                }
            }
            fleet.note_traffic(&live).await;
        });
        Ok(())
    }

    /// Records the traffic, if it counts against a limit.
    async fn note_traffic(&self, live: &Arc<Live>) {
        if live.moved_unnoted().is_some() {
            let _guard = live.transition.lock().await;
            self.note_traffic_now(live);
        }
    }

    /// Precondition: the sandbox's transition is locked.
    pub(super) fn note_traffic_now(&self, live: &Live) {
        let Some(moved) = live.moved_unnoted() else { return };
        let record = {
            let mut record = live.record();
            record.moved = moved;
            record.clone()
        };
        if record.lives()
            && let Err(error) = self.0.save(&record)
        {
            tracing::warn!(sandbox = %live.id, %error, "what it moved could not be noted");
        }
    }

    /// The rules of a sandbox's network, and the decisions. Waits for a decision after number `after`, if there is none
    /// yet.
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
            // From here on no notification is missed.
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
        let moved = live.meter().moved();
        let connections = live.running().map_or(0, |inside| inside.connections());
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
