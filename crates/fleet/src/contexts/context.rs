//! One context in memory: its interpreter, the call that runs in it, and the waiting calls.

use super::answer::{Answer, read_answer};
use super::frame::{Frames, Malformed};
use super::records::Position;
use crate::execs::TrackedExec;
use crate::request::invalid;
use crate::{FleetError, Kind};
use paddock_backends::Interpreter;
use paddock_model::api::{self, ContextState, ExecCause};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// All contexts of a sandbox.
#[derive(Default)]
pub struct Contexts(Mutex<BTreeMap<String, Arc<Context>>>);

pub struct Context {
    pub id: String,
    pub language: String,
    /// True if Paddock made it by itself, and makes it anew after its end.
    pub default: bool,
    pub cwd: Option<String>,
    pub env: BTreeMap<String, String>,
    /// Held by the running call; the next one gets it in the order in which they came.
    pub turn: Arc<tokio::sync::Mutex<()>>,
    pub waiting: AtomicU32,
    /// Held while its interpreter is started or stopped.
    pub starting: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    runner: Option<Arc<TrackedExec>>,
    call: Option<Current>,
    frames: Frames,
    consumed: Position,
    /// The place of the runner's process.
    described: Option<Interpreter>,
}

/// The running call.
struct Current {
    tracked: Arc<TrackedExec>,
    nonce: String,
    timed_out: bool,
    failed: bool,
}

/// The end of a call, as the runner reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finished {
    pub exit_code: Option<i32>,
}

/// A call that its context has released.
pub struct Released {
    pub tracked: Arc<TrackedExec>,
    pub timed_out: bool,
    /// True if the runner reported a failure.
    pub failed: bool,
}

impl Contexts {
    pub fn all(&self) -> Vec<Arc<Context>> {
        self.lock().values().cloned().collect()
    }

    pub fn get(&self, name: &str) -> Option<Arc<Context>> {
        self.lock().get(name).cloned()
    }

    pub fn named(&self, name: &str) -> Result<Arc<Context>, FleetError> {
        self.get(name).ok_or_else(|| {
            let shown: String = name.chars().take(80).collect();
            let message = format!("there is no context `{}`", shown.escape_debug());
            FleetError::new(Kind::NotFound, "context_not_found", message)
                .hint("GET of the sandbox's contexts lists those there are; POST makes one")
        })
    }

    pub fn add(&self, context: Arc<Context>, most: usize) -> Result<(), FleetError> {
        let mut all = self.lock();
        if all.contains_key(&context.id) {
            let message = format!("there is a context `{}` already", context.id);
            return Err(FleetError::new(Kind::Conflict, "name_taken", message).hint("choose another id"));
        }
        if all.len() >= most {
            return Err(FleetError::new(
                Kind::TooMany { retry_after_seconds: 1 },
                "quota_exceeded",
                format!("this sandbox has {most} contexts already"),
            )
            .hint("delete one that is not needed"));
        }
        all.insert(context.id.clone(), context);
        Ok(())
    }

    /// The existing context of that name, or the one that `make` makes.
    pub fn get_or_add(
        &self,
        name: &str,
        most: usize,
        make: impl FnOnce() -> Arc<Context>,
    ) -> Result<Arc<Context>, FleetError> {
        if let Some(known) = self.get(name) {
            return Ok(known);
        }
        match self.add(make(), most) {
            // Another call was first.
            Err(error) if error.code != "name_taken" => Err(error),
            _ => self.named(name),
        }
    }

    pub fn put(&self, context: Arc<Context>) {
        self.lock().insert(context.id.clone(), context);
    }

    pub fn remove(&self, name: &str) {
        self.lock().remove(name);
    }

