//! Code contexts: an interpreter inside that remembers, and the calls that run in it one after the other.
//!
//! - [`languages`]: the interpreter of each language, and the source of its runner
//! - [`frame`], [`answer`]: the messages between host and runner, and their meaning
//! - [`context`]: one context in memory
//! - [`runner`]: its process, from start to end; its output and messages go to the running call
//! - [`calls`]: one call, from the request to its turn
//! - [`said`]: the runner's messages about one call, on disk; [`forget`]: their removal
//! - [`records`], [`recover`]: their form in the store, and their recovery by a new server

mod answer;
mod calls;
mod context;
mod forget;
mod frame;
mod languages;
#[cfg(test)]
mod python_tests;
mod records;
mod recover;
mod runner;
mod said;
#[cfg(test)]
mod zygote_tests;

pub use answer::Answer;
pub use context::{Context, Contexts};
pub use forget::forget_calls_before;
pub use frame::{Frame, Frames};
pub use records::{Part, Position};
pub use recover::{end_unstarted, last_call_of};
pub use said::{Reader as SaidReader, Said};

use super::live::Live;
use super::request::{check_directory, invalid};
use super::{Actor, Fleet, FleetError, Kind, audit};
pub(super) use languages::Language;
use paddock_engine::FileErrorKind;
use paddock_model::api::{self, CreateContext};
use std::sync::Arc;
use std::time::Duration;

/// The most contexts of one sandbox.
const MOST_CONTEXTS: usize = 32;
const LONGEST_ID: usize = 64;
/// Of a sandbox whose variables name none.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// How long an interrupt waits for a large program to be taken in; a program that has begun to arrive can be
/// interrupted.
const ON_ITS_WAY: Duration = Duration::from_secs(1);
/// The longest wait for the death of a killed interpreter.
const DYING: Duration = Duration::from_secs(5);

impl Fleet {
    pub async fn create_context(
        &self,
        actor: &Actor,
        id: &str,
        request: CreateContext,
    ) -> Result<api::Context, FleetError> {
        let live = self.find(actor, id)?;
        let language = Language::named(request.language.as_deref())?;
        request.cwd.as_deref().map_or(Ok(()), check_directory)?;
        let name = match request.id {
            Some(name) => checked(name)?,
            None => format!("ctx-{:08x}", paddock_engine::random()? as u32),
        };
        self.check_runner(&live, &language).await?;
        let context = Context::new(&name, language.name(), false, request.cwd, request.env);
        live.contexts.add(context.clone(), MOST_CONTEXTS)?;
        let told = serde_json::json!({ "context": name, "language": language.name() });
        audit::call(&self.0, actor, &live, "create_context", told);
        let actor = actor.clone();
        // Goes on when the caller goes away: a context that is listed has an interpreter.
        self.detached(async move |fleet: Fleet| {
            let started = {
                let _one = context.starting.lock().await;
                match fleet.running(&live).await {
                    Ok(inside) => fleet.start_runner(&actor, &live, &context, &inside).await,
                    Err(error) => Err(error),
                }
            };
            if let Err(error) = started {
                live.contexts.remove(&name);
                return Err(error);
            }
            Ok(context.to_api(&live.id))
        })
        .await
    }

    pub async fn contexts(&self, actor: &Actor, id: &str) -> Result<Vec<api::Context>, FleetError> {
        let live = self.find(actor, id)?;
        Ok(live.contexts.all().iter().map(|context| context.to_api(&live.id)).collect())
    }

    pub async fn context(&self, actor: &Actor, id: &str, name: &str) -> Result<api::Context, FleetError> {
        let live = self.find(actor, id)?;
        Ok(live.contexts.named(name)?.to_api(&live.id))
    }

