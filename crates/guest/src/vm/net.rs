//! The network link of a VM with network rules. Inside are the link that the guest made and the socket of its proxy;
//! outside is another link, at whose far end the gate is, and the gate's own proxy. Frames of the link and connections
//! to the proxy travel through the port. Both sides are the same, except that connections begin inside.

use super::wire::{Frame, Kind, PIECE, Wire};
use crate::failure::{During, Outcome};
use crate::system;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, Shutdown, SocketFlags, SocketType, shutdown, socket_with};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

/// Bytes of one connection that may be under way before the receiver has taken them.
const WINDOW: usize = 128 * 1024;
const MOST_CONNECTIONS: usize = 256;
/// The largest frame, with the kernel's header.
const LARGEST_FRAME: usize = 65_535 + 40 + 14 + 10;

pub struct Network {
    link: OwnedFd,
    proxy: Proxy,
    connections: BTreeMap<u32, Connection>,
    next: u32,
    buffer: Vec<u8>,
}

/// Where connections to the proxy come from, and where they go.
pub enum Proxy {
    /// Inside: the socket that the work connects to.
    Listener(OwnedFd),
    /// Outside: the socket that the gate serves.
    Gate(OwnedFd),
}

struct Connection {
    socket: OwnedFd,
    /// Bytes for the socket.
    waiting: Vec<u8>,
    /// How much the other side still takes.
    room: usize,
    /// True if this side, or the other, has sent everything.
    ended_here: bool,
    ended_there: bool,
}

impl Network {
    pub fn new(link: OwnedFd, proxy: Proxy) -> Outcome<Network> {
        rustix::io::ioctl_fionbio(&link, true).during(|| "unblock the link".into())?;
        if let Proxy::Listener(listener) = &proxy {
            rustix::io::ioctl_fionbio(listener, true).during(|| "unblock the proxy's socket".into())?;
        }
        Ok(Network { link, proxy, connections: BTreeMap::new(), next: 0, buffer: vec![0; LARGEST_FRAME] })
    }

    /// The other ends of these connections are gone.
    pub fn forget_connections(&mut self) {
        self.connections.clear();
    }

    /// The descriptors to wait for, in the order in which [`Network::serve`] gets their results.
    pub fn descriptors(&self, full: bool) -> Vec<(&OwnedFd, PollFlags)> {
        let wanted = |wanted: bool, flag| if wanted { flag } else { PollFlags::empty() };
        let mut all = vec![(&self.link, wanted(!full, PollFlags::IN))];
        if let Proxy::Listener(listener) = &self.proxy {
            all.push((listener, wanted(!full && self.connections.len() < MOST_CONNECTIONS, PollFlags::IN)));
        }
        all.extend(self.connections.values().map(|one| {
            let reads = !full && one.room > 0 && !one.ended_here;
            let writes = wanted(!one.waiting.is_empty(), PollFlags::OUT);
            (&one.socket, wanted(reads, PollFlags::IN) | writes)
        }));
        all
    }

