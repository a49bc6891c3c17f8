//! One live sandbox.

use crate::begun::Begun;
use crate::disk::Disk;
use crate::door::Door;
use crate::error::EngineError;
use crate::exec::{Command, Exec, Newcomer};
use crate::file_error::FileError;
use crate::files::Files;
use crate::link::{Greeting, Layers, Link};
use crate::port::{self, PortStream};
use crate::tool::Place;
use paddock_backends::{
    BegunLiveFork, CreateError, Fence, FenceUsage, Handover, Interpreter, Kept, PausedVm, Shortage,
};
use paddock_model::{Guarantees, Isolation, LandlockLevel, Limits, PauseKind, SandboxId, Spec, Usage, User};
use paddock_protocol::{FrameError, OLDEST, ToGuest, VERSION, WindowSize, WorkUsage};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A guest that is not ready by then never will be.
const GREETING_TIMEOUT: Duration = Duration::from_secs(20);
/// The longest wait for the guest's report of its use, when it is ended by force.
const LAST_WORDS: Duration = Duration::from_millis(250);
/// A live guest answers a simple question at once; after this time it counts as lost.
const ANSWER: Duration = Duration::from_secs(10);
/// A file is sent in pieces that fit a frame.
const FILE_PIECE: usize = 512 * 1024;

pub struct Sandbox {
    pub id: SandboxId,
    pub guarantees: Guarantees,
    /// `None` once the engine has released it.
    fence: Arc<Mutex<Option<Box<dyn Fence>>>>,
    pub(crate) link: Link,
    started: Instant,
    ready: bool,
    ready_at: u64,
    pub(crate) door: Door,
    /// The root of its image, held open so that it cannot be removed meanwhile.
    _root: Option<std::fs::File>,
    why_no_live_fork: OnceLock<Option<String>>,
    /// True once the guest has the way into the work's cgroups.
    limited: AtomicBool,
}

/// The counts at the end.
pub struct Ended {
    pub usage: Usage,
    /// True if the kernel killed a process inside for lack of memory.
    pub out_of_memory: bool,
    /// The limit that ended the guest, if one did.
    pub lost_to: Option<Shortage>,
}

fn hold_fence(fence: Option<&dyn Fence>) -> std::io::Result<FenceUsage> {
    fence.map_or_else(|| Ok(FenceUsage::default()), Fence::hold)
}

impl Sandbox {
    pub(crate) fn new(
        id: SandboxId,
        guarantees: Guarantees,
        fence: Box<dyn Fence>,
        link: Link,
        network: Option<Handover>,
        started: Instant,
    ) -> Sandbox {
        let fence = Arc::new(Mutex::new(Some(fence)));
        let door = Door::new(network);
        Sandbox {
            id,
            guarantees,
            fence,
            link,
            started,
            ready: false,
            ready_at: 0,
            door,
            _root: None,
            why_no_live_fork: OnceLock::new(),
            limited: AtomicBool::new(false),
        }
    }

    /// A sandbox over a fence that has just begun: its guest is still coming up.
    ///
    /// Precondition: called on a tokio runtime, on which the conversation with the guest then runs.
    pub fn start(id: SandboxId, begun: Begun) -> Result<Sandbox, EngineError> {
        let Begun { fence, stream, network, guarantees, started, root, awaited: _ } = begun;
        let sandbox = Sandbox::new(id, guarantees, fence, Link::over(stream)?, network, started);
        Ok(Sandbox { _root: root, ..sandbox })
    }

    pub fn taken_over(
        id: SandboxId,
        guarantees: Guarantees,
        fence: Box<dyn Fence>,
        link: Link,
        network: Option<Handover>,
        started: Instant,
        ready_at: u64,
    ) -> Sandbox {
        let sandbox = Sandbox::new(id, guarantees, fence, link, network, started);
        Sandbox { ready: true, ready_at, ..sandbox }
    }

