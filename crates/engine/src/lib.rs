//! The life of a sandbox, whatever its fence is made of.
//!
//! - [`engine`]: choose a backend, create
//! - [`sandbox`]: one live sandbox: commands, files, its end
//! - [`link`]: the conversation with its guest, many commands over one stream
//! - [`exec`]: one command: input, output with flow control, signals
//! - [`settings`]: layers of settings -> one checked description; [`policy_file`] and [`templates`] are their files
//! - [`images`]: from what the caller names to a root file system
//! - [`capture`]: output kept within a bound, head and tail
//!
//! A library: `paddock run` embeds it.

mod capture;
mod engine;
mod error;
mod exec;
pub mod images;
mod link;
pub mod policy_file;
mod sandbox;
pub mod settings;
pub mod templates;

pub use capture::Capture;
pub use engine::Engine;
pub use error::EngineError;
pub use exec::{Command, Exec, ExecEvent, Input};
pub use paddock_backends::serve_as_janitor_if_asked;
pub use paddock_protocol::{ExitKind, StreamKind, WindowSize, WorkUsage};
pub use sandbox::{Ended, Sandbox};
