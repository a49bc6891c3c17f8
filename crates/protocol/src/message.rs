//! The messages. Exec numbers are chosen by the host; the guest never invents one.

use crate::frame::FrameError;
use crate::plan::Plan;
use crate::tool::Tool;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum ToGuest {
    /// Build the inside of the fence. The first message, once.
    Enter(Box<Plan>),
    /// The entrances of the work's cgroups: so many descriptors, which come with the first byte of this message. Only for a
    /// guest whose plan says that they follow. A host that takes over may send them again.
    Cgroups {
        descriptors: usize,
    },
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
    /// Kill all work and tell its use. Answered by `Stopped`.
    Stop,
    /// The first message of every connection but the first: a host that takes over. Answered by `Resumed`.
    Resume,
    /// The offsets that the host has safely: go on from there, and tell the state of the exec again. Until then nothing
    /// of it is sent over a new connection.
    Continue {
        exec: u32,
        stdout: u64,
        stderr: u64,
        #[serde(default)]
        control: u64,
    },
    /// The host knows how it ended and needs nothing more of it.
    Forget {
        exec: u32,
    },
    /// End everything of the exec: its process group and its session.
    Kill {
        exec: u32,
    },
    /// The guest ends by itself so many milliseconds from now, unless told anew; `None`: never.
    Deadline {
        ms: Option<u64>,
    },
    /// The limits of commands from now on.
    Limits {
        pids: u64,
        files: u64,
        /// Set if the guest watches the memory.
        #[serde(default)]
        memory: Option<u64>,
    },
    /// The work stands still, or goes on: clocks of the execs stop with it. `signals` where no cgroup does it.
    /// Answered by `Done`.
    Freeze {
        request: u32,
        on: bool,
        signals: bool,
    },
    /// Interrupt the exec so many milliseconds from now, and end it a while later, unless told anew; `None`: never.
    /// Only for an exec with a control stream.
    Alarm {
        exec: u32,
        /// Comes back in `Interrupted`, so that an alarm that rang too late can be told from one in time.
        call: u32,
        ms: Option<u64>,
        grace_ms: u64,
    },
    /// A process that came in from outside is an exec from now on, with the streams that came with the plan: if it is
    /// the guest's own child and confined as one. Answered by `Started` or `StartFailed`.
    TakeIn {
        exec: u32,
        pid: u32,
        /// Which of the awaited it is.
        #[serde(default)]
        place: usize,
        /// How many seccomp filters it has at least.
        filters: u32,
        /// The process is under the limits already.
        #[serde(default)]
        is_limited: bool,
    },
    /// Asks for the process of an exec. Answered by `Described`.
    Describe {
        request: u32,
        exec: u32,
    },
    /// Other sandboxes nest in this one from now on: ending all work is not to end them.
    Shelter,
    /// All work ends, but not the sandboxes that nest in this one. The guest stays for their sake alone: it starts
    /// nothing any more, and ends after the last of them when no host is there. Answered by `Done`.
    Hold {
        request: u32,
    },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum FromGuest {
    Ready {
        version: u32,
        landlock_abi: u32,
        time_namespace: bool,
        /// When the inside was built, by the clock that stamps files, in nanoseconds since 1970: later changes are the
        /// work's.
        #[serde(default)]
        ready_at: u64,
        /// True if files of the host's system are there with the host's own inodes, although the plan wanted others.
        #[serde(default)]
        shares_system: bool,
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
    /// The process is gone and its output has been sent. Other processes may still hold its streams.
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
    Resumed {
        version: u32,
        ready_at: u64,
        execs: Vec<ExecState>,
    },
    /// The process of an exec by its number inside, and the pipes that it writes to, by their inodes. All are 0 where it
    /// does not run.
    Described {
        request: u32,
        pid: u32,
        stdout: u64,
        stderr: u64,
    },
    /// An alarm has rung. Asked for by `Alarm` only.
    Interrupted {
        exec: u32,
        call: u32,
    },
}

/// An exec as a guest describes it to a host that takes over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecState {
    pub exec: u32,
    pub phase: ExecPhase,
    /// The first byte of each stream that is still held; everything before it was acknowledged.
    pub stdout: u64,
    pub stderr: u64,
    /// Bytes of input that came, and how many of them the exec has not read yet.
    pub stdin: u64,
    pub stdin_queued: u32,
    pub stdin_open: bool,
    pub deadline_passed: bool,
    /// As `stdout`, for the control stream.
    #[serde(default)]
    pub control: u64,
    /// The call whose alarm has rung last.
    #[serde(default)]
    pub interrupted: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExecPhase {
    Running,
    StartFailed { step: String, errno: i32 },
    Ended { status: ExitKind, usage: WorkUsage },
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
    /// The processes that it ends then.
    #[serde(default)]
    pub deadline_kills: Kills,
    /// A tool of the guest's own instead of a program: `argv`, `env` and `tty` mean nothing then.
    #[serde(default)]
    pub tool: Option<Tool>,
    /// The sandbox ends with it: the guest goes once it has told its end, without waiting to be killed.
    #[serde(default)]
    pub last: bool,
    /// A private stream beside the standard three: bytes for the exec's input come there, standard input is empty, and
    /// the program's answers there are the control stream. Its number is in [`CONTROL_VARIABLE`].
    #[serde(default)]
    pub control: bool,
    /// A zygote: it gets the plan's socket, its number in [`ZYGOTE_VARIABLE`], and keeps the one
    /// capability that joining other namespaces takes.
    #[serde(default)]
    pub zygote: bool,
}

impl Start {
    /// A program without a terminal, input or a time limit.
    pub fn program(exec: u32, argv: Vec<ByteBuf>, env: Vec<ByteBuf>, user: Who) -> Start {
        Start {
            exec,
            argv,
            env,
            cwd: None,
            user,
            tty: None,
            stdin: false,
            deadline_ms: None,
            deadline_kills: Kills::default(),
            tool: None,
            last: false,
            control: false,
            zygote: false,
        }
    }
}

/// The variable with the number of a zygote's socket to its host, for the zygote.
pub const ZYGOTE_VARIABLE: &str = "PADDOCK_ZYGOTE";
/// The variable with the number of the control stream's descriptor, for the program.
pub const CONTROL_VARIABLE: &str = "PADDOCK_CONTROL";

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kills {
    /// All work of the sandbox.
    #[default]
    Everything,
    /// The exec's process group and session.
    Exec,
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
    /// A program's messages to the host alone.
    Control,
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
            // Exec numbers begin at 1, so that this is never the channel of the messages.
            StreamKind::Control => 0,
        };
        (self.exec << 2) | stream
    }

    /// `None` for a number that no exec has.
    pub fn from_number(number: u32) -> Option<Channel> {
        let stream = match number & 3 {
            1 => StreamKind::Stdin,
            2 => StreamKind::Stdout,
            3 => StreamKind::Stderr,
            _ if number < 4 => return None,
            _ => StreamKind::Control,
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