    /// Waits until the inside is built. Earlier requests to the sandbox are done then, in order.
    pub async fn ready(&mut self) -> Result<(), EngineError> {
        if self.ready {
            return Ok(());
        }
        let greeting = tokio::time::timeout(GREETING_TIMEOUT, self.link.greeting()).await;
        match greeting {
            Ok(Ok(layers)) => {
                self.ready = true;
                self.ready_at = layers.ready_at;
                self.correct_guarantees(layers);
                Ok(())
            }
            Ok(Err(Greeting::Failed { step, errno })) => Err(CreateError::inside(&step, errno).into()),
            Ok(Err(Greeting::Version(version))) => {
                let reason = format!(
                    "it speaks version {version} of the protocol, and this paddock {OLDEST} to {VERSION}"
                );
                Err(CreateError::Guest { reason }.into())
            }
            Ok(Err(Greeting::Lost(reason))) => {
                let why = self.fence().as_mut().and_then(|fence| fence.why_not_started());
                Err(why.unwrap_or(CreateError::Guest { reason }).into())
            }
            Err(_) => {
                let reason = format!("it said nothing for {} seconds", GREETING_TIMEOUT.as_secs());
                Err(CreateError::Guest { reason }.into())
            }
        }
    }

    /// The guarantees were derived from the host; the guest knows the layers that it really has.
    fn correct_guarantees(&mut self, layers: Layers) {
        if self.guarantees.landlock_abi.0 != layers.landlock_abi {
            self.guarantees.landlock_abi = LandlockLevel(layers.landlock_abi);
            let weakness =
                format!("Landlock is at ABI {} here, less than the kernel has", layers.landlock_abi);
            self.guarantees.weaknesses.push(weakness);
        }
        if self.guarantees.time_namespace == Isolation::On && !layers.time_namespace {
            self.guarantees.time_namespace = Isolation::Absent;
            let weakness = "the host's uptime can be seen: clocks of its own could not be made".to_string();
            self.guarantees.weaknesses.push(weakness);
        }
        if layers.shares_system {
            self.guarantees.system_inodes = Isolation::Absent;
            let weakness = "files of the host's /usr or /etc have the host's own inodes here: inotify tells the code inside when anybody opens a \
                            program of the host, and locks on its files are shared with the host and with other sandboxes; \
                            an image has neither"
                .to_string();
            self.guarantees.weaknesses.push(weakness);
        }
    }

    pub fn exec(&self, command: Command) -> Result<Exec, EngineError> {
        Exec::start(&self.link, command).map_err(unsent)
    }

    /// Starts one of many execs, under a number below 2^29 that the caller has noted: if it is requested twice, it is
    /// started once.
    ///
    /// The request is with the kernel when this returns: the guest gets it even if this engine is killed then.
    pub async fn exec_numbered(&self, number: u32, command: Command) -> Result<Exec, EngineError> {
        self.limit_work().await?;
        let exec = Exec::start_numbered(&self.link, number, command).map_err(unsent)?;
        self.link.flushed().await;
        Ok(exec)
    }

    /// Before the first command: the guest gets the way into the work's cgroups, in front of every command.
    async fn limit_work(&self) -> Result<(), EngineError> {
        if self.limited.load(Ordering::Acquire) {
            return Ok(());
        }
        let (fence, link) = (self.fence.clone(), self.link.clone());
        let limited = tokio::task::spawn_blocking(move || {
            // Held until the message is on its way: a command that finds the work limited comes behind it.
            let mut guard = fence.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(entrances) = guard.as_mut().map(|fence| fence.limit_work()).transpose()?.flatten()
            else {
                return Ok(());
            };
            let message = ToGuest::Cgroups { descriptors: entrances.len() };
            let sent = link.send_passing(&message, entrances.into_iter().map(Into::into).collect());
            sent.map_err(|error| EngineError::Lost { detail: error.to_string() })
        });
        let lost = |error: tokio::task::JoinError| EngineError::Lost { detail: error.to_string() };
        limited.await.map_err(lost)??;
        self.limited.store(true, Ordering::Release);
        Ok(())
    }

