//! The fence of a sandbox that was just begun, however it began.

use paddock_backends::{AwaitedFork, Fence, Handover, Raised};
use paddock_model::Guarantees;
use std::fs::File;
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// The fence of a sandbox, before the first message to its guest.
pub struct Begun {
    pub fence: Box<dyn Fence>,
    pub stream: UnixStream,
    pub network: Option<Handover>,
    pub guarantees: Guarantees,
    pub started: Instant,
    /// The root of an image, held open so that it cannot be removed meanwhile.
    pub root: Option<File>,
    /// In a sandbox that begins from a zygote: the interpreter that is to be forked into it.
    pub awaited: Option<Box<dyn AwaitedFork>>,
}

impl Begun {
    /// Of a fence that a backend has put up for this caller alone.
    pub fn over(raised: Raised, guarantees: Guarantees) -> Begun {
        Begun::of(raised, guarantees, Instant::now(), None)
    }

    pub(crate) fn of(
        raised: Raised,
        mut guarantees: Guarantees,
        started: Instant,
        root: Option<File>,
    ) -> Begun {
        let Raised { fence, stream, network, notes } = raised;
        guarantees.weaknesses.extend(notes);
        Begun { fence, stream, network, guarantees, started, root, awaited: None }
    }
}
