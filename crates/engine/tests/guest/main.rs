//! The guest, seen through the engine: real sandboxes for its behaviour, a false one for its possible attacks. Tests
//! with a real sandbox need root, as a sandbox with many ids does.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test: whatever fails shall fail it"
)]

mod archives;
mod disks;
mod execs;
mod false_guest;
mod files;
mod late_cgroups;
mod merges;
mod support;
