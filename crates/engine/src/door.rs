//! A sandbox's side of its gate: the link that its guest hands over, and the gate that serves it.

use paddock_backends::Handover;
use paddock_gate::Gate;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub(crate) struct Door(Mutex<State>);

#[derive(Default)]
pub(crate) struct State {
    pub handover: Option<Handover>,
    pub gate: Option<Gate>,
    /// The last close of a packet socket waits for every processor, ten milliseconds and more. So this descriptor is
    /// closed in the background.
    pub held: Option<OwnedFd>,
}

impl Door {
    pub fn new(handover: Option<Handover>) -> Door {
        Door(Mutex::new(State { handover, gate: None, held: None }))
    }

    pub fn locked(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
