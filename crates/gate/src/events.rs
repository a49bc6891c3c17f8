//! Decisions on their way to the audit. Repeated decisions are counted, and a flood is summed up: no program inside can
//! fill a disk or a channel by asking again.

use lru::LruCache;
use paddock_model::net::{Denial, DomainName, NetEvent, NetOutcome, Way};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::{Notify, mpsc};

/// The same decision is told once in this time, with how often it was taken meanwhile.
const WINDOW: Duration = Duration::from_secs(5);
/// Different decisions that are remembered to be counted.
const REMEMBERED: usize = 256;
/// New kinds of denials in a second before they are only summed up.
const DENIALS_A_SECOND: u32 = 50;
const CHANNEL: usize = 1024;

pub struct Events {
    sender: mpsc::Sender<NetEvent>,
    state: Mutex<State>,
    /// Something was counted that is still to be told.
    counted: Notify,
}

struct State {
    recent: LruCache<Kind, Repeats>,
    second: Instant,
    denials: u32,
    /// The number of decisions that were not told.
    lost: u64,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Kind {
    way: Way,
    name: Option<DomainName>,
    address: Option<IpAddr>,
    port: Option<u16>,
    /// The outcome without its byte counts.
    outcome: NetOutcome,
}

struct Repeats {
    told: Instant,
    count: u64,
    sent: u64,
    received: u64,
}

/// The known facts about the thing that was decided on.
#[derive(Debug, Clone, Default)]
pub struct Subject {
    pub name: Option<DomainName>,
    pub address: Option<IpAddr>,
    pub port: Option<u16>,
}

impl Events {
    pub fn new() -> (Events, mpsc::Receiver<NetEvent>) {
        let (sender, receiver) = mpsc::channel(CHANNEL);
        let state = State { recent: LruCache::unbounded(), second: Instant::now(), denials: 0, lost: 0 };
        (Events { sender, state: Mutex::new(state), counted: Notify::new() }, receiver)
    }

    pub fn tell(&self, way: Way, subject: Subject, outcome: NetOutcome) {
        self.tell_at(Instant::now(), way, subject, outcome);
    }

    fn tell_at(&self, now: Instant, way: Way, subject: Subject, outcome: NetOutcome) {
        let (bare, sent, received) = match outcome {
            NetOutcome::Closed { sent, received, why } => {
                (NetOutcome::Closed { sent: 0, received: 0, why }, sent, received)
            }
            other => (other, 0, 0),
        };
        let kind =
            Kind { way, name: subject.name, address: subject.address, port: subject.port, outcome: bare };
        let mut state = self.locked();
        if let Some(repeats) = state.recent.get_mut(&kind) {
            repeats.count += 1;
            repeats.sent += sent;
            repeats.received += received;
            if now.duration_since(repeats.told) < WINDOW {
                self.counted.notify_one();
                return;
            }
            let event = event(&kind, repeats);
            *repeats = Repeats { told: now, count: 0, sent: 0, received: 0 };
            self.send(&mut state, event);
            return;
        }
        if now.duration_since(state.second) >= Duration::from_secs(1) {
            (state.second, state.denials) = (now, 0);
        }
        if matches!(kind.outcome, NetOutcome::Denied(_)) {
            state.denials += 1;
            if state.denials > DENIALS_A_SECOND {
                state.lost += 1;
                self.counted.notify_one();
                return;
            }
        }
        if state.recent.len() >= REMEMBERED
            && let Some((old, repeats)) = state.recent.pop_lru()
            && repeats.count > 0
        {
            self.send(&mut state, event(&old, &repeats));
        }
        let event = event(&kind, &Repeats { told: now, count: 1, sent, received });
        state.recent.put(kind, Repeats { told: now, count: 0, sent: 0, received: 0 });
        self.send(&mut state, event);
    }

    /// Tells the counted decisions whose window is over. Returns `true` if some are still to be told.
    pub fn flush(&self, all: bool) -> bool {
        let now = Instant::now();
        let mut state = self.locked();
        let due =
            |repeats: &Repeats| repeats.count > 0 && (all || now.duration_since(repeats.told) >= WINDOW);
        let mut told = Vec::new();
        for (kind, repeats) in state.recent.iter_mut() {
            if due(repeats) {
                told.push(event(kind, repeats));
                *repeats = Repeats { told: now, count: 0, sent: 0, received: 0 };
            }
        }
        for event in told {
            self.send(&mut state, event);
        }
        if state.lost > 0 {
            let lost = std::mem::take(&mut state.lost);
            let rest = NetEvent {
                time: milliseconds(),
                way: Way::Other,
                name: None,
                address: None,
                port: None,
                outcome: NetOutcome::Denied(Denial::NotAllowed),
                count: lost,
            };
            self.send(&mut state, rest);
        }
        state.lost > 0 || state.recent.iter().any(|(_, repeats)| repeats.count > 0)
    }

