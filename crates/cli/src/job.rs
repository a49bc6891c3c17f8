//! `paddock job run`: a job from its file to its end.
//!
//! - [`file`]: the description, with the files that it names beside it
//! - [`local`]: this command as the server, if there is none
//! - [`run`]: sent, watched, and the meaning of its end for the caller
//! - [`logs`]: the output of its task, across lost connections
//! - [`progress`]: how far it is, for a person

mod file;
mod local;
mod logs;
mod progress;
mod run;

pub use file::JobFileError;
pub use local::{LocalServer, is_needed};
pub use logs::follow;
pub use run::{Wanted, all_tasks, run};
