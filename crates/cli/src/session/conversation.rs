//! The loop of a run: output out, input in, signals and time between them.

use super::network;
use super::progress::Bar;
use super::report::{Ending, Finished, Over};
use super::signals::Signals;
use super::streams::Stream;
use super::terminal::{self, Interrupts, Raw};
use super::{Listener, Session, SessionError, StdinMode};
use crate::render;
use paddock_engine::certificates::{self, Trust};
use paddock_engine::secrets::SandboxSecrets;
use paddock_engine::{Command, Engine, EngineError, Exec, ExecEvent, Input, StreamKind, WorkUsage};
use paddock_model::Root;
use paddock_records::capture::Capture;
use paddock_settings::WORKSPACE_TARGET;
use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// The guest's own clock runs a little longer than ours: it is the backstop, not the judge.
const BACKSTOP: Duration = Duration::from_millis(500);

/// To the end of the command and of its sandbox.
pub async fn run(mut session: Session) -> Result<Over, SessionError> {
    let engine = Engine::with_backends(&session.state_dir, session.backends);
    // Before the sandbox: a Ctrl-C while it is being made must not pass unheard.
    let mut signals = Signals::listen().map_err(SessionError::Streams)?;
    let image_environment = match session.image.clone() {
        Some(reference) => apply_image(&mut session, &engine, &reference, &mut signals).await?,
        None => BTreeMap::new(),
    };
    if session.argv.is_empty() {
        return Err(SessionError::MissingCommand);
    }
    let secrets = SandboxSecrets::new(std::mem::take(&mut session.secrets)).map_err(EngineError::from)?;
    if session.host_certs {
        // A certificate that cannot be read fails the run before anything is made.
        certificates::host_certificates().map_err(EngineError::from)?;
    }
    let mut sandbox = engine.create(session.backend.as_deref(), &session.spec)?;
    if let Some((path, content)) = session.file.take() {
        sandbox.ready().await?;
        sandbox.write_file(&path.display().to_string(), 0o644, &content).await?;
    }
    let mut env = session.environment(&image_environment);
    let trust = Trust { state: &session.state_dir, host_certs: session.host_certs };
    if let Some(secrets) = &secrets {
        sandbox.ready().await?;
        secrets.install(&sandbox, &session.spec.user, trust).await?;
        env.extend(secrets.environment());
    } else if session.host_certs {
        sandbox.ready().await?;
        trust.install(&sandbox, &session.spec.user, None).await.map_err(EngineError::from)?;
    }
    let command = Command {
        argv: session.argv.clone(),
        env,
        cwd: Some(
            session.cwd.as_deref().map_or_else(|| WORKSPACE_TARGET.into(), |d| d.display().to_string()),
        ),
        user: session.spec.user.clone(),
        tty: session.tty.then(terminal::size),
        stdin: session.stdin == StdinMode::Inherit,
        deadline: session.spec.limits.timeout.map(|limit| limit + BACKSTOP),
        last: true,
        control: false,
        zygote: false,
    };
    if let Some(first) = session.first.take() {
        (first.0)();
    }
    // The command is on its way before the inside stands: the guest takes one after the other.
    let exec = sandbox.exec(command)?;
    // While the guest builds the inside. Where the kernel refuses, the engine goes on as it was.
    let _ = paddock_engine::give_up_calls();
    sandbox.ready().await?;
    let decisions = network::watch(&sandbox, &session.spec.network, secrets.as_ref(), trust).await?;
    let raw = if session.tty { Some(Raw::enter().map_err(SessionError::Streams)?) } else { None };
    let listener = session.listener.take();
    let mut conversation = Conversation::new(&session, exec, listener)?;
    let ending = conversation.hold(&session, &mut signals).await?;
    drop(raw);
    // Takes its time, beside the end of the rest. The guest of a run has no part in the link.
    sandbox.end_gate();

    let work = match ending {
        Ending::Exited(_) | Ending::StartFailed { .. } => conversation.usage,
        Ending::Lost { .. } => None,
        _ => sandbox.stop().await,
    };
    let (id, guarantees) = (sandbox.id.to_string(), sandbox.guarantees.clone());
    let ended = sandbox.end(work)?;
    // The last decisions of the gate are on their way, a piece at each turn.
    for _ in 0..16 {
        tokio::task::yield_now().await;
    }
    let finished = Finished {
        sandbox: id,
        ending,
        out_of_memory: ended.out_of_memory,
        lost_to: ended.lost_to,
        usage: ended.usage,
        guarantees,
        limits: session.spec.limits.clone(),
        command: session.argv.first().cloned().unwrap_or_default(),
        scanned: session.scanned.clone(),
        network: network::lock(&decisions).to_api(),
    };
    Ok(Over { finished, stdout: conversation.stdout, stderr: conversation.stderr, decisions })
}

