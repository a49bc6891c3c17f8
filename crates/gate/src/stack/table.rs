//! The connections of one link. Each has a set of sockets of its own with one socket in it: so the cost of one
//! connection does not depend on the number of connections.

use super::device::{OnePacket, capabilities};
use super::stream::Stream;
use crate::flows::MOST_FLOWS;
use crate::link::Link;
use crate::wire::packet::Key;
use smoltcp::iface::{Config, Interface, PollResult, SocketHandle, SocketSet};
use smoltcp::socket::tcp;
use smoltcp::time::Instant as StackInstant;
use smoltcp::wire::{HardwareAddress, IpListenEndpoint};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

pub struct Table {
    link: Arc<Link>,
    state: Mutex<State>,
    /// An earlier moment has come up than the one that is waited for.
    earlier: Notify,
    start: Instant,
}

struct State {
    interface: Interface,
    connections: HashMap<Key, Connection>,
    /// The other side of these has not answered yet.
    reserved: HashSet<Key>,
    /// For packets that belong to no connection.
    none: SocketSet<'static>,
    next: u64,
    /// When the first of them wants to be looked at again.
    wake: Option<StackInstant>,
}

pub struct Connection {
    id: u64,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    /// Set when no program reads or writes it any more; it only has to end.
    left: Option<Instant>,
}

/// The result of delivering a packet.
pub enum Delivery {
    Done,
    /// It opens a connection that is not there yet.
    Opens,
}

/// The kernel inside answers within microseconds, however busy its programs are.
const PEER_GONE: smoltcp::time::Duration = smoltcp::time::Duration::from_secs(30);
/// To say goodbye.
const LONGEST_END: Duration = Duration::from_secs(30);

impl Table {
    pub fn new(link: Arc<Link>) -> Table {
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = random();
        let start = Instant::now();
        let mut device = Nothing;
        let mut interface = Interface::new(config, &mut device, StackInstant::ZERO);
        // Every address is ours: the host that is meant is decided above.
        interface.set_any_ip(true);
        let state = State {
            interface,
            connections: HashMap::new(),
            reserved: HashSet::new(),
            none: SocketSet::new(Vec::new()),
            next: 0,
            wake: None,
        };
        Table { link, state: Mutex::new(state), earlier: Notify::new(), start }
    }

    pub fn link(&self) -> &Arc<Link> {
        &self.link
    }

    pub fn deliver(&self, key: &Key, opens: bool, bytes: &[u8]) -> Delivery {
        let now = self.now();
        let mut state = self.locked();
        let state = &mut *state;
        let mut device = OnePacket { incoming: Some(bytes), link: &self.link };
        let Some(connection) = state.connections.get_mut(key) else {
            if opens {
                return Delivery::Opens;
            }
            // The packet belongs to no connection: the stack answers so.
            state.interface.poll_ingress_single(now, &mut device, &mut state.none);
            return Delivery::Done;
        };
        if opens && is_over(connection.socket()) {
            state.connections.remove(key);
            return Delivery::Opens;
        }
        state.interface.poll_ingress_single(now, &mut device, &mut connection.sockets);
        self.push(state, key, now);
        Delivery::Done
    }

    /// `false`: the same packet came before, and is being looked into; or there are too many.
    pub fn reserve(&self, key: Key) -> bool {
        let mut state = self.locked();
        state.reserved.len() < MOST_FLOWS && state.reserved.insert(key)
    }

    pub fn release(&self, key: &Key) {
        self.locked().reserved.remove(key);
    }

    /// The connection whose first packet this is. `None`: there is no room, or it was no first packet.
    pub fn accept(table: &Arc<Table>, key: Key, first: &[u8]) -> Option<Stream> {
        let now = table.now();
        let mut state = table.locked();
        let state = &mut *state;
        state.reserved.remove(&key);
        // Connections that only have to end count too.
        if state.connections.len() >= 2 * MOST_FLOWS || state.connections.contains_key(&key) {
            return None;
        }
        let (receive, send) = sizes(state.connections.len());
        let mut socket =
            tcp::Socket::new(tcp::SocketBuffer::new(vec![0; receive]), tcp::SocketBuffer::new(vec![0; send]));
        socket.set_nagle_enabled(false);
        socket.set_ack_delay(None);
        socket.set_timeout(Some(PEER_GONE));
        let place = IpListenEndpoint { addr: Some(key.to.ip().into()), port: key.to.port() };
        socket.listen(place).ok()?;
        let mut sockets = SocketSet::new(Vec::with_capacity(1));
        let handle = sockets.add(socket);
        let mut device = OnePacket { incoming: Some(first), link: &table.link };
        state.interface.poll_ingress_single(now, &mut device, &mut sockets);
        let id = state.next;
        state.next += 1;
        let mut connection = Connection { id, sockets, handle, left: None };
        if connection.socket().state() != tcp::State::SynReceived {
            return None;
        }
        state.connections.insert(key, connection);
        table.push(state, &key, now);
        Some(Stream::new(table.clone(), key, id))
    }

