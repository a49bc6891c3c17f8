//! The life of a sandbox, with any kind of fence.
//!
//! - [`engine`]: choose a backend, create
//! - [`sandbox`]: one live sandbox: execs, files, its end
//! - [`link`]: the conversation with its guest, many execs over one stream
//! - [`exec`]: one exec: input, output with flow control, signals
//! - [`inbox`]: the guest's messages that no caller has taken yet
//! - [`network`]: its gate, if it has network rules
//! - [`zygote`]: an interpreter that is forked into sandboxes
//! - [`resume`]: a sandbox that another engine left
//! - [`files`], [`disk`], [`port`]: the work of the guest's tools, through [`tool`] and [`transfer`]
//! - [`certificates`]: certificates that the clients inside trust
//! - [`secrets`]: values that never enter a sandbox
//! - [`patch`]: two states of a file as a patch
//! - [`descriptors`]: the file descriptors of this process
//!
//! A library: `paddock run` embeds it.

pub mod certificates;
pub mod descriptors;
mod disk;
mod engine;
mod error;
mod exec;
mod file_error;
pub mod files;
mod inbox;
mod link;
mod network;
pub mod patch;
mod port;
mod resume;
mod sandbox;
pub mod secrets;
mod tool;
pub mod transfer;
mod zygote;

pub use disk::{Disk, DiskUpload, Held, Layered};
pub use engine::{Engine, HalfRaised, RaisedFence, new_id, random};
pub use error::EngineError;
pub use exec::{Command, Exec, ExecEvent, Input, Newcomer};
pub use file_error::{FileError, FileErrorKind};
pub use files::{ArchiveUpload, FileUpload, Files, Watch};
pub use paddock_backends::{
    FoundName, HeadStart, Shortage, find_held_names, fuzz_git_settings, give_up_calls,
    serve_as_janitor_if_asked,
};
pub use paddock_protocol::{ExecPhase, ExitKind, StreamKind, WindowSize, WorkUsage};
pub use port::PortStream;
pub use resume::{Found, KnownExec, ResumedExec};
pub use sandbox::{Ended, Sandbox};
pub use tool::Place;
pub use transfer::Download;
pub use zygote::{Sources, Zygote};
