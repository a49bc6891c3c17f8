//! Processes that belong to the caller, each started behind every layer of the fence.
//!
//! - [`confine`]: the layers, in the order they are put on
//! - [`spawn`]: fork, streams or terminal, then the layers, then the program
//! - [`taken`]: a process that came in from outside
//! - [`tool`]: the same for the guest's own tools, which need no program
//! - [`visitor`]: the process of root behind a `sudo`
//! - [`kill`]: the end of one exec, with its session, and of everything

mod confine;
mod kill;
mod spawn;
mod taken;
mod tool;
mod visitor;

pub use confine::Confinement;
pub use kill::{kill_all_but_nested, kill_session, kill_sessions, sessions_left};
pub use spawn::{Spawned, last_errno, resize, spawn, spawn_with};
pub use taken::Newcomer;
pub use tool::spawn_tool;
pub use visitor::{FINISHED, ROOT, spawn_root_for};
