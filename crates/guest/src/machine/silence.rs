//! While the memory of a machine is kept, nothing may be under way in its port: who goes on from that memory finds another keeper
//! at the other end. The host asks for silence over a socket of its own, and has it until it says so or goes.

use crate::system;
use paddock_protocol::{BE_SILENT, GO_ON, SHELTER};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// What the host wants of the keeper.
#[derive(Debug, PartialEq, Eq)]
pub enum Wish {
    Silence,
    GoOn,
    /// That it stays when its machine ends.
    Shelter,
}

pub struct Commands {
    listener: OwnedFd,
    host: Option<OwnedFd>,
    silenced: bool,
}

impl Commands {
    pub fn new(listener: OwnedFd) -> Commands {
        Commands { listener, host: None, silenced: false }
    }

    /// What to wait for: the host that is there, or the next.
    pub fn descriptor(&self) -> &OwnedFd {
        self.host.as_ref().unwrap_or(&self.listener)
    }

    /// Precondition: the descriptor is readable.
    pub fn hear(&mut self) -> Option<Wish> {
        let Some(host) = &self.host else {
            self.host = system::accept(&self.listener).ok();
            return None;
        };
        let mut byte = [0];
        let said = match rustix::io::read(host, &mut byte) {
            Err(Errno::AGAIN | Errno::INTR) => return None,
            Ok(1) => byte[0],
            // One that is gone wants what it had to be undone.
            _ => {
                self.host = None;
                GO_ON
            }
        };
        match said {
            BE_SILENT => {
                self.silenced = true;
                Some(Wish::Silence)
            }
            SHELTER => Some(Wish::Shelter),
            _ => std::mem::replace(&mut self.silenced, false).then_some(Wish::GoOn),
        }
    }

    /// It is as the host wished.
    pub fn answer(&self, wished: u8) {
        if let Some(host) = &self.host {
            let _ = rustix::io::write(host, &[wished]);
        }
    }
}
