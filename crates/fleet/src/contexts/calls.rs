//! One call: from the request to its turn, and into the interpreter.

use super::context::Context;
use super::frame::Frame;
use super::languages::Language;
use super::records::{CallRecord, Part, Turn};
use super::runner::{GRACE, describe};
use super::{DYING, MOST_CONTEXTS, Said};
use crate::audit;
use crate::execs::{ExecRecord, KILLED, TrackedExec, end_exec};
use crate::idempotency::Note;
use crate::live::Live;
use crate::record::now_ms;
use crate::request::{check_directory, invalid, refused, seconds};
use crate::{Actor, Fleet, FleetError, Kind};
use paddock_engine::{Command, Sandbox as Inside};
use paddock_model::ScanReport;
use paddock_model::api::{ExecCause, RunCode, StartExec};
use paddock_records::journal::Journal;
use paddock_settings::check_command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Larger programs belong into a file.
const LARGEST: usize = 4 << 20;
/// The most calls that wait for one context.
const MOST_WAITING: u32 = 100;

type OwnTurn = tokio::sync::OwnedMutexGuard<()>;

impl Fleet {
    /// Returns as soon as the call is noted; its exec tells the rest.
    pub(crate) async fn start_call(
        &self,
        actor: &Actor,
        live: &Arc<Live>,
        request: &RunCode,
        note: Note<'_>,
    ) -> Result<Arc<TrackedExec>, FleetError> {
        check_size(request)?;
        request.cwd.as_deref().map_or(Ok(()), check_directory)?;
        check_command(&["code".into()], &request.env).map_err(refused)?;
        let timeout = match request.timeout_seconds {
            Some(value) => Some(seconds("timeout_seconds", value)?),
            None => live.record().spec.limits.timeout,
        };
        let context = self.context_for(live, request).await?;
        if let (false, Some(cause)) = (context.default, context.end()) {
            return Err(has_ended(&context, &cause));
        }
        let looked_at = (context.language.as_str(), context.cwd.as_deref());
        let scanned = self.scan_code(actor, live, looked_at, request).await?;
        let call = Call { actor: actor.clone(), request: request.clone(), timeout, scanned };
        // A call that need not wait is stored together with its turn.
        let turn = context.turn.clone().try_lock_owned().ok();
        if turn.is_none() && context.waiting.load(Ordering::Relaxed) >= MOST_WAITING {
            return Err(FleetError::new(
                Kind::TooMany { retry_after_seconds: 1 },
                "quota_exceeded",
                format!("{MOST_WAITING} calls wait for context {} already", context.id),
            ));
        }
        let tracked = self.note_call(live, &context, &call, note, turn.is_none())?;
        let (fleet, live) = (self.clone(), live.clone());
        let started = tracked.clone();
        match turn {
            Some(turn) => {
                fleet.hand_over(&live, &context, &tracked, &call).await;
                tokio::spawn(async move { hold(turn, &context, &started).await });
            }
            None => {
                tokio::spawn(async move {
                    context.waiting.fetch_add(1, Ordering::Relaxed);
                    let turn = tokio::select! {
                        turn = context.turn.clone().lock_owned() => Some(turn),
                        () = started.wait() => None,
                    };
                    context.waiting.fetch_sub(1, Ordering::Relaxed);
                    if let Some(turn) = turn {
                        fleet.hand_over(&live, &context, &started, &call).await;
                        hold(turn, &context, &started).await;
                    }
                });
            }
        }
        Ok(tracked)
    }

    async fn context_for(&self, live: &Arc<Live>, request: &RunCode) -> Result<Arc<Context>, FleetError> {
        // The sandbox is woken first, so that contexts from before its sleep are reported as such.
        self.running(live).await?;
        let language = Language::named(request.language.as_deref())?;
        let wanted = request.language.as_deref().map(|_| language.name());
        match &request.context {
            Some(name) => {
                let context = live.contexts.named(name)?;
                context.check_language(wanted)?;
                Ok(context)
            }
            None => {
                let name = language.name();
                if live.contexts.get(name).is_none() {
                    self.check_runner(live, &language).await?;
                }
                let make = || Context::new(name, name, true, None, Default::default());
                let context = live.contexts.get_or_add(name, MOST_CONTEXTS, make)?;
                // A context of another language may have this name.
                context.check_language(Some(name))?;
                Ok(context)
            }
        }
    }

