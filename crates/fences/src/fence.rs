//! The trait of a sandbox that stands, and those of sandboxes that others begin from: a VM that is copied, a zygote that
//! is forked, a sandbox whose interpreters are copied. A fence that cannot do something leaves the method as it is here.

use crate::error::{CreateError, LiveForkError, no_live_forks};
use crate::fence_usage::FenceUsage;
use crate::handover::Handover;
use crate::purpose::Purpose;
use paddock_model::{Disk, Guarantees, Limits, SandboxId, Spec};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A fence, and the stream to the guest inside.
pub struct Raised<F = Box<dyn Fence>> {
    pub fence: F,
    pub stream: UnixStream,
    /// The sandbox's end of the network link, where its spec has network rules. Until the engine serves it, nothing
    /// leaves.
    pub network: Option<Handover>,
    /// Notes for the caller about this very sandbox, beyond the guarantees of its spec.
    pub notes: Vec<String>,
}

impl<F> Raised<F> {
    /// The same with another fence around it.
    pub fn with_fence<G>(self, around: impl FnOnce(F) -> G) -> Raised<G> {
        let Raised { fence, stream, network, notes } = self;
        Raised { fence: around(fence), stream, network, notes }
    }
}

/// A sandbox that stands. Every method may block for a moment; none belongs on a thread that serves others.
///
/// Dropping it destroys it; [`Fence::leave`] is the way to let go of it without.
pub trait Fence: Send + Sync {
    /// Has the kernel end everything inside, and does not wait for it: nothing in there can put it off. A sandbox that
    /// is frozen stays as it is until it is destroyed.
    fn kill(&mut self) -> std::io::Result<()>;

    /// Ends everything inside, at once, removes every trace of the fence, and returns the kernel's counts.
    /// Works on a frozen sandbox, and on one that has ended by itself.
    fn destroy(&mut self) -> std::io::Result<FenceUsage>;

    /// Puts up the limits of the work where the fence began without them, and returns descriptors for its guest: each puts the
    /// process that writes `0` to it under some of them. To be called before a command starts; `None` where nothing is to be done.
    fn limit_work(&mut self) -> Result<Option<Vec<File>>, CreateError> {
        Ok(None)
    }

    /// A descriptor that becomes readable when the guest has ended, and everything inside with it.
    fn ended(&self) -> Option<BorrowedFd<'_>>;

    /// Why the guest never greeted, if the backend can tell. Ends the rest of it.
    fn why_not_started(&mut self) -> Option<CreateError> {
        None
    }

    /// The resource use that the kernel has counted so far.
    fn usage(&self) -> std::io::Result<FenceUsage> {
        Ok(FenceUsage::default())
    }

    /// The part of its memory that is the kernel's cache of files. It is counted apart, because the kernel takes longer to tell it.
    fn page_cache(&self) -> Option<u64> {
        None
    }

    /// One of those numbers, asked for more often than the others.
    fn memory_kills(&self) -> u64 {
        self.usage().map_or(0, |usage| usage.memory_kills)
    }

    /// Stops all work where it stands, and returns when nothing of it runs any more. The guest goes on.
    /// [`ErrorKind::Unsupported`] where this host cannot.
    fn freeze(&self) -> std::io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    /// Lets the work go on. Nothing happens to work that is not frozen.
    fn thaw(&self) -> std::io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    /// Holds the work to other limits of memory, processors and processes from now on, or leaves the old ones.
    /// Limits that stay the same are written again: an engine that takes over does not know the values its predecessor
    /// wrote.
    /// [`ErrorKind::Unsupported`] where one changes that the kernel does not hold.
    fn change_limits(&self, old: &Limits, new: &Limits) -> std::io::Result<()> {
        let held = |limits: &Limits| (limits.memory, limits.cpus, limits.pids);
        if held(old) == held(new) { Ok(()) } else { Err(ErrorKind::Unsupported.into()) }
    }

