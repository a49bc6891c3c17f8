//! The process of a context: its output and messages go to the running call, or, between calls, to its own log.

use super::context::{Context, Finished, Released};
use super::forget::forget_old_calls;
use super::languages::Language;
use super::records::{Part, Position, RunnerRecord};
use crate::audit;
use crate::execs::{
    self, Ending, ExecRecord, KILLED, NOT_EXECUTABLE, NOT_FOUND, TIMED_OUT, TrackedExec, end_exec,
    memory_kills,
};
use crate::live::Live;
use crate::record::now_ms;
use crate::request::refused;
use crate::{Actor, Fleet, FleetError, Inner};
use paddock_engine::{Command, Exec, ExecEvent, Input, Sandbox as Inside};
use paddock_model::api::{ExecCause, StartExec, StreamName};
use paddock_protocol::StreamKind;
use paddock_records::journal::Journal;
use paddock_settings::check_command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// An interpreter that ignores an interrupt for this time is ended.
pub const GRACE: Duration = Duration::from_secs(2);
/// The exit code of a shell after Ctrl-C.
const INTERRUPTED: i32 = 130;

impl Fleet {
    /// Returns as soon as the guest has been told; the runner's exec tells the rest.
    ///
    /// Precondition: `context.starting` is held, and no interpreter of it runs.
    pub(super) async fn start_runner(
        &self,
        actor: &Actor,
        live: &Arc<Live>,
        context: &Arc<Context>,
        sandbox: &Inside,
    ) -> Result<Arc<TrackedExec>, FleetError> {
        let inner = &self.0;
        let language = Language::named(Some(&context.language))?;
        self.note_beginning(live, language.is_python());
        let waiting = if language.is_python() { live.take_waiting_interpreter() } else { None };
        let (command, output_limit) = {
            let record = live.record();
            let mut env = record.env.clone();
            env.extend(context.env.clone());
            let command = Command {
                argv: language.argv(),
                env,
                cwd: context.cwd.clone().or_else(|| record.cwd.clone()),
                user: record.spec.user.clone(),
                control: true,
                ..Command::default()
            };
            (command, record.spec.limits.output)
        };
        check_command(&command.argv, &command.env).map_err(refused)?;
        let number =
            waiting.as_ref().map_or_else(|| live.take_exec_number(), |waiting| waiting.exec.number());
        let record = runner_record(actor, context, number, output_limit);
        let directory = live.directory.join("execs").join(number.to_string());
        let journal = Journal::open(&directory, output_limit).map_err(|error| FleetError::storage(&error))?;
        let shown = StartExec { env: context.env.clone(), ..StartExec::default() };
        // The loader is ours, so the audit only names the interpreter.
        let audited = Command { argv: command.argv[..1].to_vec(), ..command.clone() };
        audit::exec_started(inner, actor, live, number, &audited, &shown, None);
        inner.save_exec(&live.id, &record)?;
        let tracked = Arc::new(TrackedExec::new(&live.id, record, journal));
        let said = waiting.as_ref().map_or_else(Position::default, |waiting| waiting.said);
        let exec = match waiting {
            Some(waiting) => {
                let setup = waiting.setup(&command.env, command.cwd.as_deref());
                send_first(&tracked, waiting.exec.input(), waiting.sent, setup).await;
                waiting.exec
            }
            None => match sandbox.exec_numbered(number, command).await {
                Ok(exec) => {
                    send_first(&tracked, exec.input(), 0, language.source()).await;
                    exec
                }
                Err(error) => {
                    let detail = error.to_string();
                    end_exec(inner, live, &tracked, ExecCause::NotStarted { detail }, KILLED);
                    return Err(error.into());
                }
            },
        };
        live.add_exec(tracked.clone());
        live.touch();
        context.restore(tracked.clone(), said);
        inner.tell(live, "context_started", Some(context.id.clone()));
        tokio::spawn(run(inner.clone(), live.clone(), context.clone(), tracked.clone(), exec));
        Ok(tracked)
    }
}

