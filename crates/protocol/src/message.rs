//! The messages. Exec numbers are chosen by the host; the guest never invents one.

use crate::frame::FrameError;
use crate::plan::Plan;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum ToGuest {
    /// Build the inside of the fence. The first message, once.
    Enter(Box<Plan>),
    Start(Box<Start>),
    CloseStdin {
        exec: u32,
    },
    Resize {
        exec: u32,
        size: WindowSize,
    },
    /// To the whole process group that the exec leads.
    Signal {
        exec: u32,
        signal: i32,
    },
    /// The receiver has room for so many more bytes.
    Credit {
        channel: u32,
        bytes: u32,
    },
    /// Create or append to a file as the work's user. Answered by `Done`.
    WriteFile {
        request: u32,
        path: String,
        mode: u32,
        append: bool,
        content: ByteBuf,
    },
    /// Kill all work and say what it used. Answered by `Stopped`.
    Stop,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum FromGuest {
    Ready {
        version: u32,
        landlock_abi: u32,
        time_namespace: bool,
    },
    /// The inside could not be built; the guest ends.
    EnterFailed {
        step: String,
        errno: i32,
    },
    Started {
        exec: u32,
        pid: u32,
    },
    /// `errno` of the call that failed: ENOENT for no such command, EACCES for not executable.
    StartFailed {
        exec: u32,
        step: String,
        errno: i32,
    },
    /// The process is gone and what it had written has been sent. Others may still hold its streams.
    Exited {
        exec: u32,
        status: ExitKind,
        usage: WorkUsage,
    },
    /// Every stream of the exec is at its end.
    Closed {
        exec: u32,
    },
    Credit {
        channel: u32,
        bytes: u32,
    },
    Done {
        request: u32,
        errno: i32,
    },
    /// The guest itself ended all work, because a limit that it holds was passed.
    MemoryExceeded {
        bytes: u64,
    },
    DeadlinePassed {
        exec: u32,
    },
    Stopped {
        usage: WorkUsage,
    },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Start {
    pub exec: u32,
    pub argv: Vec<ByteBuf>,
    /// The whole environment, `NAME=value`.
    pub env: Vec<ByteBuf>,
    pub cwd: Option<String>,
    pub user: Who,
    pub tty: Option<WindowSize>,
    pub stdin: bool,
    /// The guest's own backstop: it ends the exec so many milliseconds after its start.
    pub deadline_ms: Option<u64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Who {
    Ids {
        uid: u32,
        gid: u32,
    },
    /// Looked up in /etc/passwd, inside.
    Name(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowSize {
    pub rows: u16,
    pub columns: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExitKind {
    Exited(i32),
    Signaled(i32),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkUsage {
    /// Bytes that the private disk holds.
    pub disk_bytes: u64,
    /// Bytes written to files of the host, by processes that have ended.
    pub host_bytes: u64,
    /// Processor time of everything that has ended, in microseconds.
    pub cpu_us: u64,
    /// Largest resident size of any one process, in bytes.
    pub largest_process: u64,
}

/// A stream of an exec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamKind {
    Stdin,
    Stdout,
    Stderr,
}

/// Exec number and stream, as the channel of a data frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Channel {
    pub exec: u32,
    pub stream: StreamKind,
}

impl Channel {
    pub fn number(self) -> u32 {
        let stream = match self.stream {
            StreamKind::Stdin => 1,
            StreamKind::Stdout => 2,
            StreamKind::Stderr => 3,
        };
        (self.exec << 2) | stream
    }

    /// `None` for a number that no exec has.
    pub fn from_number(number: u32) -> Option<Channel> {
        let stream = match number & 3 {
            1 => StreamKind::Stdin,
            2 => StreamKind::Stdout,
            3 => StreamKind::Stderr,
            _ => return None,
        };
        Some(Channel { exec: number >> 2, stream })
    }
}

pub fn decode_from_guest(body: &[u8]) -> Result<FromGuest, FrameError> {
    rmp_serde::from_slice(body).map_err(|e| FrameError::Decode(e.to_string()))
}

pub fn decode_to_guest(body: &[u8]) -> Result<ToGuest, FrameError> {
    rmp_serde::from_slice(body).map_err(|e| FrameError::Decode(e.to_string()))
}