    /// Tells the counted decisions when their time comes; sleeps while there are none.
    pub async fn keep_telling(&self) {
        loop {
            self.counted.notified().await;
            loop {
                tokio::time::sleep(WINDOW).await;
                if !self.flush(false) {
                    break;
                }
            }
        }
    }

    /// A reader that does not keep up is told later how many it missed.
    fn send(&self, state: &mut State, event: NetEvent) {
        let count = event.count;
        if self.sender.try_send(event).is_err() {
            state.lost += count;
            self.counted.notify_one();
        }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn event(kind: &Kind, repeats: &Repeats) -> NetEvent {
    let outcome = match kind.outcome.clone() {
        NetOutcome::Closed { why, .. } => {
            NetOutcome::Closed { sent: repeats.sent, received: repeats.received, why }
        }
        other => other,
    };
    NetEvent {
        time: milliseconds(),
        way: kind.way,
        name: kind.name.clone(),
        address: kind.address,
        port: kind.port,
        outcome,
        count: repeats.count,
    }
}

fn milliseconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use paddock_model::net::Grant;

    fn subject(name: &str) -> Subject {
        Subject { name: DomainName::parse(name).ok(), ..Subject::default() }
    }

    fn denied() -> NetOutcome {
        NetOutcome::Denied(Denial::NotAllowed)
    }

    #[test]
    fn what_repeats_is_counted() {
        let (events, mut receiver) = Events::new();
        let start = Instant::now();
        for _ in 0..1000 {
            events.tell_at(start, Way::Dns, subject("a.example"), denied());
        }
        events.tell_at(start + WINDOW, Way::Dns, subject("a.example"), denied());
        assert_eq!(receiver.try_recv().unwrap().count, 1);
        assert_eq!(receiver.try_recv().unwrap().count, 1000);
        assert!(receiver.try_recv().is_err());
    }

    #[test]
    fn bytes_of_what_repeats_add_up() {
        let (events, mut receiver) = Events::new();
        for _ in 0..3 {
            let closed = NetOutcome::Closed { sent: 1, received: 10, why: None };
            events.tell(Way::Connect, subject("a.example"), closed);
        }
        assert!(!events.flush(true));
        let (mut sent, mut received, mut count) = (0, 0, 0);
        while let Ok(event) = receiver.try_recv() {
            let NetOutcome::Closed { sent: s, received: r, .. } = event.outcome else { panic!("{event:?}") };
            (sent, received, count) = (sent + s, received + r, count + event.count);
        }
        assert_eq!((sent, received, count), (3, 30, 3));
    }

    #[test]
    fn a_flood_of_different_names_is_summed_up_and_not_one_is_forgotten() {
        let (events, mut receiver) = Events::new();
        for index in 0..5000 {
            events.tell(Way::Dns, subject(&format!("n{index}.example")), denied());
        }
        let mut counted = 0;
        let mut told = 0;
        while events.flush(true) {}
        while let Ok(event) = receiver.try_recv() {
            counted += event.count;
            told += 1;
        }
        assert_eq!(counted, 5000);
        assert!(told < 500, "{told}");
        assert!(events.locked().recent.len() <= REMEMBERED);
    }

    #[test]
    fn a_reader_that_sleeps_hears_how_much_it_missed() {
        let (events, mut receiver) = Events::new();
        for index in 0..CHANNEL * 2 {
            let allowed = NetOutcome::Allowed(Grant::Learning);
            events.tell(Way::Connect, subject(&format!("n{index}.example")), allowed);
        }
        let mut counted = 0;
        loop {
            while let Ok(event) = receiver.try_recv() {
                counted += event.count;
            }
            if !events.flush(true) {
                break;
            }
        }
        while let Ok(event) = receiver.try_recv() {
            counted += event.count;
        }
        assert_eq!(counted, CHANNEL as u64 * 2);
    }
}
