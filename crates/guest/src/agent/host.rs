//! The connection to the host: one stream, and for a guest that outlives its host the place where the next comes from.

use crate::door::Door;
use crate::failure::{During, Failure, Outcome};
use crate::outbound::Outbound;
use crate::system;
use crate::system::accept;
use paddock_protocol::{Decoder, Frame, Plan, ToGuest, decode_to_guest};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// How much is read at once, from the host and from the work.
pub const CHUNK: usize = 64 * 1024;

/// The socket on which the next host comes.
pub enum Entrance {
    /// A listening socket that the host made.
    Listener(OwnedFd),
    /// A socket of the sandbox's own, to which a process brings a connection.
    Door(Door),
}

impl AsFd for Entrance {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Entrance::Listener(listener) => listener.as_fd(),
            Entrance::Door(door) => door.as_fd(),
        }
    }
}

pub struct Host {
    /// `None` while no host is connected.
    pub control: Option<OwnedFd>,
    pub listener: Option<Entrance>,
    pub outbound: Outbound,
    /// True once this connection has introduced itself: the first one by its plan, every other by `Resume`.
    pub known: bool,
    decoder: Decoder,
    /// Descriptors that came and that no message has taken yet, for a host that sends some after the plan.
    passed: Option<Vec<OwnedFd>>,
}

impl Host {
    pub fn new(control: OwnedFd) -> Host {
        Host {
            control: Some(control),
            listener: None,
            outbound: Outbound::default(),
            known: true,
            decoder: Decoder::of_host(),
            passed: None,
        }
    }

    /// From now on messages may bring descriptors.
    ///
    /// Precondition: every connection is a Unix socket.
    pub fn take_descriptors(&mut self) {
        self.passed = Some(Vec::new());
    }

    /// The descriptors that came with a message, if they are as many as it says.
    pub fn passed(&mut self, count: usize) -> Outcome<Vec<OwnedFd>> {
        match &mut self.passed {
            Some(passed) if passed.len() == count => Ok(std::mem::take(passed)),
            _ => Err(Failure { step: "took descriptors that did not come".into(), errno: Errno::PROTO }),
        }
    }

    pub fn is_lasting(&self) -> bool {
        self.listener.is_some()
    }

    /// `Ok(false)` when the host has gone.
    pub fn receive(&mut self, buffer: &mut [u8]) -> Outcome<bool> {
        let Some(control) = &self.control else { return Ok(true) };
        let received = match &mut self.passed {
            Some(passed) => system::receive_with_descriptors(control, &mut *buffer, passed),
            None => rustix::io::read(control, &mut *buffer),
        };
        match received {
            Ok(0) => Ok(false),
            Ok(count) => {
                self.decoder.push(&buffer[..count]);
                Ok(true)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(true),
            Err(Errno::CONNRESET) => Ok(false),
            Err(errno) => Err(Failure { step: "read from the host".into(), errno }),
        }
    }

    /// True if bytes wait to be received.
    pub fn has_more(&self) -> bool {
        self.control
            .as_ref()
            .is_some_and(|control| rustix::io::ioctl_fionread(control).is_ok_and(|bytes| bytes > 0))
    }

    /// `false` when the host has gone.
    pub fn flush(&mut self) -> bool {
        self.control.as_ref().is_none_or(|control| self.outbound.flush(control).is_ok())
    }

    pub fn next_frame(&mut self) -> Outcome<Option<Frame>> {
        self.decoder.next_frame().map_err(|e| Failure { step: e.to_string(), errno: Errno::PROTO })
    }

    /// Forgets the connection, with all half read and half written messages.
    pub fn disconnect(&mut self) {
        self.control = None;
        self.decoder = Decoder::of_host();
        self.passed.iter_mut().for_each(Vec::clear);
        self.outbound = self.outbound.renew();
        self.known = false;
    }

    /// The next connection, if one waits. A failure is that connection's, not the guest's.
    pub fn accept(&mut self) -> bool {
        let control = match &self.listener {
            Some(Entrance::Listener(listener)) => accept(listener),
            Some(Entrance::Door(door)) => door.next(),
            None => return false,
        };
        let Ok(control) = control else { return false };
        self.disconnect();
        self.control = Some(control);
        true
    }

    /// The plan comes first, and with it the descriptors that it speaks of. Nothing after it is read: it may be for
    /// another guest, behind a kernel that this one runs.
    pub fn wait_for_plan(&mut self) -> Outcome<(Plan, Vec<OwnedFd>)> {
        let mut buffer = vec![0; CHUNK];
        let mut passed = Vec::new();
        loop {
            if let Some(Frame::Message(body)) = self.next_frame()? {
                return match decode_to_guest(&body) {
                    Ok(ToGuest::Enter(plan)) => Ok((*plan, passed)),
                    _ => Err(Failure { step: "expected a plan".into(), errno: Errno::PROTO }),
                };
            }
            let gone =
                || Failure { step: "the host went away before it sent a plan".into(), errno: Errno::PIPE };
            let control = self.control.as_ref().ok_or_else(gone)?;
            let missing = self.decoder.missing();
            let missing =
                missing.map_err(|e| Failure { step: e.to_string(), errno: Errno::PROTO })?.min(CHUNK);
            let count = system::receive_with_descriptors(control, &mut buffer[..missing], &mut passed)
                .during(|| "read the plan".into())?;
            if count == 0 {
                return Err(gone());
            }
            self.decoder.push(&buffer[..count]);
        }
    }
}