    /// The context whose interpreter this exec is.
    pub fn of_runner(&self, number: u32) -> Option<Arc<Context>> {
        self.all()
            .into_iter()
            .find(|context| context.runner().is_some_and(|tracked| tracked.number() == number))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Context>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Context {
    pub fn new(
        id: &str,
        language: &str,
        default: bool,
        cwd: Option<String>,
        env: BTreeMap<String, String>,
    ) -> Arc<Context> {
        Arc::new(Context {
            id: id.into(),
            language: language.into(),
            default,
            cwd,
            env,
            turn: Arc::default(),
            waiting: 0.into(),
            starting: tokio::sync::Mutex::default(),
            state: Mutex::default(),
        })
    }

    pub fn runner(&self) -> Option<Arc<TrackedExec>> {
        self.state().runner.clone()
    }

    pub fn living_runner(&self) -> Option<Arc<TrackedExec>> {
        self.runner().filter(|tracked| tracked.runs())
    }

    /// The known place of this runner's process.
    pub fn described(&self, runner: &Arc<TrackedExec>) -> Option<Interpreter> {
        let state = self.state();
        state.described.filter(|_| state.runner.as_ref().is_some_and(|current| Arc::ptr_eq(current, runner)))
    }

    pub fn describe(&self, runner: &Arc<TrackedExec>, described: Interpreter) {
        let mut state = self.state();
        if state.runner.as_ref().is_some_and(|current| Arc::ptr_eq(current, runner)) {
            state.described = Some(described);
        }
    }

    /// How its interpreter ended; `None` if it runs, or never did.
    pub fn end(&self) -> Option<ExecCause> {
        self.runner().and_then(|tracked| tracked.record().cause.clone())
    }

    pub fn is_busy(&self) -> bool {
        self.state().call.is_some()
    }

    pub fn current(&self) -> Option<Arc<TrackedExec>> {
        self.state().call.as_ref().map(|call| call.tracked.clone())
    }

    /// Sets another interpreter, and how much of its streams was taken already: nothing for a new one.
    pub fn restore(&self, runner: Arc<TrackedExec>, consumed: Position) {
        *self.state() = State { runner: Some(runner), consumed, ..State::default() };
    }

    pub fn consumed(&self) -> Position {
        self.state().consumed
    }

    pub fn begin(&self, tracked: Arc<TrackedExec>, nonce: String) {
        self.state().call = Some(Current { tracked, nonce, timed_out: false, failed: false });
    }

    /// The alarm of this call has rung.
    pub fn note_timeout(&self, number: u32) {
        if let Some(call) = self.state().call.as_mut().filter(|call| call.tracked.number() == number) {
            call.timed_out = true;
        }
    }

    /// Counts bytes of a stream that are safely stored: in the call's output, or in the interpreter's own log.
    pub fn took(&self, take: impl FnOnce(&mut Position)) {
        take(&mut self.state().consumed);
    }

    /// Takes in bytes of the runner. `Some` if it reports that the running call has ended; reports about any other call
    /// are not trusted.
    pub fn hear(&self, bytes: &[u8]) -> Result<Option<Finished>, Malformed> {
        let mut state = self.state();
        state.frames.push(bytes);
        let mut finished = None;
        while let Some(frame) = state.frames.next_frame()? {
            match (read_answer(frame), &mut state.call) {
                (Some(Answer::Error(_)), Some(call)) => call.failed = true,
                (Some(Answer::Done { call, exit_code }), Some(current)) if current.nonce == call => {
                    finished = Some(Finished { exit_code });
                }
                _ => {}
            }
        }
        Ok(finished)
    }

    pub fn release(&self) -> Option<Released> {
        let call = self.state().call.take()?;
        Some(Released { tracked: call.tracked, timed_out: call.timed_out, failed: call.failed })
    }

    /// The same, if this is the context's present interpreter.
    pub fn release_of(&self, runner: &Arc<TrackedExec>) -> Option<Released> {
        let mut state = self.state();
        let own = state.runner.as_ref().is_some_and(|own| Arc::ptr_eq(own, runner));
        let call = if own { state.call.take() } else { None }?;
        Some(Released { tracked: call.tracked, timed_out: call.timed_out, failed: call.failed })
    }

    /// Releases this call, if it is the running one.
    pub fn release_if(&self, number: u32) {
        let mut state = self.state();
        if state.call.as_ref().is_some_and(|call| call.tracked.number() == number) {
            state.call = None;
        }
    }

    pub fn to_api(&self, sandbox: &str) -> api::Context {
        let runner = self.runner();
        let (exec, started_at_ms, cause) = runner.map_or((0, 0, None), |tracked| {
            let record = tracked.record();
            (record.number, record.started_at_ms, record.cause.clone())
        });
        let state = match (&cause, self.is_busy()) {
            (Some(_), _) => ContextState::Ended,
            (None, true) => ContextState::Busy,
            (None, false) => ContextState::Idle,
        };
        api::Context {
            id: self.id.clone(),
            sandbox: sandbox.into(),
            language: self.language.clone(),
            default: self.default,
            state,
            cwd: self.cwd.clone(),
            exec,
            started_at_ms,
            cause,
            waiting: self.waiting.load(Ordering::Relaxed),
        }
    }

    /// A language that is named besides the context must be the context's own.
    pub fn check_language(&self, language: Option<&str>) -> Result<(), FleetError> {
        match language {
            Some(language) if language != self.language => Err(invalid(format!(
                "context `{}` is of language {}, not {language}",
                self.id, self.language
            ))
            .hint("leave `language` out, or name another context")),
            _ => Ok(()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
