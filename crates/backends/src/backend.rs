//! The traits that every backend implements. They have few required methods, so that a new backend is a day's work.

use crate::handover::Handover;
use crate::host_limit::HostLimit;
use paddock_model::{Availability, Guarantees, Limits, SandboxId, Spec};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub trait Backend: Send + Sync {
    fn name(&self) -> &'static str;

    /// A part that every sandbox needs and this host lacks, if a quick check finds one.
    fn missing(&self) -> Option<String> {
        None
    }

    /// The abilities of this host for this backend, and the missing parts, in words a person can act on.
    fn probe(&self) -> Availability;

    /// The guarantees that a sandbox of this spec will really have.
    fn guarantees(&self, spec: &Spec) -> Guarantees;

    /// Puts up a fence whose guest is coming up: it says that it is ready, or why not, over the stream.
    ///
    /// A `lasting` sandbox goes on when this engine ends, by itself or by force: its guest then waits for another
    /// engine to [`adopt`](Backend::adopt) it. Any other ends with the stream.
    fn create(&self, id: &SandboxId, spec: &Spec, lasting: bool) -> Result<Raised, CreateError>;

    /// As [`Backend::create`] of a lasting sandbox that goes on from memory that [`Fence::keep_memory`] has kept, over
    /// a disk of the same moment. Its guest is to be resumed: it sends nothing by itself.
    fn create_from_memory(
        &self,
        _id: &SandboxId,
        _spec: &Spec,
        _memory: &Path,
    ) -> Result<Raised, CreateError> {
        Err(CreateError::Unavailable {
            missing: "a fence of this backend keeps no memory".into(),
            remedy: None,
        })
    }

    /// The directory with memory that any number of sandboxes of this spec, in which `what` was started, can begin
    /// with. [`Backend::create_from_memory`] takes it, once it is there. The path changes when a change elsewhere makes
    /// the kept memory stale. `None` if no memory can be kept.
    ///
    /// It is made by [`Fence::keep_memory`] of a sandbox of [`Backend::create_to_bake`], in a directory of that name with an
    /// ending (`.new`), and renamed.
    fn bake_place(&self, _spec: &Spec, _what: &[u8]) -> Result<Option<PathBuf>, CreateError> {
        Ok(None)
    }

    /// A lasting sandbox whose memory is to be kept for others, and that is to end then.
    fn create_to_bake(&self, _id: &SandboxId, _spec: &Spec) -> Result<Raised, CreateError> {
        Err(CreateError::Unavailable {
            missing: "memory of this backend is that of one sandbox".into(),
            remedy: None,
        })
    }

    /// A lasting sandbox that is to [stand](Fence::stand) for others to be copied from, and never does any work for a caller.
    fn create_stem(&self, _id: &SandboxId, _spec: &Spec) -> Result<Raised, CreateError> {
        Err(CreateError::Unavailable {
            missing: "no sandbox of this backend is copied as it stands".into(),
            remedy: None,
        })
    }

    /// A lasting sandbox in which an interpreter is to wait, to be forked into others. Those nest in it: it outlives
    /// them, or they end with it.
    fn create_nursery(&self, id: &SandboxId, spec: &Spec) -> Result<(Raised, Arc<dyn Nursery>), CreateError>;

    /// Takes over a lasting sandbox that an earlier engine of the same state directory left. The stream is a new
    /// one; its guest goes on where the old one broke.
    fn adopt(&self, id: &SandboxId) -> Result<Raised, AdoptError>;

    /// True if the guest of a lasting sandbox runs. A guest that the kernel is just ending does not count as running.
    fn stands(&self, id: &SandboxId) -> bool;

    /// Ends and removes a lasting sandbox, or a shell that others nested in, that an earlier engine left. It does not
    /// matter if its guest can still be reached.
    fn remove(&self, id: &SandboxId) -> Result<(), AdoptError>;

    /// Ends and removes every lasting sandbox of this state directory that is not in `keep`, those included whose
    /// engine was killed while it made them; says which.
    ///
    /// Precondition: no other engine makes lasting sandboxes in this state directory meanwhile.
    fn sweep(&self, keep: &BTreeSet<SandboxId>) -> std::io::Result<Vec<SandboxId>>;
}

/// A fence, and the stream to the guest inside.
pub struct Raised {
    pub fence: Box<dyn Fence>,
    pub stream: UnixStream,
    /// The sandbox's end of the network link, where its spec has network rules. Until the engine serves it, nothing
    /// leaves.
    pub network: Option<Handover>,
    /// Notes for the caller about this very sandbox, beyond the guarantees of its spec.
    pub notes: Vec<String>,
}