impl Fleet {
    /// Makes an interpreter that already runs in this sandbox the one of a context. It reads `first` before its next
    /// call.
    pub(crate) async fn adopt_runner(
        &self,
        actor: &Actor,
        live: &Arc<Live>,
        context: &Arc<Context>,
        exec: Exec,
        first: Vec<u8>,
    ) -> Result<(), FleetError> {
        let inner = &self.0;
        let number = exec.number();
        let output_limit = live.record().spec.limits.output;
        let record = runner_record(actor, context, number, output_limit);
        let directory = live.directory.join("execs").join(number.to_string());
        let journal = Journal::open(&directory, output_limit).map_err(|error| FleetError::storage(&error))?;
        inner.save_exec(&live.id, &record)?;
        let tracked = Arc::new(TrackedExec::new(&live.id, record, journal));
        send_first(&tracked, exec.input(), 0, first).await;
        live.add_exec(tracked.clone());
        live.contexts.put(context.clone());
        context.restore(tracked.clone(), Position::default());
        inner.tell(live, "context_started", Some(context.id.clone()));
        tokio::spawn(run(inner.clone(), live.clone(), context.clone(), tracked, exec));
        Ok(())
    }
}

fn runner_record(actor: &Actor, context: &Context, number: u32, output_limit: u64) -> ExecRecord {
    ExecRecord {
        number,
        command: format!("context {} ({})", context.id, context.language),
        started_at_ms: now_ms(),
        ended_at_ms: None,
        exit_code: None,
        cause: None,
        timeout_ms: None,
        output_limit,
        terminal: false,
        token: actor.token.clone(),
        part: Part::Runner(RunnerRecord {
            context: context.id.clone(),
            language: context.language.clone(),
            default: context.default,
            cwd: context.cwd.clone(),
            env: context.env.clone(),
            deleted: false,
        }),
        scanned: Default::default(),
        lengths: None,
        key: None,
    }
}

/// Sends the bytes that it reads before its first call, after `sent` earlier bytes. They fit into the window of unread
/// input.
async fn send_first(tracked: &TrackedExec, input: Input, sent: u64, bytes: Vec<u8>) {
    let mut guard = tracked.input.lock().await;
    input.write(&bytes).await;
    guard.offset = sent + bytes.len() as u64;
    guard.input = Some(input);
}

/// Runs until no process holds the interpreter's streams any more.
pub async fn run(
    inner: Arc<Inner>,
    live: Arc<Live>,
    context: Arc<Context>,
    tracked: Arc<TrackedExec>,
    mut exec: Exec,
) {
    let pumping = tracked.pumping.lock().await;
    let kills_before = memory_kills(&live);
    let mut out_of_memory = false;
    let runner = Runner { inner: &inner, live: &live, context: &context, tracked: &tracked };
    loop {
        match exec.next().await {
            ExecEvent::Started | ExecEvent::DeadlinePassed => {}
            ExecEvent::Output { stream: StreamKind::Control, bytes } => runner.hear(&bytes),
            ExecEvent::Output { stream, bytes } => {
                let name = match stream {
                    StreamKind::Stderr => StreamName::Stderr,
                    _ => StreamName::Stdout,
                };
                runner.keep(name, &bytes).await;
            }
            ExecEvent::Interrupted { call } => context.note_timeout(call),
            // It is being killed; its memory is free only once it has gone, and the next one starts after that.
            ExecEvent::MemoryExceeded { .. } => out_of_memory = true,
            ExecEvent::StartFailed { step, errno } => {
                let error = std::io::Error::from_raw_os_error(errno);
                let detail = format!("{}: {error}", step.escape_debug());
                let code = if errno == libc::ENOENT { NOT_FOUND } else { NOT_EXECUTABLE };
                runner.ended(ExecCause::NotStarted { detail }, code);
                drop(pumping);
                return execs::forget_when_stored(&inner, &live, &tracked).await;
            }
            ExecEvent::Exited { status, .. } => {
                let ending = Ending { status, timed_out: false, kills_before };
                let (cause, code) = if out_of_memory {
                    (ExecCause::OutOfMemory, KILLED)
                } else {
                    ending.cause(&live, &tracked)
                };
                runner.ended(cause, code);
            }
            ExecEvent::Closed => {
                tracked.close();
                execs::store_lengths(&inner, &live, &tracked);
                drop(pumping);
                return execs::forget_when_stored(&inner, &live, &tracked).await;
            }
            ExecEvent::Lost { .. } => return,
        }
    }
}

pub struct Runner<'a> {
    pub inner: &'a Inner,
    pub live: &'a Live,
    pub context: &'a Context,
    pub tracked: &'a Arc<TrackedExec>,
}