    /// Keeps the memory of everything inside in `directory`, and stops it there: nothing runs until it is told to go on.
    /// [`ErrorKind::Unsupported`] where this fence cannot.
    ///
    /// Precondition: no host is connected to its guest; the directory is empty.
    fn keep_memory(&self, _directory: &Path) -> std::io::Result<Box<dyn Kept>> {
        Err(ErrorKind::Unsupported.into())
    }

    /// Stops everything inside, for others to be copied from it as it stands.
    ///
    /// Precondition: no host is connected to its guest; the spec is this one's own.
    fn pause_for_copies(&self, _spec: &Spec) -> Result<Box<dyn PausedVm>, CreateError> {
        Err(Purpose::ParentVm.unsupported())
    }

    /// The place for a fork of this sandbox, into which its interpreters are copied as they stand. It stays valid while
    /// this sandbox lives.
    ///
    /// Precondition: the spec is this one's own, but for the disk.
    fn live_forks(&self, _spec: &Spec) -> Result<Box<dyn LiveForkSource>, CreateError> {
        Err(no_live_forks())
    }

    /// Why no interpreter could be copied out of it, where that is known before anything is tried.
    fn why_no_live_fork(&self) -> Option<String> {
        Some(no_live_forks().to_string())
    }

    /// The interpreter in it that is forked into others. Only a sandbox for [`Purpose::Zygote`]
    /// has one, and only while the engine that made it lives.
    fn zygote(&self) -> Result<Arc<dyn ZygoteSandbox>, CreateError> {
        Err(Purpose::Zygote.unsupported())
    }

    /// Ends all remaining work, and removes every trace but the guest, in whose namespaces others nest. It stays to be
    /// destroyed. Returns the kernel's counts.
    ///
    /// Precondition: the guest was told to hold.
    fn hold(&self) -> std::io::Result<FenceUsage> {
        Err(ErrorKind::Unsupported.into())
    }

    /// As [`Fence::hold`], under another name from then on: the sandbox itself goes on elsewhere.
    fn become_shell(&mut self, _name: &SandboxId) -> std::io::Result<FenceUsage> {
        Err(ErrorKind::Unsupported.into())
    }

    /// Forgets a lasting sandbox without destroying it: the engine ends, the sandbox goes on. A sandbox that is not
    /// lasting is destroyed.
    fn leave(self: Box<Self>) {}
}

/// A sandbox whose memory was kept, and in which nothing runs. Dropped, it goes on, as it does when this engine is killed.
pub trait Kept: Send {
    fn go_on(self: Box<Self>) -> std::io::Result<()>;

    /// The sandbox need not go on: its fence is about to be destroyed.
    fn stay_down(self: Box<Self>) -> std::io::Result<()>;
}

/// A sandbox in which nothing runs, and that others are copied from, memory and all. Dropped, it goes on.
pub trait PausedVm: Send + Sync {
    /// As [`Backend::create_from_memory`](crate::Backend::create_from_memory), for a sandbox that nests in this one and ends with it.
    /// If it has no disk yet, it gets a copy of this one's; `renamed`: it gets names of its own. An error leaves nothing
    /// behind, and the sandbox may then be made in another way. Blocks.
    ///
    /// Precondition: the spec is that of this sandbox, except the disk.
    fn copy(&self, id: &SandboxId, spec: &Spec, renamed: bool) -> Result<Raised, CreateError>;

    /// The weakness of every copy, in words a person can act on.
    fn weakness(&self) -> &'static str;
}

/// The sandbox of an interpreter that is forked into others. Every method may block for a moment.
///
/// The interpreter is started as an exec with `zygote` set. It receives packets, and answers the first of them; its own
/// source says how it handles a packet that asks for a fork.
pub trait ZygoteSandbox: Send + Sync {
    fn tell(&self, packet: &[u8]) -> std::io::Result<()>;

    /// The next packet that it sends; an error of kind `TimedOut` when it says nothing for so long, and one of kind
    /// `UnexpectedEof` when it has gone.
    fn hear(&self, patience: Duration) -> std::io::Result<Vec<u8>>;