/// A sandbox that stands. Every method may block for a moment; none belongs on a thread that serves others.
///
/// Dropping it destroys it; [`Fence::leave`] is the way to let go of it without.
pub trait Fence: Send + Sync {
    /// Why the guest never greeted, if the backend can tell. Ends the rest of it.
    fn why_not_started(&mut self) -> Option<CreateError>;

    /// Has the kernel end everything inside, and does not wait for it: nothing in there can put it off. A sandbox that
    /// is frozen stays as it is until it is destroyed.
    fn kill(&mut self) -> std::io::Result<()>;

    /// Ends everything inside, at once, removes every trace of the fence, and returns the kernel's counts.
    /// Works on a frozen sandbox, and on one that has ended by itself.
    fn destroy(&mut self) -> std::io::Result<FenceUsage>;

    /// The resource use that the kernel has counted so far.
    fn usage(&self) -> std::io::Result<FenceUsage>;

    /// One of those numbers, asked for more often than the others.
    fn memory_kills(&self) -> u64 {
        self.usage().map_or(0, |usage| usage.memory_kills)
    }

    /// Stops all work where it stands, and returns when nothing of it runs any more. The guest goes on.
    /// [`std::io::ErrorKind::Unsupported`] where this host cannot.
    fn freeze(&self) -> std::io::Result<()>;

    /// Lets the work go on. Nothing happens to work that is not frozen.
    fn thaw(&self) -> std::io::Result<()>;

    /// Holds the work to other limits of memory, processors and processes from now on, or leaves the old ones.
    /// Limits that stay the same are written again: an engine that takes over does not know the values its predecessor
    /// wrote.
    /// [`std::io::ErrorKind::Unsupported`] where one changes that the kernel does not hold.
    fn change_limits(&self, old: &Limits, new: &Limits) -> std::io::Result<()>;

    /// Keeps the memory of everything inside in `directory`, and stops it there: nothing runs until it is told to go on.
    /// [`std::io::ErrorKind::Unsupported`] where this fence cannot.
    ///
    /// Precondition: no host is connected to its guest; the directory is empty.
    fn keep_memory(&self, _directory: &Path) -> std::io::Result<Box<dyn Kept>> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    /// Stops everything inside, for others to be copied from it as it stands.
    ///
    /// Precondition: no host is connected to its guest; the spec is this one's own.
    fn stand(&self, _spec: &Spec) -> Result<Box<dyn Stem>, CreateError> {
        Err(CreateError::Unavailable {
            missing: "no sandbox of this backend is copied as it stands".into(),
            remedy: None,
        })
    }

    /// The place for a fork of this sandbox. It stays valid while this sandbox lives.
    ///
    /// Precondition: the spec is this one's own, but for the disk.
    fn fork_site(&self, _spec: &Spec) -> Result<Box<dyn ForkSite>, CreateError> {
        Err(CreateError::Unavailable {
            missing: "a fence of this backend carries no interpreters".into(),
            remedy: None,
        })
    }

    /// Why no interpreter could be carried out of it, where that is known before anything is tried.
    fn carries_nothing(&self) -> Option<String> {
        Some("this backend carries no interpreters".into())
    }

    /// Ends all remaining work, and removes every trace but the guest, in whose namespaces others nest. It stays to be
    /// destroyed. Returns the kernel's counts.
    ///
    /// Precondition: the guest was told to hold.
    fn hold(&self) -> std::io::Result<FenceUsage> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    /// As [`Fence::hold`], under another name from then on: the sandbox itself goes on elsewhere.
    fn become_shell(&mut self, _name: &SandboxId) -> std::io::Result<FenceUsage> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    /// Forgets a lasting sandbox without destroying it: the engine ends, the sandbox goes on. A sandbox that is not
    /// lasting is destroyed.
    fn leave(self: Box<Self>);

    /// A descriptor that becomes readable when the guest has ended, and everything inside with it.
    fn ended(&self) -> Option<BorrowedFd<'_>>;
}

/// A sandbox whose memory was kept, and in which nothing runs. Dropped, it goes on, as it does when this engine is killed.
pub trait Kept: Send {
    fn go_on(self: Box<Self>) -> std::io::Result<()>;

