//! Commands as streams: start one and read along, or read along with one that runs. A reader that goes away ends nothing.

use super::connect::{self, Envelopes, Result, RpcError};
use super::ends::{self, End};
use super::inside::{Inside, User, basic_user};
use super::messages::{OfProcess, Start};
use super::registry::Started;
use crate::app::App;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use paddock_fleet::{FleetError, OutputFrom, OutputReader};
use paddock_model::api::{Exec, ExecState, FileKind, OutputEvent, StartExec, StreamName};
use serde_json::{Value, json};
use std::time::Duration;

/// Where a client gives no time, there is none: its sandbox ends long before.
const NO_TIME_LIMIT_SECONDS: f64 = 366.0 * 86_400.0;

pub async fn start(inside: Inside, request: Request) -> Response {
    started(inside, request).await.unwrap_or_else(RpcError::stream)
}

pub async fn connect(inside: Inside, request: Request) -> Response {
    connected(inside, request).await.unwrap_or_else(RpcError::stream)
}

async fn started(inside: Inside, request: Request) -> Result<Response> {
    let (alive, timeout) = (connect::keepalive(request.headers()), connect::timeout(request.headers())?);
    let user = inside.user(basic_user(request.headers())?.as_deref());
    let start: Start = Envelopes::of(&inside.app, request).await?.single().await?;
    let terminal = start.pty.as_ref().map(|pty| pty.size()).transpose()?;
    let cwd = working_directory(&inside, &user, start.process.cwd.as_deref()).await?;
    if start.process.cmd.is_empty() {
        return Err(RpcError::invalid("process.cmd is empty"));
    }
    let mut env = own_variables(&user, cwd.as_deref());
    env.extend(start.process.envs.clone());
    let exec = StartExec {
        argv: Some(std::iter::once(&start.process.cmd).chain(&start.process.args).cloned().collect()),
        env,
        cwd,
        user: user.name.clone(),
        open_stdin: start.stdin.unwrap_or(true) || terminal.is_some(),
        timeout_seconds: Some(timeout.map_or(NO_TIME_LIMIT_SECONDS, |timeout| timeout.as_secs_f64())),
        terminal,
        background: true,
        ..StartExec::default()
    };
    let begun = inside.fleet().start_exec(&inside.actor, inside.id(), exec, None).await;
    let begun = begun.map_err(|error| RpcError::of(inside.id(), error))?;
    let known = Started { config: start.process, tag: start.tag, terminal: terminal.is_some() };
    remember(&inside, begun.exec, known.clone());
    let from = OutputFrom { follow: true, ..OutputFrom::default() };
    let reader = inside.fleet().output(&inside.actor, inside.id(), begun.exec, from).await;
    let reader = reader.map_err(|error| RpcError::of(inside.id(), error))?;
    // The guest ends it when its time is over, whoever reads along.
    Ok(events(
        &inside.app,
        reader,
        Reading { exec: begun.exec, terminal: known.terminal, alive, timeout: None },
    ))
}

/// From now on: what was printed before is not told again, as with E2B.
async fn connected(inside: Inside, request: Request) -> Result<Response> {
    let (alive, timeout) = (connect::keepalive(request.headers()), connect::timeout(request.headers())?);
    let wanted: OfProcess = Envelopes::of(&inside.app, request).await?.single().await?;
    let exec = running(&inside, &wanted.process).await?;
    let terminal = inside.app.e2b().processes.get(inside.id(), exec.exec).is_some_and(|known| known.terminal);
    let from = OutputFrom {
        stdout: exec.stdout_bytes,
        stderr: exec.stderr_bytes,
        follow: true,
        ..OutputFrom::default()
    };
    let reader = inside.fleet().output(&inside.actor, inside.id(), exec.exec, from).await;
    let reader = reader.map_err(|error| RpcError::of(inside.id(), error))?;
    Ok(events(&inside.app, reader, Reading { exec: exec.exec, terminal, alive, timeout }))
}

/// The command that a client means, where it runs.
pub async fn running(inside: &Inside, selector: &super::messages::Selector) -> Result<Exec> {
    let missing = || {
        let shown = match (&selector.tag, selector.pid) {
            (Some(tag), _) => format!("with tag {:?}", crate::errors::shorten(tag)),
            (None, Some(pid)) => format!("with pid {pid}"),
            (None, None) => "without pid and tag".into(),
        };
        RpcError::not_found(format!("no process {shown} runs in this sandbox"))
    };
    let number = inside.app.e2b().processes.find(inside.id(), selector).ok_or_else(missing)?;
    let all = commands(inside).await?;
    all.into_iter().find(|exec| exec.exec == number).ok_or_else(missing)
}

/// All that run. Interpreters of the code contexts are not among them.
pub async fn commands(inside: &Inside) -> Result<Vec<Exec>> {
    let all = inside.fleet().execs(&inside.actor, inside.id()).await;
    let all = all.map_err(|error| RpcError::of(inside.id(), error))?;
    Ok(all.into_iter().filter(|exec| exec.state == ExecState::Running && exec.context.is_none()).collect())
}

