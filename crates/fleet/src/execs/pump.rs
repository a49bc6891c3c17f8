//! An exec's output goes into its journal, and only then is it acknowledged to the guest. Its end goes into the store,
//! and only then are callers told.

use super::tracked::TrackedExec;
use crate::Inner;
use crate::audit;
use crate::live::Live;
use crate::record::now_ms;
use paddock_engine::{Exec, ExecEvent};
use paddock_model::api::{ExecCause, StreamName};
use paddock_protocol::{ExitKind, StreamKind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The exit codes of a shell and of `timeout`.
pub const NOT_FOUND: i32 = 127;
pub const NOT_EXECUTABLE: i32 = 126;
pub const TIMED_OUT: i32 = 124;
pub const KILLED: i32 = 137;
/// The wait before another try with a store that failed.
const STORE_AGAIN: Duration = Duration::from_millis(500);

/// Runs until no process holds the exec's streams any more.
pub async fn pump(inner: Arc<Inner>, live: Arc<Live>, tracked: Arc<TrackedExec>, mut exec: Exec) {
    // A new connection is made only after all bytes of the last one are in the journal.
    let pumping = tracked.pumping.lock().await;
    let mut timed_out = false;
    let kills_before = memory_kills(&live);
    loop {
        match exec.next().await {
            ExecEvent::Started => {}
            ExecEvent::Output { stream, bytes } => {
                let name = match stream {
                    StreamKind::Stderr => StreamName::Stderr,
                    StreamKind::Stdin | StreamKind::Stdout => StreamName::Stdout,
                    // No context listens to it any more.
                    StreamKind::Control => continue,
                };
                inner.counters.output_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                if let Err(error) = tracked.append(name, &bytes) {
                    tracing::warn!(sandbox = %live.id, exec = tracked.number(), %error, "output could not be kept");
                }
                let (stdout, stderr) = tracked.journal.lengths();
                let room = tracked.record().output_limit;
                tracked.followers.keep_up(stdout + stderr, room).await;
            }
            ExecEvent::DeadlinePassed => timed_out = true,
            ExecEvent::Interrupted { .. } => {}
            ExecEvent::MemoryExceeded { .. } => end(&inner, &live, &tracked, ExecCause::OutOfMemory, KILLED),
            ExecEvent::StartFailed { step, errno } => {
                let error = std::io::Error::from_raw_os_error(errno);
                let detail = format!("{}: {error}", step.escape_debug());
                let code = if errno == libc::ENOENT { NOT_FOUND } else { NOT_EXECUTABLE };
                end(&inner, &live, &tracked, ExecCause::NotStarted { detail }, code);
                drop(pumping);
                return forget_when_stored(&inner, &live, &tracked).await;
            }
            ExecEvent::Exited { status, .. } => {
                let (cause, code) = Ending { status, timed_out, kills_before }.cause(&live, &tracked);
                end(&inner, &live, &tracked, cause, code);
            }
            ExecEvent::Closed => {
                tracked.close();
                store_lengths(&inner, &live, &tracked);
                drop(pumping);
                return forget_when_stored(&inner, &live, &tracked).await;
            }
            // The watcher of the sandbox finds out why, and either resumes this exec or ends it.
            ExecEvent::Lost { .. } => return,
        }
    }
}

/// The known facts about an ended process.
pub struct Ending {
    pub status: ExitKind,
    pub timed_out: bool,
    /// The number of kills for lack of memory when it began.
    pub kills_before: Option<u64>,
}

impl Ending {
    pub fn cause(&self, live: &Live, tracked: &TrackedExec) -> (ExecCause, i32) {
        let out_of_memory = self.status == ExitKind::Signaled(libc::SIGKILL)
            && memory_kills(live).is_some_and(|now| Some(now) != self.kills_before);
        match self.status {
            _ if self.timed_out || tracked.was_out_of_time() => {
                let limit_ms = tracked.record().timeout_ms.unwrap_or(0);
                (ExecCause::TimeLimit { limit_ms }, TIMED_OUT)
            }
            _ if out_of_memory => (ExecCause::OutOfMemory, KILLED),
            ExitKind::Signaled(signal) if tracked.was_killed() => (ExecCause::Killed, 128 + signal),
            ExitKind::Signaled(signal) => (ExecCause::Signaled { signal }, 128 + signal),
            ExitKind::Exited(code) => (ExecCause::Exited, code),
        }
    }
}

pub fn end(inner: &Inner, live: &Live, tracked: &Arc<TrackedExec>, cause: ExecCause, code: i32) {
    let Some(record) = tracked.end(cause, code, now_ms()) else { return };
    match inner.save_exec(&live.id, &record) {
        Ok(()) => tracked.mark_stored(),
        Err(error) => {
            let why = "the end of an exec is kept in memory until it can be stored";
            tracing::error!(sandbox = %live.id, exec = record.number, %error, why);
        }
    }
    live.touch();
    audit::exec_ended(inner, live, tracked);
    inner.tell(live, "exec_ended", Some(format!("{} exit {code}", record.number)));
    tracked.announce_end();
}

/// Stores the new lengths of an exec whose descendants printed after its end.
pub fn store_lengths(inner: &Inner, live: &Live, tracked: &TrackedExec) {
    if let Some(record) = tracked.printed_more()
        && let Err(error) = inner.save_exec(&live.id, &record)
    {
        tracing::warn!(sandbox = %live.id, exec = record.number, %error, "how much it printed could not be stored");
    }
}

/// The guest remembers the end until it is in the store: after a kill, the next server finds it there.
pub async fn forget_when_stored(inner: &Arc<Inner>, live: &Arc<Live>, tracked: &TrackedExec) {
    while !tracked.is_stored() {
        tokio::time::sleep(STORE_AGAIN).await;
        if inner.closing.load(Ordering::Relaxed) {
            return;
        }
        let record = tracked.record().clone();
        if inner.save_exec(&live.id, &record).is_ok() {
            tracked.mark_stored();
        }
    }
    if let Some(sandbox) = live.running() {
        sandbox.forget(tracked.number());
    }
}

pub fn memory_kills(live: &Live) -> Option<u64> {
    live.running().map(|sandbox| sandbox.memory_kills())
}