    /// The sandbox need not go on: its fence is about to be destroyed.
    fn stay_down(self: Box<Self>) -> std::io::Result<()>;
}

/// A sandbox in which nothing runs, and that others are copied from, memory and all. Dropped, it goes on.
pub trait Stem: Send + Sync {
    /// As [`Backend::create_from_memory`], for a sandbox that nests in this one and ends with it. If it has no disk
    /// yet, it gets a copy of this one's; `renamed`: it gets names of its own. An error leaves nothing behind, and the
    /// sandbox may then be made in another way. Blocks.
    ///
    /// Precondition: the spec is that of this sandbox, except the disk.
    fn copy(&self, id: &SandboxId, spec: &Spec, renamed: bool) -> Result<Raised, CreateError>;
}

/// The sandbox of an interpreter that is forked into others. Every method may block for a moment.
///
/// The interpreter is started as an exec with `zygote` set. It receives packets, and answers the first of them; its own
/// source says how it handles a packet that asks for a fork.
pub trait Nursery: Send + Sync {
    fn tell(&self, packet: &[u8]) -> std::io::Result<()>;

    /// The next packet that it sends; an error of kind `TimedOut` when it says nothing for so long, and one of kind
    /// `UnexpectedEof` when it has gone.
    fn hear(&self, patience: Duration) -> std::io::Result<Vec<u8>>;

    /// The guarantees that a sandbox nested in this nursery will really have.
    fn guarantees(&self, spec: &Spec) -> Guarantees;

    /// As [`Backend::create`] of a lasting sandbox that nests in this one. Its first exec is awaited.
    ///
    /// Precondition: the spec is the nursery's own, but for the disk.
    fn create(&self, id: &SandboxId, spec: &Spec) -> Result<(Raised, Box<dyn Cradle>), CreateError>;
}

/// A sandbox that awaits its first exec.
pub trait Cradle: Send {
    /// Has the interpreter forked into it; the number that the child has inside, to be looked at by the guest there.
    ///
    /// Precondition: the guest inside is ready.
    fn fork(self: Box<Self>, birth: &Birth, patience: Duration) -> std::io::Result<u32>;
}

/// A place for a sandbox that nests in another one.
pub trait ForkSite: Send {
    /// The first half of a lasting sandbox, into which so many interpreters of the one around it are then carried. It ends with
    /// that one, unless that is [held](Fence::hold) for its sake. Its disk need not be there yet.
    fn begin(
        self: Box<Self>,
        id: &SandboxId,
        spec: &Spec,
        interpreters: usize,
    ) -> Result<Box<dyn ForkBegun>, CreateError>;
}

/// A fork that was begun: its namespaces and cgroups are there. Dropped, it is taken down.
pub trait ForkBegun: Send {
    /// The way of the interpreters into it, which they can go at once. Once only.
    fn landing(&mut self) -> Result<Box<dyn Landing>, CreateError>;

    /// Makes the rest, but for the disk. The spec is the one that it was begun with.
    fn compose(self: Box<Self>, spec: &Spec) -> Result<Box<dyn ForkComposed>, CreateError>;
}

/// A fork that has no disk yet. Dropped, it is taken down.
pub trait ForkComposed: Send {
    /// As [`Backend::create`] from here on.
    ///
    /// Precondition: the spec is the one that it was begun with, but for the disk.
    fn finish(self: Box<Self>, spec: &Spec) -> Result<Raised, CreateError>;
}

