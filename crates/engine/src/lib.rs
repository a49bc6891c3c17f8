//! The life of a sandbox, whatever its fence is made of.
//!
//! - [`engine`]: choose a backend, create
//! - [`sandbox`]: one live sandbox: commands, files, its end
//! - [`link`]: the conversation with its guest, many commands over one stream
//! - [`exec`]: one command: input, output with flow control, signals
//! - [`inbox`]: what a guest said and nobody has taken yet
//! - [`network`]: its gate, where it has network rules
//! - [`zygote`]: an interpreter that is forked into sandboxes
//! - [`resume`]: a sandbox that another engine left
//! - [`files`], [`disk`], [`port`]: what the guest's tools do, through [`tool`] and [`transfer`]
//! - [`capacity`]: whether this host can hold a number of sandboxes; [`descriptors`]: those of this process
//! - [`settings`]: layers of settings -> one checked description; [`policy_file`] and [`templates`] are their files
//! - [`storage`]: where the disks of lasting sandboxes are kept, and their snapshots
//! - [`builds`]: templates that are built, from packages and files to an image of their own
//! - [`images`]: from what the caller names to a root file system
//! - [`store`]: records in SQLite; [`journal`]: output of execs; [`audit`]: a signed timeline per sandbox
//! - [`access`]: tokens, roles, quotas; [`signing`]: links to one file
//! - [`secrets`]: values that never enter a sandbox
//! - [`volumes`]: directories that outlive sandboxes, as they are mounted here
//! - [`scan`]: what code would do, read before it runs
//! - [`patch`]: two states of a file as a patch
//! - [`agents`]: what the command lines of coding agents need
//! - [`capture`]: output kept within a bound, head and tail
//!
//! A library: `paddock run` embeds it.

pub mod access;
pub mod agents;
pub mod audit;
pub mod builds;
pub mod capacity;
mod capture;
pub mod certificates;
pub mod descriptors;
mod disk;
mod engine;
mod error;
mod exec;
mod file_error;
mod files;
pub mod fleet;
pub mod images;
mod inbox;
pub mod journal;
mod link;
mod network;
pub mod patch;
pub mod policy_file;
mod policy_net;
mod policy_secrets;
mod port;
mod resume;
mod sandbox;
pub mod scan;
pub mod secrets;
pub mod settings;
pub mod signing;
pub mod storage;
pub mod store;
pub mod templates;
mod tool;
mod transfer;
pub mod volumes;
mod zygote;

pub use capture::Capture;
pub use disk::{Disk, DiskUpload, Held, Layered};
pub use engine::Engine;
pub use error::EngineError;
pub use exec::{Command, Exec, ExecEvent, Input};
pub use file_error::{FileError, FileErrorKind};
pub use files::{ArchiveUpload, FileUpload, Files, Watch};
pub use paddock_backends::{
    FoundName, HeadStart, Shortage, find_held_names, fuzz_git_settings, give_up_calls,
    serve_as_janitor_if_asked,
};
pub use paddock_protocol::{ExecPhase, ExitKind, StreamKind, WindowSize, WorkUsage};
pub use port::PortStream;
pub use resume::{KnownExec, ResumedExec};
pub use sandbox::{Ended, Sandbox};
pub use tool::Place;
pub use transfer::Download;