    /// Ends the running call together with its interpreter, and begins a new one.
    pub async fn restart_context(
        &self,
        actor: &Actor,
        id: &str,
        name: &str,
    ) -> Result<api::Context, FleetError> {
        let live = self.find(actor, id)?;
        let context = live.contexts.named(name)?;
        let inside = self.running(&live).await?;
        audit::call(&self.0, actor, &live, "restart_context", serde_json::json!({ "context": name }));
        let actor = actor.clone();
        self.detached(async move |fleet: Fleet| {
            let _one = context.starting.lock().await;
            fleet.stop_runner(&live, &context).await?;
            fleet.start_runner(&actor, &live, &context, &inside).await?;
            Ok(context.to_api(&live.id))
        })
        .await
    }

    /// As Ctrl-C: interrupts the running call, and the context keeps its state. Returns true if a call ran.
    pub async fn interrupt_context(&self, actor: &Actor, id: &str, name: &str) -> Result<bool, FleetError> {
        let live = self.find(actor, id)?;
        let context = live.contexts.named(name)?;
        let inside = self.running(&live).await?;
        let (Some(runner), true) = (context.living_runner(), context.is_busy()) else { return Ok(false) };
        audit::call(&self.0, actor, &live, "interrupt_context", serde_json::json!({ "context": name }));
        // The interrupt waits until the call itself is on its way: if it overtook the call, it would have no effect.
        let _ = tokio::time::timeout(ON_ITS_WAY, runner.input.lock()).await;
        inside.signal_exec(runner.number(), libc::SIGINT);
        Ok(true)
    }

    pub async fn delete_context(&self, actor: &Actor, id: &str, name: &str) -> Result<(), FleetError> {
        let live = self.find(actor, id)?;
        let context = live.contexts.named(name)?;
        audit::call(&self.0, actor, &live, "delete_context", serde_json::json!({ "context": name }));
        let name = name.to_string();
        self.detached(async move |fleet: Fleet| {
            let _one = context.starting.lock().await;
            if let Some(runner) = context.runner() {
                let record = {
                    let mut record = runner.record();
                    if let Part::Runner(part) = &mut record.part {
                        part.deleted = true;
                    }
                    record.clone()
                };
                fleet.0.save_exec(&live.id, &record)?;
            }
            live.contexts.remove(&name);
            fleet.stop_runner(&live, &context).await
        })
        .await
    }

    /// A language without a runner here needs one in the template.
    async fn check_runner(&self, live: &Arc<Live>, language: &Language) -> Result<(), FleetError> {
        let inside = self.running(live).await?;
        let (user, path) = {
            let record = live.record();
            (record.spec.user.clone(), record.env.get("PATH").cloned())
        };
        let files = language.wanted_files(path.as_deref().unwrap_or(USUAL_PATH));
        for file in &files {
            match inside.files(user.clone(), None).stat(file).await {
                Err(error) if error.kind == FileErrorKind::NotFound => {}
                // Other faults of the runner show when it is started.
                _ => return Ok(()),
            }
        }
        if files.is_empty() { Ok(()) } else { Err(language.unknown()) }
    }

    /// Precondition: no other call starts or stops it meanwhile.
    async fn stop_runner(&self, live: &Arc<Live>, context: &Context) -> Result<(), FleetError> {
        let Some(runner) = context.living_runner() else { return Ok(()) };
        let Some(inside) = live.running() else { return Ok(()) };
        runner.mark_killed();
        if let Some(call) = context.current() {
            call.mark_killed();
        }
        inside.kill_exec(runner.number());
        if tokio::time::timeout(DYING, runner.wait()).await.is_err() {
            return Err(FleetError::new(
                Kind::Unavailable,
                "unavailable",
                format!("the interpreter of context {} does not end", context.id),
            )
            .hint("try again; if the sandbox is paused, resume it first"));
        }
        Ok(())
    }
}

fn checked(name: String) -> Result<String, FleetError> {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if name.is_empty() || name.len() > LONGEST_ID || !name.bytes().all(known) || name.starts_with('.') {
        let shown: String = name.chars().take(LONGEST_ID).collect();
        return Err(invalid(format!("`{}` cannot be the id of a context", shown.escape_debug())).hint(
            format!("at most {LONGEST_ID} letters, digits, `-`, `_` and `.`, and no `.` at the beginning"),
        ));
    }
    Ok(name)
}
