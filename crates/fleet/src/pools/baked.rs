//! Kept memory that sandboxes begin with, for backends that can keep it. In it, the template's root is up, and an
//! interpreter has done the template's imports and waits for its first call. It is made once, because no interpreter
//! can be forked from one VM into another.

use super::pool::Blueprint;
use super::waiting_interpreter::NUMBER;
use crate::contexts::{Frame, Frames, Language, Position};
use crate::record::{Record, now_ns};
use crate::request::chain;
use crate::{Fleet, FleetError, blocking};
use paddock_backends::{Purpose, tell_waiting};
use paddock_engine::{
    Beginning, Begun, Command, Engine, Exec, ExecEvent, KnownExec, Request, ResumedExec, Sandbox as Inside,
};
use paddock_model::{Capability, Disk, SandboxId, Spec};
use paddock_protocol::{ExecPhase, StreamKind};
use paddock_settings::templates::BUILT_IN;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest time for imports: a large package takes its time, and many times as long in an emulated VM.
const IMPORTS: Duration = Duration::from_secs(600);
/// The wait after a failure: the template may have been mended by then.
const BAKE_PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(60);
/// The last bytes of the interpreter's output that are kept, to tell why it did not come up.
const LAST_WORDS: usize = 2000;
/// This file is written last.
const TOLD: &str = "interpreter.json";

/// One memory is made at a time. The map has the time and the reason of each failure.
#[derive(Default)]
pub struct Baking(tokio::sync::Mutex<BTreeMap<PathBuf, (Instant, String)>>);

pub struct Baked {
    place: PathBuf,
    interpreter: Interpreter,
}

/// The known facts about the interpreter in it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Interpreter {
    /// Bytes that were sent to it already.
    pub sent: u64,
    /// The position of its own streams.
    pub said: Position,
    pub began_ns: i64,
}

/// A sandbox that goes on from kept memory, and the interpreter in it.
pub struct Woken {
    pub inside: Inside,
    pub exec: Option<Exec>,
    pub sent: u64,
    pub said: Position,
    /// The time, by the clock inside, in which everything was built that existed before its caller.
    pub built_ns: (i64, i64),
}

impl Fleet {
    /// A sandbox that begins with its template's imports done. `None` if there is none, or if the caller wants
    /// something else than the template has.
    pub(crate) async fn born_baked(
        &self,
        record: &Record,
        preload: &[String],
    ) -> Option<super::member::Member> {
        if preload.is_empty() || !record.guarantees.can(Capability::PreparedMemory) {
            return None;
        }
        let template = record.template.as_deref().unwrap_or(BUILT_IN);
        let made = async {
            let blueprint = self.blueprint(template, record.backend.clone()).await?;
            if !blueprint.serves(record, preload) {
                return Ok(None);
            }
            match self.baked(template, &blueprint).await? {
                Some(baked) => {
                    self.make_member(&blueprint, &super::pool::MemberOrigin::Baked(baked)).await.map(Some)
                }
                None => Ok(None),
            }
        };
        made.await.unwrap_or_else(|error: FleetError| {
            // The sandbox is made as if nothing were preloaded, and reports its own failure then.
            tracing::warn!(template, %error, "a sandbox could not begin with what its template preloads");
            None
        })
    }

    /// The memory for sandboxes of this blueprint, made if there is none; `None` if its backend keeps none.
    pub(super) async fn baked(
        &self,
        template: &str,
        blueprint: &Blueprint,
    ) -> Result<Option<Arc<Baked>>, FleetError> {
        let engine = self.0.engine.clone();
        let (backend, spec, what) = (blueprint.backend.clone(), blueprint.spec.clone(), what(blueprint)?);
        let asked = blocking(move || Ok(engine.template_memory(backend.as_deref(), &spec, &what)?));
        let Some(place) = asked.await? else { return Ok(None) };
        if let Some(found) = Baked::find(&place) {
            return Ok(Some(Arc::new(found)));
        }
        let mut failed = self.0.pools.baking.0.lock().await;
        // Another task may have made it meanwhile.
        if let Some(found) = Baked::find(&place) {
            return Ok(Some(Arc::new(found)));
        }
        failed.retain(|_, (at, _)| at.elapsed() < BAKE_PAUSE_AFTER_FAILURE);
        if let Some((_, why)) = failed.get(&place) {
            return Err(not_made(why.clone()));
        }
        // It takes a while, and a waiting person should know why.
        tell_waiting(&format!(
            "loading what template {template} preloads, once ({}); sandboxes will begin with it",
            blueprint.preload.join(", ")
        ));
        let begun = Instant::now();
        if let Err(error) = self.bake(blueprint, &place).await {
            failed.insert(place, (Instant::now(), chain(&error)));
            return Err(error);
        }
        tell_waiting(&format!("template {template} is loaded after {:.1} s", begun.elapsed().as_secs_f64()));
        Baked::find(&place).map(Arc::new).map(Some).ok_or_else(|| not_made("it has gone again".into()))
    }

