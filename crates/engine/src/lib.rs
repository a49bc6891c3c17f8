//! The life of a sandbox, with any kind of fence.
//!
//! - [`engine`]: the backends of a state directory, and the images
//! - [`begin`]: how a sandbox begins: one request, one place that decides, one way back ([`begun`])
//! - [`sandbox`]: one live sandbox: execs, files, its end
//! - [`link`]: the conversation with its guest, many execs over one stream
//! - [`exec`]: one exec: input, output with flow control, signals; [`exec_event`]: its events
//! - [`inbox`]: the guest's messages that no caller has taken yet
//! - [`network`]: its gate, if it has network rules; [`door`]: the sandbox's side of it
//! - [`zygote`]: an interpreter that is forked into sandboxes
//! - [`resume`]: a sandbox that another engine left
//! - [`files`], [`disk`], [`port`]: the work of the guest's tools, through [`tool`] and [`transfer`]
//! - [`certificates`]: certificates that the clients inside trust; [`install`]: their file inside
//! - [`secrets`]: values that never enter a sandbox
//! - [`patch`]: two states of a file as a patch
//! - [`descriptors`]: the file descriptors of this process; [`random`]: random numbers and ids
//!
//! A library: `paddock run` embeds it.

mod begin;
mod begun;
pub mod certificates;
pub mod descriptors;
mod disk;
mod door;
mod engine;
mod error;
mod exec;
mod exec_event;
mod file_error;
pub mod files;
mod inbox;
mod install;
mod link;
mod network;
pub mod patch;
mod port;
mod random;
mod resume;
mod sandbox;
pub mod secrets;
mod tool;
pub mod transfer;
mod zygote;

pub use begin::{Beginning, HalfFork, PreparedLiveFork, Request};
pub use begun::Begun;
pub use disk::{Disk, DiskUpload, Held, Layered};
pub use engine::Engine;
pub use error::EngineError;
pub use exec::{Command, Exec, Input, Newcomer};
pub use exec_event::ExecEvent;
pub use file_error::{FileError, FileErrorKind};
pub use files::{ArchiveUpload, FileUpload, Files, Watch};
pub use paddock_backends::{
    FindBackends, FoundName, HeadStart, Shortage, all as backends_of_this_build, find_held_names,
    fuzz_git_settings, give_up_calls, serve_as_janitor_if_asked,
};
pub use paddock_protocol::{ExecPhase, ExitKind, StreamKind, WindowSize, WorkUsage};
pub use port::PortStream;
pub use random::{new_id, random};
pub use resume::{Found, KnownExec, ResumedExec};
pub use sandbox::{Ended, Sandbox};
pub use tool::Place;
pub use transfer::Download;
pub use zygote::{Sources, Zygote, ZygoteFork};
