//! `sudo` of a sandbox whose ordinary user may become root: the guest's own executable under another name.
//!
//! - [`options`]: the command line
//! - [`request`]: the bytes between the caller's process and that of root
//! - [`client`]: the caller's process; [`terminal`]: what it does with a terminal
//! - [`root`]: the process of root, which reads the request with the rights of the command and starts it
//! - [`program`]: the words, the variables and the user of the command; [`accounts`]: the tables of users
//!
//! No program gains rights by being executed. The guest opens a socket in the sandbox, and for a connection of the ordinary user it
//! starts [`root`] behind every layer of the fence, as it starts any command of root. The guest itself reads nothing that comes
//! from inside (`agent/visits.rs`).

mod accounts;
mod client;
mod options;
mod program;
mod request;
mod root;
mod terminal;

pub use client::run as run_client;
pub use root::run as run_root;

/// The name under which the executable is `sudo`. Under [`crate::work::ROOT`] it is the process of root behind it.
pub const CLIENT: &str = "sudo";

/// The exit code of a `sudo` that did not start its command.
const REFUSED: i32 = 1;

/// How the process of root ends if its command has not ended by itself.
const LOST: i32 = 1;

fn complain(text: &str) -> i32 {
    eprintln!("sudo: {text}");
    REFUSED
}