    /// Takes in a process that came from outside, under a number as in `exec_numbered`. The guest checks it and reports
    /// the result.
    pub fn take_in(&self, number: u32, newcomer: Newcomer) -> Result<Exec, EngineError> {
        Exec::take_in(&self.link, number, newcomer).map_err(unsent)
    }

    /// The end of the exec is noted; the guest need not remember it.
    pub fn forget(&self, number: u32) {
        self.link.ignore(number);
        let _ = self.link.send(&ToGuest::Forget { exec: number });
    }

    /// Ends the exec, its process group and its session.
    pub fn kill_exec(&self, number: u32) {
        let _ = self.link.send(&ToGuest::Kill { exec: number });
    }

    /// Sends a signal to the exec's process group.
    pub fn signal_exec(&self, number: u32, signal: i32) {
        let _ = self.link.send(&ToGuest::Signal { exec: number, signal });
    }

    /// Interrupts the exec's process group after this time, and ends it `grace` later; `None`: never. For an exec with
    /// a control stream, and for the call that it works on.
    pub fn set_alarm(&self, number: u32, call: u32, after: Option<Duration>, grace: Duration) {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let message = ToGuest::Alarm { exec: number, call, ms: after.map(ms), grace_ms: ms(grace) };
        let _ = self.link.send(&message);
    }

    pub fn resize_exec(&self, number: u32, size: WindowSize) {
        let _ = self.link.send(&ToGuest::Resize { exec: number, size });
    }

    /// The guest's own backstop: the sandbox ends by itself after this time, if the engine has not ended it. `None`:
    /// never.
    pub fn set_deadline(&self, left: Option<Duration>) {
        let ms = left.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
        let _ = self.link.send(&ToGuest::Deadline { ms });
    }

    /// Changes the limits of memory, processors and processes from now on, and of open files for new execs; or keeps
    /// the old limits. Unchanged limits are written again.
    pub async fn change_limits(&self, old: &Limits, new: &Limits) -> std::io::Result<()> {
        let (fence, before, after) = (self.fence.clone(), old.clone(), new.clone());
        let changed = tokio::task::spawn_blocking(move || {
            let guard = fence.lock().unwrap_or_else(PoisonError::into_inner);
            let fence = guard.as_ref().ok_or(std::io::ErrorKind::NotConnected)?;
            fence.change_limits(&before, &after)
        });
        changed.await.map_err(std::io::Error::other)??;
        let limits =
            ToGuest::Limits { pids: new.pids.into(), files: new.files.into(), memory: Some(new.memory) };
        self.link.send(&limits).map_err(std::io::Error::other)
    }

