//! The connections of one listener: how many there may be, and which one goes when there is no room.
//!
//! A stranger is a connection whose client has shown no right yet. Strangers have bounds of their own, one for each
//! peer and one for all of them, and a short time: a client that only connects cannot keep others out. If there is no
//! room, the oldest stranger without a request goes first.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// So often descriptors are counted while there are too few.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

pub struct Connections {
    bounds: Bounds,
    table: Mutex<Table>,
    /// Told when a connection ends or has nothing to do.
    room: Notify,
}

#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    pub all: usize,
    pub strangers: usize,
    pub strangers_per_peer: usize,
}

#[derive(Default)]
struct Table {
    next: u64,
    all: HashMap<u64, Entry>,
    strangers: usize,
    /// By age: connections without a request at this moment.
    idle_strangers: BTreeSet<u64>,
    idle_known: BTreeSet<u64>,
    peers: HashMap<IpAddr, Strangers>,
}

/// The strangers of one peer.
#[derive(Default)]
struct Strangers {
    count: usize,
    idle: BTreeSet<u64>,
}

struct Entry {
    peer: Option<IpAddr>,
    known: bool,
    requests: usize,
    idle_since: Instant,
    close: CancellationToken,
}

/// One connection; it leaves the table when this is dropped.
pub struct Connection {
    connections: Arc<Connections>,
    number: u64,
    close: CancellationToken,
}

/// A request of a connection, from its head to the end of its answer.
pub struct Busy(Arc<Connection>);

impl Connections {
    pub fn new(bounds: Bounds) -> Arc<Connections> {
        Arc::new(Connections { bounds, table: Mutex::default(), room: Notify::new() })
    }

    /// Returns when there is room for one more, and a descriptor for it. If descriptors are few, idle connections give
    /// theirs back: a new client then waits outside, and no request that was begun fails for want of a descriptor.
    pub async fn room(&self, has_descriptor: impl Fn() -> bool) {
        loop {
            let told = self.room.notified();
            tokio::pin!(told);
            told.as_mut().enable();
            let has_place = self.table().make_room(self.bounds.all);
            if has_place && has_descriptor() {
                return;
            }
            if has_place {
                self.table().close_oldest_idle();
                // Others than connections may give some back, too.
                let _ = tokio::time::timeout(LOOK_AGAIN, told).await;
            } else {
                told.await;
            }
        }
    }

    /// `None`: this peer has too many that are all at work. `known`: the owner, by the kernel's word.
    pub fn admit(self: &Arc<Connections>, peer: Option<IpAddr>, known: bool) -> Option<Connection> {
        let peer = peer.map(network).filter(|_| !known);
        let close = CancellationToken::new();
        let mut table = self.table();
        if let Some(peer) = peer
            && table
                .peers
                .get(&peer)
                .is_some_and(|strangers| strangers.count >= self.bounds.strangers_per_peer)
        {
            let oldest = table.peers.get(&peer).and_then(|strangers| strangers.idle.first().copied());
            table.close(oldest?);
        }
        if !known
            && table.strangers >= self.bounds.strangers
            && let Some(oldest) = table.idle_strangers.first().copied()
        {
            table.close(oldest);
        }
        let number = table.next;
        table.next += 1;
        let entry = Entry { peer, known, requests: 0, idle_since: Instant::now(), close: close.clone() };
        table.insert(number, entry);
        drop(table);
        Some(Connection { connections: self.clone(), number, close })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    /// Ready when others need its place.
    pub async fn closed(&self) {
        self.close.cancelled().await;
    }

    /// Its client has shown a right.
    pub fn is_known(&self) {
        self.change(|entry| entry.known = true);
    }

    pub fn begin(self: &Arc<Connection>) -> Busy {
        self.change(|entry| entry.requests += 1);
        Busy(self.clone())
    }

    /// Ready when it has been a stranger without a request for so long.
    pub async fn idle_as_stranger(&self, patience: Duration) {
        loop {
            let wait = match self.connections.table().all.get(&self.number) {
                None => return,
                Some(entry) if entry.known => None,
                Some(entry) if entry.requests > 0 => Some(patience),
                Some(entry) => Some(patience.saturating_sub(entry.idle_since.elapsed())),
            };
            match wait {
                None => return std::future::pending().await,
                Some(Duration::ZERO) => return,
                Some(wait) => tokio::time::sleep(wait).await,
            }
        }
    }

    fn change(&self, change: impl FnOnce(&mut Entry)) {
        let mut table = self.connections.table();
        if let Some(mut entry) = table.remove(self.number) {
            change(&mut entry);
            table.insert(self.number, entry);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.connections.table().remove(self.number);
        self.connections.room.notify_one();
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.change(|entry| {
            entry.requests = entry.requests.saturating_sub(1);
            entry.idle_since = Instant::now();
        });
        self.0.connections.room.notify_one();
    }
}

impl Table {
    fn make_room(&mut self, most: usize) -> bool {
        if self.all.len() < most {
            return true;
        }
        self.close_oldest_idle()
    }

    fn close_oldest_idle(&mut self) -> bool {
        let oldest = self.idle_strangers.first().or(self.idle_known.first()).copied();
        oldest.map(|number| self.close(number)).is_some()
    }

    fn close(&mut self, number: u64) {
        if let Some(entry) = self.remove(number) {
            entry.close.cancel();
        }
    }

    fn insert(&mut self, number: u64, entry: Entry) {
        let idle = entry.requests == 0;
        if entry.known {
            if idle {
                self.idle_known.insert(number);
            }
        } else {
            self.strangers += 1;
            if idle {
                self.idle_strangers.insert(number);
            }
            if let Some(peer) = entry.peer {
                let strangers = self.peers.entry(peer).or_default();
                strangers.count += 1;
                if idle {
                    strangers.idle.insert(number);
                }
            }
        }
        self.all.insert(number, entry);
    }

    fn remove(&mut self, number: u64) -> Option<Entry> {
        let entry = self.all.remove(&number)?;
        self.idle_known.remove(&number);
        self.idle_strangers.remove(&number);
        if !entry.known {
            self.strangers -= 1;
            if let Some(peer) = entry.peer
                && let Some(strangers) = self.peers.get_mut(&peer)
            {
                strangers.count -= 1;
                strangers.idle.remove(&number);
                if strangers.count == 0 {
                    self.peers.remove(&peer);
                }
            }
        }
        Some(entry)
    }
}

/// One peer: an address, or the network of 64 bits that an IPv6 host chooses its addresses from.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let mut octets = address.octets();
            octets[8..].fill(0);
            IpAddr::from(octets)
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { all: 6, strangers: 4, strangers_per_peer: 2 };

    fn address(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([10, 0, 0, last]))
    }

