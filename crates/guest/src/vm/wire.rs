//! Frames through a VM's port: one byte of kind, three zero bytes, four of length (little endian), then the payload.
//! The port is one stream for all of the VM's life; connections of hosts are numbered in it, and only the last one
//! counts.

use crate::failure::{Failure, Outcome};
use rustix::io::Errno;
use std::os::fd::AsFd;

const HEADER: usize = 8;
/// The number of its connection is the first of a piece.
const NUMBER: usize = 4;
/// The most bytes of a connection that one frame carries.
pub const PIECE: usize = 32 * 1024;
/// Orders have a plan in them, and come from outside only.
const LONGEST_ORDERS: usize = 1 << 20;
/// The largest frame of a link, with the kernel's header.
const LONGEST_LINK: usize = 66 * 1024;
/// Above this nothing more is read from the process behind this side.
const FULL: usize = 256 * 1024;
/// Above this the other side is not read either: it asks, and does not take the answers.
const OVERFULL: usize = 4 * FULL;
/// The most bytes of an incomplete frame that are kept.
#[cfg(test)]
pub const HELD: usize = HEADER + LONGEST_ORDERS;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// From inside: it waits for orders.
    Waiting = 1,
    Orders = 2,
    /// From outside: another host is there.
    Open = 3,
    Data = 4,
    Close = 5,
    /// From outside: say no more. Answered by `Silent`.
    BeSilent = 6,
    Silent = 7,
    /// From outside: go on, as a VM that shares its past with others.
    Renew = 8,
    /// From inside: the guest could not be started.
    Failed = 9,
    /// From inside: the guest has ended.
    Ended = 10,
    /// From outside: go on as before.
    GoOn = 11,
    /// A frame of the link to the gate.
    Link = 12,
    /// A connection to the gate's proxy: it begins, its bytes, their end, and how many of them were taken.
    ProxyOpen = 13,
    ProxyData = 14,
    ProxyEnd = 15,
    ProxyCredit = 16,
    /// From inside, without content: what time is it? From outside: in nanoseconds since 1970.
    Clock = 17,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Kind> {
        use Kind::*;
        let all = [Waiting, Orders, Open, Data, Close, BeSilent, Silent, Renew, Failed, Ended, GoOn, Clock];
        let network = [Link, ProxyOpen, ProxyData, ProxyEnd, ProxyCredit];
        all.into_iter().chain(network).find(|kind| *kind as u8 == byte)
    }
}

#[derive(Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: Kind,
    pub payload: Vec<u8>,
}

impl Frame {
    /// The number of a connection, and its bytes.
    pub fn piece(&self) -> Option<(u32, &[u8])> {
        let (number, bytes) = self.payload.split_first_chunk::<NUMBER>()?;
        Some((u32::from_le_bytes(*number), bytes))
    }
}

/// One side's end of the port.
#[derive(Default)]
pub struct Wire {
    inbound: Vec<u8>,
    taken: usize,
    outbound: Vec<u8>,
    sent: usize,
    /// True if orders may come.
    inside: bool,
}

impl Wire {
    /// The end of the port inside the VM.
    pub fn of_the_vm() -> Wire {
        Wire { inside: true, ..Wire::default() }
    }

    pub fn put(&mut self, kind: Kind, payload: &[u8]) {
        self.head(kind, payload.len());
        self.outbound.extend_from_slice(payload);
    }

    /// Precondition: no more than [`PIECE`] bytes.
    pub fn put_piece(&mut self, kind: Kind, connection: u32, bytes: &[u8]) {
        self.head(kind, NUMBER + bytes.len());
        self.outbound.extend_from_slice(&connection.to_le_bytes());
        self.outbound.extend_from_slice(bytes);
    }

    fn head(&mut self, kind: Kind, length: usize) {
        self.outbound.extend_from_slice(&[kind as u8, 0, 0, 0]);
        self.outbound.extend_from_slice(&(length as u32).to_le_bytes());
    }

    pub fn is_full(&self) -> bool {
        self.waits() >= FULL
    }

    /// Bytes that wait for the port.
    pub fn waits(&self) -> usize {
        self.outbound.len() - self.sent
    }

    pub fn is_overfull(&self) -> bool {
        self.waits() >= OVERFULL
    }

    #[cfg(test)]
    pub fn held(&self) -> usize {
        self.inbound.len() - self.taken
    }

    pub fn has_to_send(&self) -> bool {
        self.sent < self.outbound.len()
    }

    /// Writes as much as the port takes now.
    pub fn flush(&mut self, port: &impl AsFd) -> rustix::io::Result<()> {
        while self.has_to_send() {
            match rustix::io::write(port, &self.outbound[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    // If the port never takes all of it, the buffer must not grow for ever.
                    if self.sent >= FULL {
                        self.outbound.drain(..self.sent);
                        self.sent = 0;
                    }
                    return Ok(());
                }
                Err(errno) => return Err(errno),
            }
        }
        self.outbound.clear();
        self.outbound.shrink_to(PIECE);
        self.sent = 0;
        Ok(())
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.inbound.drain(..self.taken);
        self.taken = 0;
        self.inbound.extend_from_slice(bytes);
    }

    /// `Ok(None)` when more bytes are needed. A length is looked at before anything is kept for it.
    pub fn next(&mut self) -> Outcome<Option<Frame>> {
        let refuse = |step: &str| Err(Failure { step: step.into(), errno: Errno::PROTO });
        let rest = &self.inbound[self.taken..];
        let Some((header, body)) = rest.split_at_checked(HEADER) else { return Ok(None) };
        let Some(kind) = Kind::from_byte(header[0]) else {
            return refuse("a frame of no known kind came through the VM's port");
        };
        let length = u32::from_le_bytes([header[4], header[5], header[6], header[7]]) as usize;
        let longest = match kind {
            Kind::Orders if self.inside => LONGEST_ORDERS,
            Kind::Link => LONGEST_LINK,
            _ => NUMBER + PIECE,
        };
        if length > longest {
            return refuse("a frame that is too long came through the VM's port");
        }
        let Some(payload) = body.get(..length) else { return Ok(None) };
        let payload = payload.to_vec();
        self.taken += HEADER + length;
        Ok(Some(Frame { kind, payload }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_any_cut() {
        let mut sender = Wire::default();
        sender.put(Kind::Waiting, b"");
        sender.put_piece(Kind::Data, 7, b"hello");
        for piece in 1..sender.outbound.len() {
            let (mut receiver, mut found) = (Wire::default(), Vec::new());
            for part in sender.outbound.chunks(piece) {
                receiver.push(part);
                while let Some(frame) = receiver.next().unwrap() {
                    found.push(frame);
                }
            }
            assert_eq!(found.len(), 2);
            assert_eq!((found[0].kind, found[1].piece()), (Kind::Waiting, Some((7, &b"hello"[..]))));
        }
    }

    #[test]
    fn hostile_kinds_and_lengths_are_refused_before_memory_is_taken() {
        let mut wire = Wire::default();
        wire.push(&[4, 0, 0, 0, 255, 255, 255, 255]);
        assert!(wire.next().unwrap_err().step.contains("too long"));
        let mut wire = Wire::default();
        wire.push(&[99, 0, 0, 0, 0, 0, 0, 0]);
        assert!(wire.next().unwrap_err().step.contains("no known kind"));
        // Orders may be long, but only the outside sends them.
        let mut wire = Wire::default();
        wire.push(&[2, 0, 0, 0, 0, 0, 8, 0]);
        wire.next().unwrap_err();
    }
}