    fn note_call(
        &self,
        live: &Arc<Live>,
        context: &Context,
        call: &Call,
        note: Note<'_>,
        waits: bool,
    ) -> Result<Arc<TrackedExec>, FleetError> {
        let inner = &self.0;
        let number = live.take_exec_number();
        let output_limit = live.record().spec.limits.output;
        let record = ExecRecord {
            number,
            command: format!("run_code {}", context.language),
            started_at_ms: now_ms(),
            ended_at_ms: None,
            exit_code: None,
            cause: None,
            timeout_ms: call.timeout.map(|timeout| timeout.as_millis() as u64),
            output_limit,
            terminal: false,
            token: call.actor.token.clone(),
            part: Part::Call(Box::new(CallRecord { context: context.id.clone(), ..CallRecord::default() })),
            scanned: call.scanned.clone(),
            lengths: None,
            key: note.key(),
        };
        let directory = live.directory.join("execs").join(number.to_string());
        let failed = |error| FleetError::storage(&error);
        let journal = Journal::open(&directory, output_limit).map_err(failed)?;
        let said = Said::open(&directory).map_err(failed)?;
        let shown = StartExec {
            env: call.request.env.clone(),
            stdin: call.request.stdin.clone(),
            ..StartExec::default()
        };
        let audited = Command {
            argv: vec!["run_code".into(), context.language.clone(), context.id.clone()],
            env: Default::default(),
            cwd: call.request.cwd.clone(),
            user: live.record().spec.user.clone(),
            ..Command::default()
        };
        audit::exec_started(inner, &call.actor, live, number, &audited, &shown, Some(&call.request));
        if waits {
            inner.save_exec(&live.id, &record)?;
        }
        note.write(&number)?;
        let tracked = Arc::new(TrackedExec::new(&live.id, record, journal).with_said(said));
        live.add_exec(tracked.clone());
        live.touch();
        inner.counters.execs.fetch_add(1, Ordering::Relaxed);
        inner.tell(live, "exec_started", Some(number.to_string()));
        Ok(tracked)
    }

    /// The call's turn has come: hands it to the interpreter, which is started if there is none.
    async fn hand_over(
        &self,
        live: &Arc<Live>,
        context: &Arc<Context>,
        tracked: &Arc<TrackedExec>,
        call: &Call,
    ) {
        if !tracked.runs() {
            return;
        }
        if let Err(error) = self.try_hand_over(live, context, tracked, call).await {
            let detail = error.to_string();
            tracked.close();
            end_exec(&self.0, live, tracked, ExecCause::NotStarted { detail }, KILLED);
        }
    }

    async fn try_hand_over(
        &self,
        live: &Arc<Live>,
        context: &Arc<Context>,
        tracked: &Arc<TrackedExec>,
        call: &Call,
    ) -> Result<(), FleetError> {
        let inside = self.running(live).await?;
        let (runner, restarted) = self.runner_for(&call.actor, live, context, &inside).await?;
        let nonce = format!("{:016x}", paddock_engine::random()?);
        let bytes = call.frame(&nonce).encode();
        let mut guard = runner.input.clone().lock_owned().await;
        let (log_stdout, log_stderr) = runner.journal.lengths();
        let record = {
            let mut record = tracked.record();
            if let Part::Call(part) = &mut record.part {
                part.restarted = restarted;
                part.turn = Some(Turn {
                    runner: runner.number(),
                    nonce: nonce.clone(),
                    at: context.consumed(),
                    log_stdout,
                    log_stderr,
                    input: guard.offset,
                    input_length: bytes.len() as u64,
                });
            }
            record.clone()
        };
        self.0.save_exec(&live.id, &record)?;
        context.begin(tracked.clone(), nonce);
        // The interpreter died meanwhile, and reported nothing of this call.
        if !runner.runs() {
            context.release_if(tracked.number());
            let cause = context.end().unwrap_or(ExecCause::SandboxEnded);
            return Err(has_ended(context, &cause));
        }
        inside.set_alarm(runner.number(), tracked.number(), call.timeout, GRACE);
        let Some(input) = guard.input.clone() else {
            context.release_if(tracked.number());
            return Err(has_ended(context, &ExecCause::SandboxEnded));
        };
        let tracked = tracked.clone();
        // The interpreter takes in a large program as it reads it; this does not wait for that.
        tokio::spawn(async move {
            tokio::select! {
                biased;
                _ = input.write(&bytes) => {}
                () = tracked.wait() => {}
            }
            guard.offset += bytes.len() as u64;
        });
        Ok(())
    }