/// A sandbox into which interpreters of another one are carried.
pub trait Landing: Send {
    /// Forks waiting interpreters, as they stand, into this sandbox; its guest has the streams of each under the number
    /// of its place. They are waited for until `until`. The copies stand still until `ready` says that the guest is
    /// ready, and are taken down if that never happens. If a step fails, the interpreter goes on as before, and nothing
    /// of it is in this sandbox. `alone` is held while an interpreter stands still: a process is traced by one thread
    /// at a time. Blocks, and must stay on one thread.
    fn carry(
        self: Box<Self>,
        interpreters: &[Interpreter],
        until: Instant,
        alone: &Mutex<()>,
        ready: &Receiver<()>,
    ) -> Vec<Result<Carried, CarryError>>;
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

/// An interpreter that was carried, to be looked at by the guest there.
#[derive(Debug, Clone)]
pub struct Carried {
    /// The number that it has inside.
    pub pid: u32,
    /// The files that the interpreter had open and its copy has not, in words.
    pub closed: Vec<String>,
    /// How long the interpreter that it was copied from stood still.
    pub stood_still: Duration,
}

/// Why an interpreter could not be carried.
#[derive(Debug, thiserror::Error)]
pub enum CarryError {
    /// This host lacks something that a live fork needs.
    #[error("{0}")]
    Unavailable(String),
    /// This interpreter cannot be forked live.
    #[error("{0}")]
    Unable(String),
    /// The interpreter did not wait for its next call in time.
    #[error("{0}")]
    Busy(String),
    #[error("could not {step}: {source}")]
    Host { step: String, source: std::io::Error },
}

/// How an interpreter begins in its sandbox.
#[derive(Debug, Clone)]
pub struct Birth {
    /// The whole environment.
    pub env: BTreeMap<String, String>,
    pub cwd: String,
}

/// `None` in a field where the kernel does not count.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FenceUsage {
    pub cpu_ms: Option<f64>,
    /// Bytes that the work holds now. Like the other counts of the present, `None` once the work has ended.
    pub memory: Option<u64>,
    pub processes: Option<u64>,
    pub peak_memory: Option<u64>,
    /// Processes that the kernel killed for want of memory.
    pub memory_kills: u64,
    /// How often the kernel refused a new process or thread.
    pub refused_processes: u64,
    /// True if the same limits hold the guest, so that the guest dies when the work exceeds them.
    pub guest_counted: bool,
}

/// The resource that a sandbox had too little of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shortage {
    Memory,
    Processes,
}

impl FenceUsage {
    /// The limit that ended the guest, if a limit did. Precondition: the guest was lost.
    pub fn lost_to(&self) -> Option<Shortage> {
        match self {
            _ if !self.guest_counted => None,
            _ if self.memory_kills > 0 => Some(Shortage::Memory),
            _ if self.refused_processes > 0 => Some(Shortage::Processes),
            _ => None,
        }
    }
}

/// Why a lasting sandbox could not be taken over.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    #[error("sandbox {id} has ended: {detail}")]
    Gone { id: SandboxId, detail: String },
    #[error("the record of sandbox {id} cannot be read: {detail}")]
    Damaged { id: SandboxId, detail: String },
    #[error("sandbox {id} is of another backend")]
    Foreign { id: SandboxId },
    #[error("the guest of sandbox {id} cannot be reached")]
    Connect { id: SandboxId, source: std::io::Error },
}

#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    #[error("the sandbox cannot be made here: {missing}")]
    Unavailable { missing: String, remedy: Option<String> },
    #[error("this machine cannot give what was required: {what} ({instead})")]
    Requirement { what: String, instead: String },
    #[error("{path} cannot be given to the sandbox: {reason}")]
    Mount { path: String, reason: String },
    #[error("could not {step}")]
    Host { step: String, source: std::io::Error },
    #[error("the inside of the sandbox could not be built: {step}")]
    Inside { step: String, source: std::io::Error },
    #[error("the guest did not come up: {reason}")]
    Guest { reason: String },
    #[error("the host allows no more {limit}")]
    Limit { limit: HostLimit, source: std::io::Error },
}

impl CreateError {
    /// A step of the guest's that failed, in its own words.
    pub fn inside(step: &str, errno: i32) -> CreateError {
        let source = std::io::Error::from_raw_os_error(errno);
        match HostLimit::of_a_mount(&source) {
            Some(limit) => limit.refused(source),
            None => CreateError::Inside { step: step.escape_debug().to_string(), source },
        }
    }

    pub fn hint(&self) -> Option<String> {
        match self {
            CreateError::Unavailable { remedy, .. } => remedy.clone(),
            CreateError::Requirement { .. } => Some(
                "`paddock doctor` says what each backend has on this machine; or leave the demand out".into(),
            ),
            CreateError::Host { source, .. } if source.raw_os_error() == Some(libc::ENOSPC) => {
                Some("the disk is full: free some space, or set PADDOCK_STATE_DIR to another disk".into())
            }
            CreateError::Limit { limit, .. } => Some(limit.hint()),
            _ => None,
        }
    }
}

/// Names the step of the host's own work that failed.
pub(crate) trait HostStep<T> {
    fn host(self, step: impl FnOnce() -> String) -> Result<T, CreateError>;
}

impl<T, E: Into<std::io::Error>> HostStep<T> for Result<T, E> {
    fn host(self, step: impl FnOnce() -> String) -> Result<T, CreateError> {
        self.map_err(|error| CreateError::Host { step: step(), source: error.into() })
    }
}