    async fn bake(&self, blueprint: &Blueprint, place: &Path) -> Result<(), FleetError> {
        let began_ns = now_ns();
        let id = self.new_id()?;
        let spec = Spec { disk: Disk::Memory, ..blueprint.spec.clone() };
        let (engine, backend, raised_id) = (self.0.engine.clone(), blueprint.backend.clone(), id.clone());
        let user = spec.user.clone();
        let begun = blocking(move || {
            let beginning = Beginning::Fresh(Purpose::TemplateMemory);
            Ok(engine.begin(Request::new(&raised_id, backend.as_deref(), &spec, beginning))?)
        });
        let mut inside = Inside::start(id, begun.await?)?;
        let loaded = async {
            inside.ready().await?;
            let (mut exec, sent) = start_python(&inside, blueprint, user, true).await?;
            let said = tokio::time::timeout(IMPORTS, hear_settled(&mut exec)).await;
            let said = said.unwrap_or_else(|_| Err("its imports did not end in time".into()));
            Ok(Interpreter { sent, said: said.map_err(not_made)?, began_ns })
        };
        let loaded: Result<Interpreter, FleetError> = loaded.await;
        let parted = match &loaded {
            Ok(_) => inside.part().await.map_err(FleetError::from),
            Err(_) => Ok(()),
        };
        let new = place.with_extension("new");
        blocking(move || {
            let kept = loaded.and_then(|interpreter| {
                parted?;
                keep(&inside, &interpreter, &new).map_err(|error| FleetError::storage(&error))
            });
            if let Err(error) = inside.destroy() {
                tracing::warn!(%error, "something of a sandbox could not be removed");
            }
            let placed = new.with_extension("");
            kept.and_then(|()| std::fs::rename(&new, placed).map_err(|error| FleetError::storage(&error)))
                .inspect_err(|_| drop(std::fs::remove_dir_all(&new)))
        })
        .await
    }
}

/// Everything that tells the memory of one blueprint from that of another, except the facts that its backend knows.
fn what(blueprint: &Blueprint) -> Result<Vec<u8>, FleetError> {
    let spec = Spec { disk: Disk::Memory, ..blueprint.spec.clone() };
    let python = Language::named(None)?;
    let start = (&blueprint.start.env, &blueprint.start.cwd);
    serde_json::to_vec(&(spec, &blueprint.preload, start, python.argv(), python.source()))
        .map_err(|error| FleetError::internal(&error))
}

/// Precondition: the guest has closed its connection to this engine. Blocks.
fn keep(inside: &Inside, interpreter: &Interpreter, directory: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    std::fs::DirBuilder::new().mode(0o700).create(directory)?;
    inside.keep_memory(directory)?.stay_down()?;
    std::fs::write(directory.join(TOLD), serde_json::to_vec(interpreter)?)
}

/// Starts a Python interpreter as a code context has it, and sends it the list of its imports; `kept`: it reports when
/// they are done. Also returns the number of bytes that were sent to it.
pub async fn start_python(
    inside: &Inside,
    blueprint: &Blueprint,
    user: paddock_model::User,
    kept: bool,
) -> Result<(Exec, u64), FleetError> {
    let python = Language::named(None)?;
    let command = Command {
        argv: python.argv(),
        env: blueprint.start.env.clone(),
        cwd: Some(blueprint.start.cwd.clone()),
        user,
        control: true,
        ..Command::default()
    };
    let mut exec = inside.exec_numbered(NUMBER, command).await?;
    let mut bytes = python.source();
    let mut setup = Frame::new("setup");
    for name in &blueprint.preload {
        setup = setup.with("preload", name.as_str());
    }
    if kept {
        // Each copy begins with `renew`. Doing it once here saves the copies the work that only the first time takes.
        setup = setup.with("renew", "").with("settle", "");
    }
    if !setup.fields.is_empty() {
        bytes.extend(setup.encode());
    }
    exec.input().write(&bytes).await;
    match exec.next().await {
        ExecEvent::Started => Ok((exec, bytes.len() as u64)),
        other => {
            let detail = format!("its interpreter does not start: {other:?}");
            Err(paddock_engine::EngineError::Zygote { detail }.into())
        }
    }
}