/// Puts the image below the sandbox, and fills the settings that the caller left open from it. Returns its environment.
async fn apply_image(
    session: &mut Session,
    engine: &Engine,
    reference: &str,
    signals: &mut Signals,
) -> Result<BTreeMap<String, String>, SessionError> {
    let progress = Bar::new();
    let image = tokio::select! {
        image = engine.image(reference, &progress) => image?,
        number = signals.next_ending() => return Err(SessionError::Interrupted(number)),
    };
    for name in &image.skipped {
        let _ = writeln!(std::io::stderr(), "paddock: left out of the image: {}", render::escape::line(name));
    }
    if session.cwd.is_none() && session.spec.workspace.is_none() {
        session.cwd = image.cwd.as_deref().map(Into::into);
    }
    if session.argv.is_empty() {
        session.argv = image.command.clone();
    }
    session.spec.root = Root::Directory { path: image.root };
    Ok(image.environment)
}

struct Conversation {
    exec: Exec,
    /// Where output goes: to the caller as it comes, or kept for the one object of --json or for a listener.
    outputs: Option<(Stream, Stream)>,
    pending: Option<(StreamKind, Vec<u8>, usize)>,
    listener: Option<Listener>,
    stdout: Capture,
    stderr: Capture,
    usage: Option<WorkUsage>,
    keys: Option<mpsc::Receiver<Key>>,
    interrupts: Interrupts,
    signalled: bool,
}

/// Messages of the stdin task to the loop.
enum Key {
    Typed(Vec<u8>),
}

impl Conversation {
    fn new(session: &Session, exec: Exec, listener: Option<Listener>) -> Result<Conversation, SessionError> {
        let outputs = match session.json || listener.is_some() {
            true => None,
            false => {
                let stdout = Stream::stdout().map_err(SessionError::Streams)?;
                Some((stdout, Stream::stderr().map_err(SessionError::Streams)?))
            }
        };
        let keys = match session.stdin {
            StdinMode::Inherit => {
                let (sender, keys) = mpsc::channel(8);
                let stdin = Stream::stdin().map_err(SessionError::Streams)?;
                tokio::spawn(pass_input(stdin, exec.input(), session.tty.then_some(sender)));
                session.tty.then_some(keys)
            }
            StdinMode::None => None,
        };
        let limit = session.spec.limits.output;
        Ok(Conversation {
            exec,
            outputs,
            pending: None,
            listener,
            stdout: Capture::new(limit),
            stderr: Capture::new(limit),
            usage: None,
            keys,
            interrupts: Interrupts::default(),
            signalled: false,
        })
    }