    /// The guarantees that a sandbox nested in this one will really have.
    fn guarantees(&self, spec: &Spec) -> Guarantees;

    /// As [`Backend::create`](crate::Backend::create) of a lasting sandbox that nests in this one. Its first exec is awaited.
    ///
    /// Precondition: the spec is that of this sandbox, but for the disk.
    fn create(&self, id: &SandboxId, spec: &Spec) -> Result<(Raised, Box<dyn AwaitedFork>), CreateError>;
}

/// A sandbox that awaits its first exec from a zygote.
pub trait AwaitedFork: Send + Sync {
    /// Has the interpreter forked into it; the number that the child has inside, to be looked at by the guest there.
    ///
    /// Precondition: the guest inside is ready.
    fn fork(self: Box<Self>, start: &InterpreterStart, patience: Duration) -> std::io::Result<u32>;
}

/// How an interpreter begins in its sandbox.
#[derive(Debug, Clone)]
pub struct InterpreterStart {
    /// The whole environment.
    pub env: BTreeMap<String, String>,
    pub cwd: String,
}

/// A sandbox whose waiting interpreters are copied into another one that nests in it.
///
/// Such a fork is made in pieces, and each piece is used up by the next: the interpreters can go into it while its plan
/// is made and its disk is copied, so that they stand still for no longer than their own copying takes.
pub trait LiveForkSource: Send {
    /// The first piece of a lasting sandbox, and the way of so many interpreters into it, which they can go at once. The
    /// sandbox ends with the one around it, unless that is [held](Fence::hold) for its sake. Its disk need not be
    /// there yet.
    fn begin(
        self: Box<Self>,
        id: &SandboxId,
        spec: &Spec,
        interpreters: usize,
    ) -> Result<BegunLiveFork, CreateError>;
}

/// The way of interpreters into a fork, and the fork.
pub type BegunLiveFork = (Box<dyn Landing>, Box<dyn ForkBegun>);

/// A fork that was begun: its namespaces and cgroups are there. Dropped, it is taken down.
pub trait ForkBegun: Send {
    /// Makes the rest, but for the disk.
    fn compose(self: Box<Self>) -> Result<Box<dyn ForkComposed>, CreateError>;
}

/// A fork that has no disk yet. Dropped, it is taken down.
pub trait ForkComposed: Send {
    /// As [`Backend::create`](crate::Backend::create) from here on.
    fn finish(self: Box<Self>, disk: &Disk) -> Result<Raised, CreateError>;
}

/// A sandbox into which interpreters of another one are copied.
pub trait Landing: Send {
    /// Forks waiting interpreters, as they stand, into this sandbox; its guest has the streams of each under the number
    /// of its place. They are waited for until `until`. The copies stand still until `ready` says that the guest is
    /// ready, and are taken down if that never happens. If a step fails, the interpreter goes on as before, and nothing
    /// of it is in this sandbox. `alone` is held while an interpreter stands still: a process is traced by one thread
    /// at a time. Blocks, and must stay on one thread.
    fn copy_interpreters(
        self: Box<Self>,
        interpreters: &[Interpreter],
        until: Instant,
        alone: &Mutex<()>,
        ready: &Receiver<()>,
    ) -> Vec<Result<CopiedInterpreter, LiveForkError>>;
}

/// The process of an interpreter, as its guest describes it.
#[derive(Debug, Clone, Copy)]
pub struct Interpreter {
    /// Its pid inside.
    pub pid: u32,
    /// The pipes that it writes to, by their inodes.
    pub stdout: u64,
    pub stderr: u64,
}

/// An interpreter that was copied, to be looked at by the guest there.
#[derive(Debug, Clone)]
pub struct CopiedInterpreter {
    /// The number that it has inside.
    pub pid: u32,
    /// The files that the interpreter had open and its copy has not, in words.
    pub closed: Vec<String>,
    /// How long the interpreter that it was copied from stood still.
    pub stood_still: Duration,
}