/// Waits until it reports that its imports are done. Returns the position of its streams, or why that will never come.
pub async fn hear_settled(exec: &mut Exec) -> Result<Position, String> {
    let (mut said, mut frames, mut words) = (Position::default(), Frames::default(), Vec::new());
    loop {
        match exec.next().await {
            ExecEvent::Output { stream: StreamKind::Control, bytes } => {
                said.control += bytes.len() as u64;
                frames.push(&bytes);
                while let Some(frame) = frames.next_frame().map_err(|error| error.to_string())? {
                    match (frame.kind.as_str(), frame.text("failed")) {
                        ("settled", None) => return Ok(said),
                        ("settled", Some(failed)) => {
                            return Err(format!("its imports failed: {}", failed.escape_debug()));
                        }
                        _ => {}
                    }
                }
            }
            ExecEvent::Output { stream, bytes } => {
                match stream {
                    StreamKind::Stderr => said.stderr += bytes.len() as u64,
                    _ => said.stdout += bytes.len() as u64,
                }
                words.extend_from_slice(&bytes);
                let over = words.len().saturating_sub(LAST_WORDS);
                words.drain(..over);
            }
            ExecEvent::Started => {}
            other => {
                let words = String::from_utf8_lossy(&words);
                return Err(format!("it ended: {other:?} {}", words.trim().escape_debug()));
            }
        }
    }
}

impl Baked {
    fn find(place: &Path) -> Option<Baked> {
        let told = std::fs::read(place.join(TOLD)).ok()?;
        let interpreter = serde_json::from_slice(&told).ok()?;
        Some(Baked { place: place.to_path_buf(), interpreter })
    }

    /// A sandbox that begins with it, and has a disk of its own.
    pub async fn wake(
        &self,
        engine: &Arc<Engine>,
        id: SandboxId,
        backend: Option<String>,
        spec: &Spec,
    ) -> Result<Woken, FleetError> {
        // Everything inside was written before this time, by the clock that the VM is given.
        let ready_at_ns = now_ns();
        let (engine, raised_id, spec, place) = (engine.clone(), id.clone(), spec.clone(), self.place.clone());
        let begun = blocking(move || {
            let beginning = Beginning::FromMemory(&place);
            Ok(engine.begin(Request::new(&raised_id, backend.as_deref(), &spec, beginning))?)
        });
        let begun = begun.await.inspect_err(|_| {
            // The memory was cut off perhaps: it is made again.
            let _ = std::fs::remove_dir_all(&self.place);
        })?;
        let built_ns = (self.interpreter.began_ns, ready_at_ns);
        Woken::go_on(id, begun, Some(&self.interpreter), built_ns).await
    }
}

impl Woken {
    /// Takes over the guest of a sandbox whose memory others have too, and tells the interpreter in it.
    pub async fn go_on(
        id: SandboxId,
        begun: Begun,
        interpreter: Option<&Interpreter>,
        built_ns: (i64, i64),
    ) -> Result<Woken, FleetError> {
        let known = interpreter.map(|Interpreter { said, .. }| KnownExec {
            number: NUMBER,
            stdout: said.stdout,
            stderr: said.stderr,
            control: said.control,
        });
        let (inside, resumed) = Inside::resume(id, begun, known.as_slice()).await?;
        let Some(Interpreter { sent, said, .. }) = interpreter.cloned() else {
            return Ok(Woken { inside, exec: None, sent: 0, said: Position::default(), built_ns });
        };
        let own = |exec: &ResumedExec| exec.number == NUMBER && exec.phase == ExecPhase::Running;
        let Some(found) = resumed.into_iter().find(own) else {
            return Err(not_made("its interpreter has gone".into()));
        };
        let renew = Frame::new("setup").with("renew", "").encode();
        found.exec.input().write(&renew).await;
        let sent = sent + renew.len() as u64;
        Ok(Woken { inside, exec: Some(found.exec), sent, said, built_ns })
    }
}

pub fn not_made(detail: String) -> FleetError {
    paddock_engine::EngineError::Zygote { detail }.into()
}
