//! While the memory of a VM is kept, no message may be under way in its port: a VM that goes on from that memory finds
//! another VM runner at the other end. The host asks for silence over a socket of its own. Silence lasts until the host
//! ends it or goes.

use crate::system;
use paddock_protocol::{BE_SILENT, GO_ON, SHELTER};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// The host's commands to the VM runner.
#[derive(Debug, PartialEq, Eq)]
pub enum Wish {
    Silence,
    GoOn,
    /// The VM runner stays when its VM ends.
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

    /// The descriptor to wait for: the connected host, or the next one.
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
            // When the host is gone, its silence ends.
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

    /// Confirms that the command is done.
    pub fn answer(&self, wished: u8) {
        if let Some(host) = &self.host {
            let _ = rustix::io::write(host, &[wished]);
        }
    }
}
