//! The contexts that a new server finds, and how one goes on after a lost connection.

use super::calls::hold;
use super::context::Context;
use super::records::{Part, Position};
use super::runner::{Runner, run};
use crate::execs::{KILLED, TrackedExec, end_exec};
use crate::idempotency::RequestKey;
use crate::live::Live;
use crate::{Fleet, Inner};
use paddock_engine::ResumedExec;
use paddock_model::api::{ExecCause, StreamName};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Live {
    /// Restores contexts from the records alone, before the guest is asked.
    pub(crate) fn restore_contexts(&self) {
        let execs = self.execs();
        let mut newest = BTreeMap::new();
        for tracked in &execs {
            if let Part::Runner(part) = &tracked.record().part {
                newest.insert(part.context.clone(), (tracked.clone(), part.clone()));
            }
        }
        for (name, (runner, part)) in newest {
            if part.deleted {
                continue;
            }
            let context = Context::new(&name, &part.language, part.default, part.cwd, part.env);
            context.restore(runner.clone(), consumed(&runner, &execs));
            self.contexts.put(context);
        }
    }
}

/// The bytes that were taken from an interpreter's streams: up to its last call, by that call, and after it.
fn consumed(runner: &TrackedExec, execs: &[Arc<TrackedExec>]) -> Position {
    let (log_stdout, log_stderr) = runner.journal.lengths();
    match last_call(runner.number(), execs) {
        None => Position { stdout: log_stdout, stderr: log_stderr, control: 0 },
        Some((call, turn)) => {
            let (stdout, stderr) = call.journal.lengths();
            let said = call.said.as_ref().map_or(0, |said| said.consumed());
            Position {
                stdout: turn.at.stdout + stdout + log_stdout.saturating_sub(turn.log_stdout),
                stderr: turn.at.stderr + stderr + log_stderr.saturating_sub(turn.log_stderr),
                control: turn.at.control + said,
            }
        }
    }
}

/// The last call that was handed to this interpreter.
pub fn last_call_of(runner: u32, execs: &[Arc<TrackedExec>]) -> Option<Arc<TrackedExec>> {
    last_call(runner, execs).map(|(call, _)| call)
}

fn last_call(runner: u32, execs: &[Arc<TrackedExec>]) -> Option<(Arc<TrackedExec>, super::records::Turn)> {
    execs.iter().rev().find_map(|tracked| match &tracked.record().part {
        Part::Call(part) => {
            part.turn.clone().filter(|turn| turn.runner == runner).map(|turn| (tracked.clone(), turn))
        }
        _ => None,
    })
}

impl Fleet {
    /// Goes on with an interpreter that the guest still knows.
    pub(crate) async fn resume_runner(&self, live: &Arc<Live>, tracked: Arc<TrackedExec>, exec: ResumedExec) {
        let inner = &self.0;
        let Some(context) = live.contexts.of_runner(tracked.number()) else {
            // The interpreter of a deleted context, or of one before a restart: no call needs it any more.
            tokio::spawn(crate::execs::pump(inner.clone(), live.clone(), tracked, exec.exec));
            return;
        };
        {
            let mut guard = tracked.input.lock().await;
            guard.offset = exec.stdin;
            guard.input = exec.stdin_open.then(|| exec.exec.input());
        }
        let runner = Runner { inner, live, context: &context, tracked: &tracked };
        if let Some((call, turn)) = last_call(tracked.number(), &live.execs())
            && call.runs()
        {
            if context.current().is_none() {
                restore_call(&runner, call, &turn, exec.stdin);
            } else if exec.stdin < turn.input + turn.input_length {
                runner.broken("the connection was lost while the code was being handed over");
            }
        }
        skip_lost(&context, &tracked, &exec);
        tokio::spawn(run(inner.clone(), live.clone(), context, tracked, exec.exec));
    }

    /// An interpreter that the guest does not know.
    pub(crate) fn end_runner(
        &self,
        live: &Live,
        context: &Context,
        tracked: &Arc<TrackedExec>,
        cause: ExecCause,
    ) {
        Runner { inner: &self.0, live, context, tracked }.ended(cause, KILLED);
    }

    /// Ends calls whose interpreter the guest does not know, and calls that were never handed over.
    pub(crate) fn end_lost_calls(&self, live: &Arc<Live>) {
        for tracked in live.execs().into_iter().filter(|tracked| tracked.runs()) {
            let Part::Call(part) = tracked.record().part.clone() else { continue };
            let context = live.contexts.get(&part.context);
            let current = context.as_ref().and_then(|context| context.current());
            if current.is_some_and(|current| Arc::ptr_eq(&current, &tracked)) {
                continue;
            }
            end_unstarted(&self.0, live, &tracked, "the server was killed before the code was started");
        }
    }
}

/// A call that ran when a server was killed: it goes on, unless it did not reach the interpreter whole.
fn restore_call(runner: &Runner<'_>, call: Arc<TrackedExec>, turn: &super::records::Turn, received: u64) {
    let context = runner.context;
    if received <= turn.input {
        return end_unstarted(
            runner.inner,
            runner.live,
            &call,
            "the server was killed before the code was started",
        );
    }
    if received < turn.input + turn.input_length {
        // Half a call is not run, and neither are the bytes that would follow it in the same stream.
        let why = "the server was killed while the code was being handed over";
        end_unstarted(runner.inner, runner.live, &call, why);
        return runner.broken(why);
    }
    let name = context.id.clone();
    context.begin(call.clone(), turn.nonce.clone());
    if let (Ok(own), Some(context)) = (context.turn.clone().try_lock_owned(), runner.live.contexts.get(&name))
    {
        let call = call.clone();
        tokio::spawn(async move { hold(own, &context, &call).await });
    }
    let said = call.said.as_ref().map(|said| said.bytes());
    match said {
        Some(Ok(Some(bytes))) => match context.hear(&bytes) {
            Ok(Some(finished)) => runner.finished(finished),
            Ok(None) => {}
            Err(_) => runner.broken("what its runner had said cannot be read"),
        },
        _ => runner.broken("what its runner had said was not kept"),
    }
}

/// A caller that repeats its request with the same key has it done: see docs/decisions/0017-unfinished-requests.md.
pub fn end_unstarted(inner: &Inner, live: &Live, tracked: &Arc<TrackedExec>, why: &str) {
    tracked.close();
    end_exec(inner, live, tracked, ExecCause::NotStarted { detail: why.into() }, KILLED);
    let key = tracked.record().key.clone();
    if let Some(RequestKey { tenant, key }) = key
        && let Err(error) = inner.store.forget_key(&tenant, &format!("exec {}", live.id), &key)
    {
        tracing::error!(sandbox = %live.id, exec = tracked.number(), %error, "its idempotency key could not be freed");
    }
}

/// Counts bytes that were acknowledged but could not be kept on a full disk: offsets stay true, and the gap is shown.
fn skip_lost(context: &Context, runner: &Arc<TrackedExec>, exec: &ResumedExec) {
    let tracked = context.current().unwrap_or_else(|| runner.clone());
    let kept = context.consumed();
    for (stream, lost) in [
        (StreamName::Stdout, exec.stdout.saturating_sub(kept.stdout)),
        (StreamName::Stderr, exec.stderr.saturating_sub(kept.stderr)),
    ] {
        if let Err(error) = tracked.journal.skip(stream, lost) {
            tracing::warn!(exec = tracked.number(), %error, "lost output could not be counted");
        }
    }
    context.took(|position| {
        position.stdout = position.stdout.max(exec.stdout);
        position.stderr = position.stderr.max(exec.stderr);
        position.control = position.control.max(exec.control);
    });
}