impl Runner<'_> {
    async fn keep(&self, stream: StreamName, bytes: &[u8]) {
        self.inner.counters.output_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let tracked = self.context.current().unwrap_or_else(|| self.tracked.clone());
        if let Err(error) = tracked.append(stream, bytes) {
            tracing::warn!(sandbox = %self.live.id, exec = tracked.number(), %error, "output could not be kept");
        }
        self.context.took(|position| match stream {
            StreamName::Stdout => position.stdout += bytes.len() as u64,
            StreamName::Stderr => position.stderr += bytes.len() as u64,
        });
        let (stdout, stderr) = tracked.journal.lengths();
        let room = tracked.record().output_limit;
        tracked.followers.keep_up(stdout + stderr, room).await;
    }

    fn hear(&self, bytes: &[u8]) {
        if let Some(call) = self.context.current() {
            let (stdout, stderr) = call.journal.lengths();
            if let Some(Err(error)) = call.said.as_ref().map(|said| said.append(stdout, stderr, bytes)) {
                tracing::warn!(sandbox = %self.live.id, exec = call.number(), %error, "results could not be kept");
            }
        }
        self.context.took(|position| position.control += bytes.len() as u64);
        match self.context.hear(bytes) {
            Ok(None) => {}
            Ok(Some(finished)) => self.finished(finished),
            Err(malformed) => {
                self.broken(&format!("something wrote to its runner's own stream: {malformed}"))
            }
        }
    }

    /// The code came to an end, in whatever way, and the interpreter lives.
    pub fn finished(&self, finished: Finished) {
        let Some(call) = self.context.release() else { return };
        let number = call.tracked.number();
        if let Some(inside) = self.live.running() {
            inside.set_alarm(self.tracked.number(), number, None, GRACE);
        }
        let failed = i32::from(call.failed);
        let (cause, code) = if call.tracked.was_killed() {
            (ExecCause::Killed, INTERRUPTED)
        } else if call.timed_out {
            let limit_ms = call.tracked.record().timeout_ms.unwrap_or(0);
            (ExecCause::TimeLimit { limit_ms }, TIMED_OUT)
        } else {
            (ExecCause::Exited, finished.exit_code.unwrap_or(failed))
        };
        call.tracked.close();
        end_exec(self.inner, self.live, &call.tracked, cause, code);
        forget_old_calls(self.inner, self.live);
    }

    /// An impossible message of a runner comes from the code. Later messages could not be told apart from such ones.
    pub fn broken(&self, why: &str) {
        // Marked before the end is announced: the next call must not go to an interpreter that is being ended.
        self.tracked.mark_killed();
        self.fail(self.context.release(), why, ExecCause::Killed, KILLED);
        if let Some(inside) = self.live.running() {
            inside.kill_exec(self.tracked.number());
        }
    }

    /// The interpreter has gone, and its running call with it.
    pub fn ended(&self, cause: ExecCause, code: i32) {
        let how = describe(&cause, code);
        let call = self.context.release_of(self.tracked);
        // The interpreter's end comes first, so that a caller that hears of the call's end finds the context ended.
        end_exec(self.inner, self.live, self.tracked, cause.clone(), code);
        // A call that began between the two found the interpreter running.
        let call = call.or_else(|| self.context.release_of(self.tracked));
        self.fail(call, &how, cause, code);
        self.inner.tell(self.live, "context_ended", Some(format!("{} {how}", self.context.id)));
    }

    fn fail(&self, call: Option<Released>, how: &str, cause: ExecCause, code: i32) {
        let Some(call) = call else { return };
        if let Part::Call(part) = &mut call.tracked.record().part {
            part.died = Some(how.into());
        }
        let (cause, code) = if call.tracked.was_killed() {
            (ExecCause::Killed, KILLED)
        } else if call.timed_out {
            let limit_ms = call.tracked.record().timeout_ms.unwrap_or(0);
            (ExecCause::TimeLimit { limit_ms }, TIMED_OUT)
        } else {
            (cause, code)
        };
        call.tracked.close();
        end_exec(self.inner, self.live, &call.tracked, cause, code);
    }
}

/// The end in words for people.
pub fn describe(cause: &ExecCause, code: i32) -> String {
    match cause {
        ExecCause::Exited => format!("the interpreter ended by itself with exit code {code}"),
        ExecCause::Signaled { signal } => format!("the interpreter crashed: signal {signal}"),
        ExecCause::TimeLimit { limit_ms } => {
            format!("the interpreter was ended because it did not heed the interrupt after {limit_ms} ms")
        }
        ExecCause::OutOfMemory => "the interpreter was ended for want of memory".into(),
        ExecCause::Killed => "the interpreter was ended by a call".into(),
        ExecCause::NotStarted { detail } => format!("the interpreter could not be started: {detail}"),
        ExecCause::SandboxEnded => "the interpreter ended when its sandbox ended or hibernated".into(),
    }
}
