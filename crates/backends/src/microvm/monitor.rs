//! The traits that a VM monitor implements. They are small, so that another monitor can take QEMU's place; no untested
//! monitor has code here.

use std::fs::File;
use std::io::Result;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

/// The properties of a VM that must be the same before and after its memory was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Shape {
    /// Bytes.
    pub memory: u64,
    pub processors: u32,
    /// By the processor itself, or in software.
    pub acceleration: Acceleration,
    /// True if programs in the VM have the same addresses each time.
    #[serde(default)]
    pub fixed_addresses: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Acceleration {
    Kvm,
    Emulated,
}

/// Where a VM has its memory from when it begins.
pub enum MemorySource {
    /// From its kernel. Its memory is a file that others see.
    Boot { kernel: OwnedFd, initramfs: OwnedFd, memory: OwnedFd },
    /// From kept memory, which it maps privately or, if `shared`, writes to, so that others see the result; the rest of
    /// its state is read on command.
    Copy { memory: OwnedFd, shared: bool },
    /// From a stream that has its memory too.
    Stream,
}

/// The files of a VM, each opened by the host.
pub struct Files {
    pub memory: MemorySource,
    /// The image below its root, read-only.
    pub image: OwnedFd,
    pub disk: OwnedFd,
    /// The socket of the monitor, and true if the monitor is to listen there.
    pub monitor: OwnedFd,
    pub listens: bool,
    /// True if parts of the host's system, or directories of the caller, are shared with it.
    pub shares_system: bool,
    pub shares: bool,
}

/// A command whose words name the files by `{N}`, and the files in that order.
pub struct Command {
    pub words: Vec<String>,
    pub files: Vec<OwnedFd>,
}

pub trait Monitor: Send {
    /// Goes on from the kept state; `copied`: the memory is its own copy already, and only the rest is read.
    fn recall(&mut self, state: &File, copied: bool) -> Result<()>;

    /// Writes the state of a VM to `state`. If `shared`, the memory is left out: it lies in a file that others see. The
    /// VM is paused afterwards.
    fn keep(&mut self, state: &File, shared: bool) -> Result<()>;

    /// Pauses the VM.
    fn pause(&mut self) -> Result<()>;

    /// Lets a paused VM go on.
    fn go_on(&mut self) -> Result<()>;
}

pub trait Vmm: Send + Sync {
    fn command(&self, shape: Shape, files: Files) -> Command;

    /// Precondition: the other end is, or will be, the VM's monitor socket.
    fn monitor(&self, stream: UnixStream) -> Result<Box<dyn Monitor>>;
}
