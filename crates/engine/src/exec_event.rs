//! The events of an exec, from its start to its end, as its guest tells them.

use paddock_protocol::{ExitKind, StreamKind, WorkUsage};

#[derive(Debug)]
pub enum ExecEvent {
    Started,
    StartFailed {
        step: String,
        errno: i32,
    },
    Output {
        stream: StreamKind,
        bytes: Vec<u8>,
    },
    Exited {
        status: ExitKind,
        usage: WorkUsage,
    },
    /// Its streams are closed: no process holds them any more.
    Closed,
    MemoryExceeded {
        bytes: u64,
    },
    DeadlinePassed,
    /// The alarm of this call has rung.
    Interrupted {
        call: u32,
    },
    Lost {
        detail: String,
    },
}
