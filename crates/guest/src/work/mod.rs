//! Processes that belong to the caller, each started behind every layer of the fence.
//!
//! - [`confine`]: the layers, in the order they are put on
//! - [`spawn`]: fork, streams or terminal, then the layers, then the program

mod confine;
mod spawn;

pub use confine::Confinement;
pub use spawn::{Spawned, resize, spawn};
