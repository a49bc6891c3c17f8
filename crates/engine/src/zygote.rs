//! An interpreter that has done its imports, in a sandbox of its own, and is forked into others. It belongs to the
//! template, runs behind the same fence as all work, and never sees a caller's code.

use crate::begin::{Beginning, Request};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::exec::{Command, Exec, Newcomer};
use crate::exec_event::ExecEvent;
use crate::sandbox::Sandbox;
use paddock_backends::{InterpreterStart, Purpose, ZygoteSandbox};
use paddock_model::{Disk, SandboxId, Spec};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// The seccomp filters of a fork: the zygote's, and the one that takes the zygote's one extra call away.
const FILTERS: u32 = 2;
/// The longest time for the imports of a template.
const IMPORTS: Duration = Duration::from_secs(120);
/// The longest time for a fork on a busy host.
const FORK: Duration = Duration::from_secs(20);
/// The last bytes of its output that are kept, to tell why it did not come up.
const LAST_WORDS: usize = 2000;

/// The zygote's program, and the program of its forks.
pub struct Sources {
    pub argv: Vec<String>,
    pub zygote: &'static str,
    pub runner: &'static str,
    pub preload: Vec<String>,
}

pub struct Zygote {
    pub id: SandboxId,
    sandbox: Sandbox,
    zygote: Arc<dyn ZygoteSandbox>,
    /// Notified when the interpreter has ended; its sandbox may live on.
    ended: Arc<Notify>,
}

/// A sandbox that was just made, with an interpreter in it that waits for its first call.
pub struct ZygoteFork {
    pub sandbox: Sandbox,
    pub exec: Exec,
}

impl Zygote {
    /// Returns when it can be forked.
    ///
    /// Precondition: called on a tokio runtime.
    pub async fn start(
        engine: &Arc<Engine>,
        backend: Option<&str>,
        spec: &Spec,
        sources: Sources,
        start: &InterpreterStart,
    ) -> Result<Zygote, EngineError> {
        let id = crate::random::new_id()?;
        let spec = Spec { disk: Disk::Memory, ..spec.clone() };
        let (raising, backend) = (engine.clone(), backend.map(str::to_string));
        let (raised_id, raised_spec) = (id.clone(), spec.clone());
        let begun = blocking(move || {
            let (id, spec) = (&raised_id, &raised_spec);
            let beginning = Beginning::Fresh(Purpose::Zygote);
            raising.begin(Request { id, backend: backend.as_deref(), spec, beginning })
        });
        let begun = begun.await?;
        let zygote = begun.fence.zygote()?;
        let mut sandbox = Sandbox::start(id.clone(), begun)?;
        sandbox.ready().await?;
        let mut exec = sandbox.exec(Command {
            argv: sources.argv,
            env: start.env.clone(),
            cwd: Some("/".into()),
            user: spec.user.clone(),
            zygote: true,
            ..Command::default()
        })?;
        let preload = serde_json::json!(sources.preload).to_string();
        let told = zygote.clone();
        let answer = tokio::task::spawn_blocking(move || {
            for packet in [sources.zygote, sources.runner, &preload] {
                told.tell(packet.as_bytes())?;
            }
            told.hear(IMPORTS)
        });
        let failed = |detail: String| EngineError::Zygote { detail };
        match answer.await.map_err(|error| failed(error.to_string()))? {
            Ok(answer) if answer == b"ready" => {
                let ended = Arc::new(Notify::new());
                let told = ended.clone();
                tokio::spawn(async move {
                    drain(&mut exec).await;
                    // The notification is kept for a later caller.
                    told.notify_one();
                });
                Ok(Zygote { id, sandbox, zygote, ended })
            }
            Ok(answer) => Err(failed(format!(
                "its imports failed: {}",
                String::from_utf8_lossy(&answer).escape_debug()
            ))),
            Err(error) => {
                let words = tokio::time::timeout(Duration::from_millis(200), drain(&mut exec)).await;
                let words = words.unwrap_or_default();
                Err(failed(format!("{error} {}", words.trim().escape_debug())))
            }
        }
    }

    /// A sandbox of the same spec but for its disk, with a fork of the interpreter in it.
    pub async fn fork(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        id: SandboxId,
        spec: &Spec,
        start: &InterpreterStart,
        number: u32,
    ) -> Result<ZygoteFork, EngineError> {
        let (engine, zygote) = (engine.clone(), self.zygote.clone());
        let (begun_id, begun_spec) = (id.clone(), spec.clone());
        let mut begun = blocking(move || {
            let beginning = Beginning::FromZygote(zygote.as_ref());
            engine.begin(Request { id: &begun_id, backend: None, spec: &begun_spec, beginning })
        })
        .await?;
        let failed = |detail: String| EngineError::Zygote { detail };
        let awaited = begun.awaited.take().ok_or_else(|| failed("it awaits no interpreter".into()))?;
        let mut sandbox = Sandbox::start(id, begun)?;
        sandbox.ready().await?;
        let start = start.clone();
        let forked = tokio::task::spawn_blocking(move || awaited.fork(&start, FORK)).await;
        let pid =
            forked.map_err(|error| failed(error.to_string()))?.map_err(|error| failed(error.to_string()))?;
        let mut exec =
            sandbox.take_in(number, Newcomer { pid, place: 0, filters: FILTERS, is_limited: false })?;
        match tokio::time::timeout(FORK, exec.next()).await {
            Ok(ExecEvent::Started) => Ok(ZygoteFork { sandbox, exec }),
            Ok(ExecEvent::StartFailed { step, errno }) => {
                let error = std::io::Error::from_raw_os_error(errno);
                Err(failed(format!("its guest refused it: {}: {error}", step.escape_debug())))
            }
            Ok(other) => Err(failed(format!("its guest says: {other:?}"))),
            Err(_) => Err(failed("its guest does not answer".into())),
        }
    }

    /// Returns when it cannot be forked any more. For one caller only.
    pub async fn lost(&self) {
        tokio::select! {
            _ = self.sandbox.lost() => {}
            () = self.ended.notified() => {}
        }
    }

    /// Leaves its sandbox for the sandboxes that nest in it, without this engine.
    pub fn leave(&self) {
        self.sandbox.leave();
    }

    /// Ends its sandbox, and all sandboxes that nest in it. Blocks for a moment.
    pub fn destroy(&self) {
        if let Err(error) = self.sandbox.destroy() {
            tracing::warn!(sandbox = %self.id, %error, "something of a zygote's sandbox could not be removed");
        }
    }
}

/// Reads until its end; returns its last output.
async fn drain(exec: &mut Exec) -> String {
    let mut words = Vec::new();
    loop {
        match exec.next().await {
            ExecEvent::Output { bytes, .. } => {
                words.extend_from_slice(&bytes);
                let over = words.len().saturating_sub(LAST_WORDS);
                words.drain(..over);
            }
            ExecEvent::StartFailed { step, errno } => {
                let error = std::io::Error::from_raw_os_error(errno);
                return format!("{}: {error}", step.escape_debug());
            }
            ExecEvent::Closed | ExecEvent::Lost { .. } | ExecEvent::Exited { .. } => {
                return String::from_utf8_lossy(&words).into_owned();
            }
            _ => {}
        }
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, EngineError> + Send + 'static,
) -> Result<T, EngineError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(EngineError::Zygote { detail: error.to_string() }),
    }
}