    /// `woken`: the poll result of each descriptor.
    pub fn serve(&mut self, woken: &[PollFlags], wire: &mut Wire) {
        let mut woken = woken.iter();
        if woken.next().is_some_and(|flags| flags.contains(PollFlags::IN)) {
            self.pass_frames(wire);
        }
        let accepts = matches!(self.proxy, Proxy::Listener(_))
            && woken.next().is_some_and(|flags| flags.contains(PollFlags::IN));
        let buffer = &mut self.buffer[..PIECE];
        for ((number, one), flags) in self.connections.iter_mut().zip(woken) {
            if flags.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) && !wire.is_full() {
                one.read(*number, buffer, wire);
            }
            one.write(*number, wire);
        }
        self.connections.retain(|_, one| !one.is_over());
        if accepts {
            self.admit(wire);
        }
    }

    fn pass_frames(&mut self, wire: &mut Wire) {
        while !wire.is_full() {
            match rustix::io::read(&self.link, &mut self.buffer) {
                Ok(count) if count > 0 => wire.put(Kind::Link, &self.buffer[..count]),
                _ => return,
            }
        }
    }

    fn admit(&mut self, wire: &mut Wire) {
        let Proxy::Listener(listener) = &self.proxy else { return };
        let Ok(socket) = system::accept(listener) else { return };
        self.next = self.next.wrapping_add(1);
        self.connections.insert(self.next, Connection::new(socket));
        wire.put_piece(Kind::ProxyOpen, self.next, b"");
    }

    /// Handles a message of the other side. A message that the other side may not send has no effect.
    pub fn handle(&mut self, frame: &Frame, wire: &mut Wire) {
        if frame.kind == Kind::Link {
            // A network may lose a frame: one that does not fit now is dropped.
            let _ = rustix::net::send(&self.link, &frame.payload, SendFlags::DONTWAIT);
            return;
        }
        let Some((number, bytes)) = frame.piece() else { return };
        match (frame.kind, self.connections.get_mut(&number)) {
            (Kind::ProxyOpen, None) => self.open(number, wire),
            (Kind::ProxyData, Some(one)) if one.waiting.len() + bytes.len() <= WINDOW => {
                one.waiting.extend_from_slice(bytes);
                one.write(number, wire);
            }
            // More than it was granted.
            (Kind::ProxyData, Some(_)) => drop(self.connections.remove(&number)),
            (Kind::ProxyEnd, Some(one)) => {
                one.ended_there = true;
                one.write(number, wire);
            }
            (Kind::ProxyCredit, Some(one)) => {
                let granted = bytes.first_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes));
                one.room = one.room.saturating_add(granted as usize).min(WINDOW);
            }
            _ => {}
        }
        self.connections.retain(|_, one| !one.is_over());
    }

    fn open(&mut self, number: u32, wire: &mut Wire) {
        let Proxy::Gate(gate) = &self.proxy else { return };
        let socket = (self.connections.len() < MOST_CONNECTIONS).then(|| connect(gate));
        match socket {
            Some(Ok(socket)) => drop(self.connections.insert(number, Connection::new(socket))),
            _ => wire.put_piece(Kind::ProxyEnd, number, b""),
        }
    }
}

/// To where the gate listens, in this network namespace.
fn connect(gate: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let address = rustix::net::getsockname(gate)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(errno) => Err(errno),
    }
}

impl Connection {
    fn new(socket: OwnedFd) -> Connection {
        Connection { socket, waiting: Vec::new(), room: WINDOW, ended_here: false, ended_there: false }
    }

    fn is_over(&self) -> bool {
        self.ended_here && self.ended_there && self.waiting.is_empty()
    }

    fn read(&mut self, number: u32, buffer: &mut [u8], wire: &mut Wire) {
        if self.ended_here || self.room == 0 {
            return;
        }
        let most = self.room.min(buffer.len());
        match rustix::io::read(&self.socket, &mut buffer[..most]) {
            Ok(count) if count > 0 => {
                self.room -= count;
                wire.put_piece(Kind::ProxyData, number, &buffer[..count]);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            _ => {
                self.ended_here = true;
                wire.put_piece(Kind::ProxyEnd, number, b"");
            }
        }
    }

    fn write(&mut self, number: u32, wire: &mut Wire) {
        while !self.waiting.is_empty() {
            match rustix::io::write(&self.socket, &self.waiting) {
                Ok(count) => {
                    self.waiting.drain(..count);
                    wire.put_piece(Kind::ProxyCredit, number, &(count as u32).to_le_bytes());
                }
                Err(Errno::INTR) => {}
                // A socket that is not connected yet is written to later.
                Err(Errno::AGAIN | Errno::NOTCONN) => return,
                Err(_) => {
                    self.waiting.clear();
                    self.ended_there = true;
                }
            }
        }
        if self.ended_there {
            let _ = shutdown(&self.socket, Shutdown::Write);
        }
    }
}