    /// Stops all work where it stands, or lets it go on. The guest is told first and last: it starts no exec in
    /// between, and its clocks stand still with the work.
    pub async fn freeze(&self, on: bool) -> Result<(), EngineError> {
        let signals = self.guarantees.pause == PauseKind::StopSignals;
        if on {
            self.tell_frozen(on, signals).await?;
        }
        if !signals {
            let fence = self.fence.clone();
            let frozen = tokio::task::spawn_blocking(move || {
                let guard = fence.lock().unwrap_or_else(PoisonError::into_inner);
                guard.as_ref().map(|fence| if on { fence.freeze() } else { fence.thaw() })
            });
            let failed = |source: std::io::Error| EngineError::Freeze { source };
            match frozen.await.map_err(|error| failed(std::io::Error::other(error)))? {
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    self.tell_frozen(false, signals).await?;
                    return Err(failed(error));
                }
                None => return Err(EngineError::Lost { detail: "it was let go of".into() }),
            }
        }
        if on { Ok(()) } else { self.tell_frozen(on, signals).await }
    }

    /// Keeps all work from going on. `waiting` tasks are known to wait, and stay so. If there are other tasks, which
    /// may run by themselves, everything is frozen. Returns true if it was frozen. Afterwards [`Sandbox::go_on`] must
    /// be called.
    pub async fn hold_still(&self, waiting: usize) -> Result<bool, EngineError> {
        // From here on no exec is begun.
        self.tell_frozen(true, false).await?;
        if self.usage().processes == Some(waiting as u64) {
            return Ok(false);
        }
        self.freeze(true).await?;
        Ok(true)
    }

    /// `frozen`: the result of [`Sandbox::hold_still`].
    pub async fn go_on(&self, frozen: bool) -> Result<(), EngineError> {
        if frozen { self.freeze(false).await } else { self.tell_frozen(false, false).await }
    }

    async fn tell_frozen(&self, on: bool, signals: bool) -> Result<(), EngineError> {
        let request = self.link.next_number();
        let message = ToGuest::Freeze { request, on, signals };
        match tokio::time::timeout(ANSWER, self.link.ask(request, &message)).await {
            Ok(Some(0)) => Ok(()),
            Ok(Some(errno)) => Err(EngineError::Freeze { source: std::io::Error::from_raw_os_error(errno) }),
            Ok(None) | Err(_) => {
                Err(EngineError::Lost { detail: "while it was being paused or resumed".into() })
            }
        }
    }

    /// File operations as `user` (the sandbox's own, if the spec says so), with relative paths below `cwd`.
    pub fn files(&self, user: User, cwd: Option<&str>) -> Files {
        Files::new(self.link.clone(), Place { user, cwd: cwd.map(String::from) })
    }

    /// The changes of the sandbox, apart from its image.
    pub fn disk(&self) -> Disk {
        Disk::new(self.link.clone())
    }

    /// A connection to a port inside; an error of kind `PortClosed` if no process listens.
    pub async fn connect(&self, port: u16) -> Result<PortStream, FileError> {
        port::connect(&self.link, port).await
    }

    /// Waits until the conversation with the guest has ended, and returns the reason. Its work may go on.
    pub fn lost(&self) -> impl Future<Output = String> + Send + use<> {
        let link = self.link.clone();
        async move { link.lost().await }
    }

    /// True if the conversation with the guest has ended.
    pub fn is_lost(&self) -> bool {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        std::pin::pin!(self.link.lost()).poll(&mut context).is_ready()
    }

    /// The time at which its inside was built, in nanoseconds since 1970 by the clock that stamps files; 0 for a
    /// sandbox that does not outlive its engine.
    pub fn ready_at(&self) -> u64 {
        self.ready_at
    }

    /// The kernel's counts so far.
    pub fn usage(&self) -> FenceUsage {
        self.fence().as_ref().and_then(|fence| fence.usage().ok()).unwrap_or_default()
    }

    /// The part of its memory that is the kernel's cache of files.
    pub fn page_cache(&self) -> Option<u64> {
        self.fence().as_ref().and_then(|fence| fence.page_cache())
    }

    /// The number of processes that the kernel killed for lack of memory.
    pub fn memory_kills(&self) -> u64 {
        self.fence().as_ref().map_or(0, |fence| fence.memory_kills())
    }

    /// True if the guest itself is gone, not only the connection to it. Waits up to 300 ms for that.
    pub fn guest_has_ended(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let guard = self.fence();
        let Some(ended) = guard.as_ref().and_then(|fence| fence.ended()) else { return true };
        // The guest closes its streams a moment before it is gone.
        let moment = Timespec { tv_sec: 0, tv_nsec: 300_000_000 };
        matches!(poll(&mut [PollFd::new(&ended, PollFlags::IN)], Some(&moment)), Ok(1..))
    }

    /// Makes the guest close its connection to this engine and wait for the next. The fence stays with this one.
    pub async fn part(&self) -> Result<(), EngineError> {
        match tokio::time::timeout(ANSWER, self.link.part()).await {
            Ok(()) => Ok(()),
            Err(_) => Err(EngineError::Lost { detail: "it did not let go of the connection".into() }),
        }
    }

    /// Keeps the memory of everything inside, and stops it there. Blocks.
    ///
    /// Precondition: the guest has closed its connection to this engine.
    pub fn keep_memory(&self, directory: &Path) -> std::io::Result<Box<dyn Kept>> {
        let guard = self.fence();
        guard.as_ref().ok_or(std::io::ErrorKind::NotConnected)?.keep_memory(directory)
    }

    /// Stops everything inside, so that other sandboxes can be copied from it. Blocks.
    ///
    /// Precondition: the guest has closed its connection to this engine; the spec is its own.
    pub fn pause_for_copies(&self, spec: &Spec) -> Result<Box<dyn PausedVm>, EngineError> {
        let gone = || CreateError::Guest { reason: "it has ended".into() };
        Ok(self.fence().as_ref().ok_or_else(gone)?.pause_for_copies(spec)?)
    }

    /// Why no interpreter at all can be forked live out of it.
    pub async fn why_no_live_fork(&self) -> Option<String> {
        // The answer stays the same as long as the sandbox lives.
        if let Some(known) = self.why_no_live_fork.get() {
            return known.clone();
        }
        let fence = self.fence.clone();
        let asked = tokio::task::spawn_blocking(move || {
            let guard = fence.lock().unwrap_or_else(PoisonError::into_inner);
            guard.as_ref().map(|fence| fence.why_no_live_fork())
        });
        match asked.await {
            Ok(Some(found)) => self.why_no_live_fork.get_or_init(|| found).clone(),
            Ok(None) => Some("it was let go of".into()),
            Err(error) => Some(error.to_string()),
        }
    }

    /// The place of an exec's process.
    pub async fn describe(&self, exec: u32) -> Result<Interpreter, EngineError> {
        let lost = || EngineError::Lost { detail: "while it was asked for a process".into() };
        tokio::time::timeout(ANSWER, self.link.describe(exec)).await.ok().flatten().ok_or_else(lost)
    }

    /// Other sandboxes nest in this one from now on: the end of its work does not end them.
    pub fn shelter(&self) {
        let _ = self.link.send(&ToGuest::Shelter);
    }

    /// The first piece of a sandbox that nests in this one, and the way of interpreters into it. Blocks for a moment.
    pub(crate) fn begin_live_fork(
        &self,
        id: &SandboxId,
        spec: &Spec,
        interpreters: usize,
    ) -> Result<BegunLiveFork, EngineError> {
        let site = {
            let guard = self.fence();
            let fence =
                guard.as_ref().ok_or_else(|| EngineError::Lost { detail: "it was let go of".into() })?;
            fence.live_forks(spec)?
        };
        // The lock on the fence is free again, because several forks are made at the same time.
        Ok(site.begin(id, spec, interpreters)?)
    }

    /// Ends all of it except the parts that other sandboxes nest in. Returns the kernel's counts.
    pub async fn hold(&self) -> Result<FenceUsage, EngineError> {
        self.close_gate();
        let request = self.link.next_number();
        let told = tokio::time::timeout(ANSWER, self.link.ask(request, &ToGuest::Hold { request })).await;
        if !matches!(told, Ok(Some(0))) {
            return Err(EngineError::Lost { detail: "while it was being ended".into() });
        }
        let fence = self.fence.clone();
        let held = tokio::task::spawn_blocking(move || {
            let guard = fence.lock().unwrap_or_else(PoisonError::into_inner);
            hold_fence(guard.as_deref())
        });
        let failed = |source: std::io::Error| EngineError::Freeze { source };
        let held = held.await.map_err(|error| failed(std::io::Error::other(error)))?;
        self.end_gate();
        held.map_err(failed)
    }

    /// As [`Sandbox::hold`], for a sandbox whose guest has closed its connection to this engine. Blocks.
    ///
    /// Precondition: the guest around the VM stays when the work ends.
    pub fn hold_parted(&self) -> std::io::Result<FenceUsage> {
        hold_fence(self.fence().as_deref())
    }

    /// Ends all of it except the parts that other sandboxes nest in; they have the new name from then on. Blocks.
    ///
    /// Precondition: its memory is kept, and nothing runs in it.
    pub fn become_shell(&self, name: &SandboxId) -> std::io::Result<FenceUsage> {
        self.close_gate();
        let became = match self.fence().as_mut() {
            Some(fence) => fence.become_shell(name),
            None => Ok(FenceUsage::default()),
        };
        self.end_gate();
        became
    }

    /// Releases a sandbox that goes on without this engine.
    pub fn leave(&self) {
        self.close_gate();
        if let Some(fence) = self.fence().take() {
            fence.leave();
        }
        self.link.close();
    }

    /// Makes the kernel end everything inside; [`Sandbox::destroy`] waits for that and removes the rest.
    pub fn kill(&self) -> std::io::Result<()> {
        self.fence().as_mut().map_or(Ok(()), |fence| fence.kill())
    }

    /// Ends everything inside and removes every trace; returns the kernel's counts. Blocks for a moment.
    pub fn destroy(&self) -> std::io::Result<FenceUsage> {
        self.close_gate();
        let fence = self.fence().take();
        let destroyed = fence.map_or_else(|| Ok(FenceUsage::default()), |mut fence| fence.destroy());
        self.end_gate();
        destroyed
    }

    fn fence(&self) -> MutexGuard<'_, Option<Box<dyn Fence>>> {
        self.fence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new file inside, owned by the work's user. The guest writes it; no path is resolved out here.
    pub async fn write_file(&self, path: &str, mode: u32, content: &[u8]) -> Result<(), EngineError> {
        let mut append = false;
        let mut rest = content;
        loop {
            let (piece, after) = rest.split_at(rest.len().min(FILE_PIECE));
            let request = self.link.next_number();
            let content = serde_bytes::ByteBuf::from(piece);
            let message = ToGuest::WriteFile { request, path: path.into(), mode, append, content };
            match self.link.ask(request, &message).await {
                Some(0) => {}
                Some(errno) => {
                    let source = std::io::Error::from_raw_os_error(errno);
                    return Err(EngineError::File { path: path.into(), source });
                }
                None => return Err(EngineError::Lost { detail: "while a file was being written".into() }),
            }
            if after.is_empty() {
                return Ok(());
            }
            (append, rest) = (true, after);
        }
    }

    /// Kills all work and asks for its use; `None` if the guest has gone or does not answer in time.
    pub async fn stop(&self) -> Option<WorkUsage> {
        tokio::time::timeout(LAST_WORDS, self.link.stop()).await.ok().flatten()
    }

    /// Kills all work, and waits for the guest's confirmation. Its tools can be used as before.
    pub async fn end_work(&self) -> Result<(), EngineError> {
        match tokio::time::timeout(ANSWER, self.link.stop()).await {
            Ok(Some(_)) => Ok(()),
            _ => Err(EngineError::Lost { detail: "it did not end what was left running".into() }),
        }
    }

    /// Ends everything inside and removes every trace. `work`: the guest's report, if it could still give one.
    pub fn end(self, work: Option<WorkUsage>) -> Result<Ended, EngineError> {
        let kernel = self.destroy().map_err(|source| EngineError::Remove { source })?;
        let usage = Usage {
            wall_ms: self.started.elapsed().as_secs_f64() * 1e3,
            cpu_ms: kernel.cpu_ms.or(work.map(|w| w.cpu_us as f64 / 1e3)),
            peak_memory: kernel.peak_memory.or(work.map(|w| w.largest_process)),
            bytes_written: work.map(|w| w.disk_bytes + w.host_bytes),
        };
        Ok(Ended { usage, out_of_memory: kernel.memory_kills > 0, lost_to: kernel.lost_to() })
    }
}

/// The guest goes on as before: it has not seen the message.
fn unsent(error: FrameError) -> EngineError {
    match error {
        FrameError::TooLarge { length, most } => EngineError::CommandTooLarge { length, most },
        error => EngineError::Lost { detail: error.to_string() },
    }
}
