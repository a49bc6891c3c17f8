//! The parts of the guest that know neither its loop nor a command: what its tools and its agent both stand on.
//!
//! - [`system`]: the few system calls that no crate wraps
//! - [`failure`]: an error as it travels to the host
//! - [`trees`]: the trees that a disk consists of
//! - [`clock`]: the clock of files; [`names`]: names beside those of the work
//! - [`weaken`]: layers that a test takes away; nothing in any other build

pub mod clock;
pub mod failure;
pub mod names;
pub mod system;
pub mod trees;
pub mod weaken;
