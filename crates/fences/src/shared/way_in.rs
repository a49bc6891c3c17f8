//! The way of a process from outside into a sandbox: the copy of a process by a live fork, the child of a zygote, or a VM.

use paddock_protocol::Ids;
use std::fs::File;
use std::os::fd::OwnedFd;

/// The facts about a sandbox that a live fork into it needs.
pub struct WayIn {
    /// PID 1 of the inside, by the host's numbers.
    pub guest: u32,
    pub ids: Ids,
    /// The files by which a process joins its cgroups.
    pub entrances: Vec<File>,
    pub streams: Vec<Streams>,
}

/// The ends that a process from outside brings along.
pub struct Streams {
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
    pub control: OwnedFd,
}