    async fn hold(&mut self, session: &Session, signals: &mut Signals) -> Result<Ending, SessionError> {
        let deadline = session.spec.limits.timeout.map(|limit| tokio::time::Instant::now() + limit);
        let far = tokio::time::Instant::now() + Duration::from_secs(86_400 * 365);
        let time_limit = tokio::time::sleep_until(deadline.unwrap_or(far));
        tokio::pin!(time_limit);
        loop {
            tokio::select! {
                biased;
                () = &mut time_limit, if deadline.is_some() => return Ok(Ending::TimeLimit),
                number = signals.next() => {
                    if let Some(ending) = self.on_signal(number) {
                        return Ok(ending);
                    }
                }
                key = next_key(&mut self.keys) => {
                    let Key::Typed(keys) = key;
                    if self.interrupts.typed(&keys, Instant::now()) {
                        return Ok(Ending::Killed { signal: libc::SIGINT });
                    }
                }
                written = write_pending(&self.outputs, &self.pending), if self.pending.is_some() => {
                    if !self.advance(written) {
                        return Ok(Ending::Killed { signal: libc::SIGPIPE });
                    }
                }
                event = self.exec.next(), if self.pending.is_none() => {
                    if let Some(ending) = self.on_event(event) {
                        return Ok(ending);
                    }
                }
            }
        }
    }

    /// The first signal is the command's, a second one ends the sandbox.
    fn on_signal(&mut self, number: i32) -> Option<Ending> {
        if number == libc::SIGWINCH {
            self.exec.resize(terminal::size());
            return None;
        }
        if std::mem::replace(&mut self.signalled, true) {
            return Some(Ending::Killed { signal: number });
        }
        self.exec.signal(number);
        None
    }

    fn on_event(&mut self, event: ExecEvent) -> Option<Ending> {
        match event {
            ExecEvent::Started | ExecEvent::Closed | ExecEvent::Interrupted { .. } => None,
            ExecEvent::StartFailed { step, errno } => Some(Ending::StartFailed { step, errno }),
            ExecEvent::Output { stream, bytes } => {
                self.interrupts.answered(&bytes);
                if let Some(Listener(heard)) = &mut self.listener {
                    heard(&bytes);
                }
                if self.outputs.is_some() {
                    self.pending = Some((stream, bytes, 0));
                } else if stream == StreamKind::Stderr {
                    self.stderr.push(&bytes);
                } else {
                    self.stdout.push(&bytes);
                }
                None
            }
            ExecEvent::Exited { status, usage } => {
                self.usage = Some(usage);
                Some(Ending::Exited(status))
            }
            ExecEvent::MemoryExceeded { .. } => Some(Ending::MemoryLimit),
            ExecEvent::DeadlinePassed => Some(Ending::TimeLimit),
            ExecEvent::Lost { detail } => Some(Ending::Lost { detail: render::escape::line(&detail) }),
        }
    }

    /// `false` when the reader of our output has gone.
    fn advance(&mut self, written: std::io::Result<usize>) -> bool {
        match (written, &mut self.pending) {
            (Ok(count), Some((_, bytes, done))) => {
                *done += count;
                if *done >= bytes.len() {
                    self.pending = None;
                }
                true
            }
            (Ok(_), None) => true,
            (Err(_), _) => false,
        }
    }
}

async fn write_pending(
    outputs: &Option<(Stream, Stream)>,
    pending: &Option<(StreamKind, Vec<u8>, usize)>,
) -> std::io::Result<usize> {
    match (outputs, pending) {
        (Some((stdout, stderr)), Some((kind, bytes, done))) => {
            let stream = if *kind == StreamKind::Stderr { stderr } else { stdout };
            stream.write_some(&bytes[*done..]).await
        }
        _ => std::future::pending().await,
    }
}

async fn next_key(keys: &mut Option<mpsc::Receiver<Key>>) -> Key {
    match keys {
        Some(receiver) => match receiver.recv().await {
            Some(key) => key,
            None => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

/// Runs beside the loop, so that a command that does not read holds up nothing else.
async fn pass_input(stdin: Stream, input: Input, keys: Option<mpsc::Sender<Key>>) {
    while let Ok(bytes) = stdin.read().await {
        if bytes.is_empty() {
            break;
        }
        if let Some(keys) = &keys {
            // The loop only looks for Ctrl-C; when it is busy, the keys still reach the command.
            let _ = keys.try_send(Key::Typed(bytes.clone()));
        }
        if !input.write(&bytes).await {
            return;
        }
    }
    input.close();
}