/// E2B resolves it at the user's home, and refuses one that is not there before anything runs. Where none is given, it is the
/// one that the template names, or else the home.
async fn working_directory(inside: &Inside, user: &User, given: Option<&str>) -> Result<Option<String>> {
    let Some(given) = given.filter(|given| !given.is_empty()) else {
        let home = user.home.filter(|_| inside.template_user().is_none());
        return Ok(home.map(str::to_string));
    };
    let path = user.path(given)?;
    // Through the directory itself, so that a link to one counts.
    let found =
        inside.fleet().stat(&inside.actor, inside.id(), &format!("{path}/."), user.name.as_deref()).await;
    match found {
        Ok(entry) if entry.kind == FileKind::Directory => Ok(Some(path)),
        Ok(_) => Err(RpcError::invalid(format!("cwd '{path}' is not a directory"))),
        Err(error) if super::errors::is_gone(&error) => Err(RpcError::of(inside.id(), error)),
        Err(error) => Err(RpcError::invalid(format!("cwd '{path}' cannot be used: {error}"))),
    }
}

/// The variables that E2B sets for every process. `PWD` keeps the name of the directory where it is reached by a link.
fn own_variables(user: &User, cwd: Option<&str>) -> std::collections::BTreeMap<String, String> {
    let mut env = std::collections::BTreeMap::new();
    if let Some(name) = &user.shown {
        env.insert("USER".to_string(), name.clone());
        env.insert("LOGNAME".to_string(), name.clone());
    }
    if let Some(home) = user.home {
        env.insert("HOME".to_string(), home.to_string());
    }
    if let Some(cwd) = cwd {
        env.insert("PWD".to_string(), cwd.to_string());
    }
    env
}

fn remember(inside: &Inside, exec: u32, known: Started) {
    inside.app.e2b().processes.add(inside.id(), exec, known);
    let (app, actor, id) = (inside.app.clone(), inside.actor.clone(), inside.id().to_string());
    tokio::spawn(async move {
        tokio::select! {
            () = app.ending().cancelled() => {}
            _ = app.fleet().wait_exec(&actor, &id, exec, None) => app.e2b().processes.remove(&id, exec),
        }
    });
}

struct Reading {
    exec: u32,
    terminal: bool,
    alive: Duration,
    /// After which the reader goes; what runs goes on.
    timeout: Option<Duration>,
}

/// The next thing that a stream of events has to answer to.
enum Step {
    Next(Option<std::result::Result<OutputEvent, FleetError>>),
    Quiet,
    Over,
    Ending,
}

fn events(app: &App, mut reader: OutputReader, reading: Reading) -> Response {
    let ending = app.ending().clone();
    let over = async move {
        match reading.timeout {
            Some(timeout) => tokio::time::sleep(timeout).await,
            None => std::future::pending().await,
        }
    };
    let body = async_stream::stream! {
        yield Ok(event("start", &json!({ "pid": reading.exec })));
        tokio::pin!(over);
        loop {
            let step = tokio::select! {
                biased;
                () = ending.cancelled() => Step::Ending,
                () = &mut over => Step::Over,
                next = reader.next() => Step::Next(next),
                () = tokio::time::sleep(reading.alive) => Step::Quiet,
            };
            let next = match step {
                Step::Next(next) => next,
                Step::Quiet => {
                    yield Ok(event("keepalive", &json!({})));
                    continue;
                }
                Step::Over => {
                    yield Ok(connect::last(Some(&timed_out())));
                    return;
                }
                Step::Ending => {
                    yield Err(broken_off("the server is shutting down"));
                    return;
                }
            };
            match next {
                Some(Ok(OutputEvent::Output { stream, data, .. })) => {
                    let stream = match stream {
                        _ if reading.terminal => "pty",
                        StreamName::Stdout => "stdout",
                        StreamName::Stderr => "stderr",
                    };
                    yield Ok(event("data", &json!({ stream: data })));
                }
                Some(Ok(OutputEvent::Gap { bytes, .. })) => {
                    let message = format!("{bytes} bytes of output were not kept, because the client did not read them in time");
                    yield Ok(connect::last(Some(&RpcError::new("data_loss", message))));
                    return;
                }
                Some(Ok(OutputEvent::Ended { exec })) => {
                    match ends::of(&exec) {
                        End::Event(end) => {
                            yield Ok(event("end", &end));
                            yield Ok(connect::last(None));
                        }
                        End::TimedOut => yield Ok(connect::last(Some(&timed_out()))),
                        End::NotStarted(detail) => yield Ok(connect::last(Some(&RpcError::invalid(detail)))),
                        End::SandboxGone => yield Err(broken_off("the sandbox has ended")),
                    }
                    return;
                }
                Some(Ok(OutputEvent::Result { .. } | OutputEvent::Error { .. } | OutputEvent::Alive)) => {}
                Some(Err(error)) => {
                    yield Err(broken_off(&error.to_string()));
                    return;
                }
                None => {
                    yield Err(broken_off("the output ended without its end"));
                    return;
                }
            }
        }
    };
    connect::streamed(Body::from_stream(body))
}

fn event(kind: &str, value: &Value) -> bytes::Bytes {
    connect::envelope(&json!({ "event": { kind: value } }))
}

fn timed_out() -> RpcError {
    RpcError::new("deadline_exceeded", "the time of the command is over")
}

/// Breaks the connection: the client then looks whether its sandbox is there.
pub fn broken_off(why: &str) -> std::io::Error {
    std::io::Error::other(why.to_string())
}