    /// Runs `work` on a connection's socket, and sends the resulting packets. `None`: the connection is gone.
    pub fn with<R>(
        &self,
        key: &Key,
        id: u64,
        work: impl FnOnce(&mut tcp::Socket<'static>) -> R,
    ) -> Option<R> {
        let now = self.now();
        let mut state = self.locked();
        let connection = state.connections.get_mut(key).filter(|connection| connection.id == id)?;
        let result = work(connection.socket());
        self.push(&mut state, key, now);
        Some(result)
    }

    /// The connection has no owner any more. Its bytes are still delivered, if their end was told too.
    pub fn leave(&self, key: &Key, id: u64, ended: bool) {
        let now = self.now();
        let mut state = self.locked();
        let Some(connection) = state.connections.get_mut(key).filter(|connection| connection.id == id) else {
            return;
        };
        connection.left = Some(Instant::now());
        if !ended || connection.socket().can_recv() {
            connection.socket().abort();
        }
        self.push(&mut state, key, now);
    }

    /// Sends the packets of a connection, forgets it if it is over, and notes when it wants to be looked at again.
    fn push(&self, state: &mut State, key: &Key, now: StackInstant) {
        let Some(connection) = state.connections.get_mut(key) else { return };
        let mut device = OnePacket { incoming: None, link: &self.link };
        while state.interface.poll_egress(now, &mut device, &mut connection.sockets) != PollResult::None {}
        if connection.left.is_some() && is_over(connection.socket()) {
            state.connections.remove(key);
            return;
        }
        let soon = connection.left.map(|_| now + smoltcp::time::Duration::from_secs(5));
        let next = state.interface.poll_at(now, &connection.sockets).into_iter().chain(soon).min();
        if let Some(next) = next
            && state.wake.is_none_or(|wake| next < wake)
        {
            state.wake = Some(next);
            self.earlier.notify_one();
        }
    }

    /// Sends unanswered packets again, and forgets ended connections; sleeps while there is nothing to do.
    pub async fn keep_time(&self) {
        loop {
            let wake = self.locked().wake;
            match wake {
                None => self.earlier.notified().await,
                Some(wake) => {
                    let moment =
                        self.start + Duration::from_micros(u64::try_from(wake.total_micros()).unwrap_or(0));
                    tokio::select! {
                        () = tokio::time::sleep_until(moment.into()) => self.look_at_all(),
                        () = self.earlier.notified() => {}
                    }
                }
            }
        }
    }

    fn look_at_all(&self) {
        let now = self.now();
        let mut state = self.locked();
        state.wake = None;
        let keys: Vec<Key> = state.connections.keys().copied().collect();
        for key in keys {
            if let Some(connection) = state.connections.get_mut(&key)
                && connection.left.is_some_and(|left| left.elapsed() > LONGEST_END)
            {
                connection.socket().abort();
            }
            self.push(&mut state, &key, now);
        }
    }

    fn now(&self) -> StackInstant {
        StackInstant::from_micros(i64::try_from(self.start.elapsed().as_micros()).unwrap_or(i64::MAX))
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    fn socket(&mut self) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(self.handle)
    }
}

/// A hostile sandbox that opens all it may must not take all memory.
fn sizes(open: usize) -> (usize, usize) {
    match open {
        0..32 => (128 << 10, 256 << 10),
        32..128 => (64 << 10, 64 << 10),
        _ => (16 << 10, 16 << 10),
    }
}

fn is_over(socket: &tcp::Socket<'_>) -> bool {
    matches!(socket.state(), tcp::State::Closed | tcp::State::TimeWait)
}

/// A seed for the first sequence numbers of connections, which no program inside shall guess.
fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(Instant::now())
}

/// An interface is made with a device that says how large packets are; it is given another one each time.
struct Nothing;

impl smoltcp::phy::Device for Nothing {
    type RxToken<'a> = super::device::Incoming<'a>;
    type TxToken<'a> = super::device::Outgoing<'a>;

    fn receive(&mut self, _: StackInstant) -> Option<(Self::RxToken<'_>, Self::TxToken<'_>)> {
        None
    }

    fn transmit(&mut self, _: StackInstant) -> Option<Self::TxToken<'_>> {
        None
    }

    fn capabilities(&self) -> smoltcp::phy::DeviceCapabilities {
        capabilities()
    }
}