    /// The context's interpreter. A default context without one gets a new one; also returns how the one before ended.
    async fn runner_for(
        &self,
        actor: &Actor,
        live: &Arc<Live>,
        context: &Arc<Context>,
        inside: &Inside,
    ) -> Result<(Arc<TrackedExec>, Option<ExecCause>), FleetError> {
        let _one = context.starting.lock().await;
        if let Some(runner) = context.living_runner() {
            if !runner.was_killed() {
                return Ok((runner, None));
            }
            // It is being ended, and its last output does not belong to the next call.
            let _ = tokio::time::timeout(DYING, runner.wait()).await;
        }
        let before = context.end();
        match &before {
            Some(cause) if !context.default => Err(has_ended(context, cause)),
            _ => Ok((self.start_runner(actor, live, context, inside).await?, before)),
        }
    }

    /// Interrupts the call, and ends its interpreter if that does not help. A call that still waits just ends.
    pub(crate) async fn kill_call(&self, live: &Arc<Live>, tracked: &Arc<TrackedExec>, part: &CallRecord) {
        tracked.mark_killed();
        let context = live.contexts.get(&part.context);
        let runs = context
            .as_ref()
            .and_then(|context| context.current())
            .is_some_and(|call| Arc::ptr_eq(&call, tracked));
        match (&part.turn, live.running()) {
            // The same as if its time were over.
            (Some(turn), Some(inside)) if runs => {
                inside.set_alarm(turn.runner, tracked.number(), Some(Duration::ZERO), GRACE);
            }
            _ => {
                tracked.close();
                end_exec(&self.0, live, tracked, ExecCause::Killed, KILLED);
            }
        }
    }
}

struct Call {
    actor: Actor,
    request: RunCode,
    timeout: Option<Duration>,
    scanned: ScanReport,
}

impl Call {
    fn frame(&self, nonce: &str) -> Frame {
        let request = &self.request;
        let mut frame = Frame::new("run").with("call", nonce).with("code", request.code.as_str());
        if let Some(cwd) = &request.cwd {
            frame = frame.with("cwd", cwd.as_str());
        }
        if let Some(stdin) = &request.stdin {
            frame = frame.with("stdin", stdin.as_str());
        }
        for (name, value) in &request.env {
            frame = frame.with("env", format!("{name}={value}"));
        }
        frame
    }
}

/// Keeps the turn until the call has ended.
pub async fn hold(turn: OwnTurn, context: &Context, tracked: &TrackedExec) {
    tracked.wait().await;
    context.release_if(tracked.number());
    drop(turn);
}

fn check_size(request: &RunCode) -> Result<(), FleetError> {
    let stdin = request.stdin.as_ref().map_or(0, String::len);
    for (what, length) in [("code", request.code.len()), ("stdin", stdin)] {
        if length > LARGEST {
            return Err(invalid(format!("{what} of {length} bytes is more than {LARGEST}"))
                .hint("write it to a file and read that"));
        }
    }
    if request.stream && request.background {
        return Err(invalid("both `stream` and `background` are given").hint("give one of them"));
    }
    Ok(())
}

fn has_ended(context: &Context, cause: &ExecCause) -> FleetError {
    let code = context.runner().and_then(|tracked| tracked.record().exit_code).unwrap_or(KILLED);
    let message = format!("context {} has ended: {}", context.id, describe(cause, code));
    FleetError::new(Kind::Conflict, "context_ended", message)
        .hint("restart it, which begins with nothing remembered, or make another")
}