    fn is_closed(connection: &Connection) -> bool {
        connection.close.is_cancelled()
    }

    #[tokio::test]
    async fn the_oldest_idle_stranger_of_a_peer_goes_first() {
        let all = Connections::new(BOUNDS);
        let first = Arc::new(all.admit(address(1), false).expect("room"));
        let second = all.admit(address(1), false).expect("room");
        let busy = first.begin();
        let third = Arc::new(all.admit(address(1), false).expect("room"));
        assert!(!is_closed(&first) && is_closed(&second) && !is_closed(&third));
        let also = third.begin();
        assert!(all.admit(address(1), false).is_none(), "all of this peer are at work");
        assert!(all.admit(address(2), false).is_some(), "another peer has nothing to do with it");
        drop((busy, also));
        let fourth = all.admit(address(1), false).expect("room");
        assert!(is_closed(&first) && !is_closed(&fourth));
    }

    #[tokio::test]
    async fn strangers_go_before_those_who_are_known() {
        let all = Connections::new(BOUNDS);
        let known = all.admit(address(1), false).expect("room");
        known.is_known();
        let strangers: Vec<_> = (2..6).map(|last| all.admit(address(last), false).expect("room")).collect();
        let one_more = all.admit(address(9), false).expect("room");
        assert!(is_closed(&strangers[0]) && !is_closed(&strangers[1]) && !is_closed(&known));
        // The owner's connections count for the whole, and are never strangers.
        let owners: Vec<_> = (0..2).map(|_| all.admit(None, true).expect("room")).collect();
        all.room(|| true).await;
        assert!(is_closed(&strangers[1]) && !is_closed(&known));
        drop((strangers, one_more, owners, known));
        assert!(all.table().all.is_empty() && all.table().peers.is_empty());
        assert_eq!(all.table().strangers, 0);
    }

    #[tokio::test]
    async fn whoever_waits_for_room_gets_it() {
        let all = Connections::new(Bounds { all: 1, ..BOUNDS });
        let only = Arc::new(all.admit(None, true).expect("room"));
        let busy = only.begin();
        let waits = tokio::spawn({
            let all = all.clone();
            async move { all.room(|| true).await }
        });
        tokio::task::yield_now().await;
        assert!(!waits.is_finished());
        drop(busy);
        waits.await.expect("room");
        assert!(is_closed(&only), "an idle one makes room");
    }

    #[tokio::test]
    async fn idle_ones_give_their_descriptors_back_and_busy_ones_do_not() {
        let all = Connections::new(BOUNDS);
        let busy = Arc::new(all.admit(None, true).expect("room"));
        let works = busy.begin();
        let idle: Vec<_> = (0..2).map(|_| all.admit(None, true).expect("room")).collect();
        let stranger = all.admit(address(1), false).expect("room");
        let asked = std::cell::Cell::new(0);
        all.room(|| asked.replace(asked.get() + 1) == 2).await;
        assert!(is_closed(&stranger) && is_closed(&idle[0]) && !is_closed(&idle[1]) && !is_closed(&busy));
        drop(works);
    }

    #[test]
    fn an_ipv6_host_is_one_peer() {
        let of = |text: &str| network(text.parse().expect("an address"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
    }
}
