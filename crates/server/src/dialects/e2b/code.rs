//! The code interpreter: code in contexts that remember, its answer as lines of JSON.

use super::code_results;
use super::errors::{Refusal, Result};
use super::inside::{HOME, Inside};
use super::json::Json;
use super::process::broken_off;
use super::timestamps::rfc3339_unsigned;
use crate::errors::shorten;
use axum::Json as Answer;
use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use paddock_fleet::{FleetError, OutputFrom};
use paddock_model::api::{Context, CreateContext, Exec, ExecCause, OutputEvent, RunCode, StreamName};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const ALIVE_EVERY: Duration = Duration::from_secs(5);
/// The client ends its code by going away.
const NO_TIME_LIMIT_SECONDS: f64 = 366.0 * 86_400.0;
/// Sandboxes come and go; beyond so many contexts the counts begin anew.
const MOST_COUNTS: usize = 100_000;

/// How often code ran in each context, by sandbox and context.
#[derive(Default)]
pub struct Executions(Mutex<HashMap<(String, String), u64>>);

impl Executions {
    fn next(&self, sandbox: &str, context: &str) -> u64 {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= MOST_COUNTS {
            counts.clear();
        }
        let count = counts.entry((sandbox.to_string(), context.to_string())).or_default();
        *count += 1;
        *count
    }

    fn reset(&self, sandbox: &str, context: &str) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.remove(&(sandbox.to_string(), context.to_string()));
    }
}

pub async fn answer(inside: Inside, request: Request) -> Result<Response> {
    let path = request.uri().path().to_string();
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let parts = match super::routes::is_of_code_interpreter(request.method().as_str(), &path) {
        true => parts.as_slice(),
        false => &[],
    };
    match (request.method().clone(), parts) {
        (Method::GET, ["health"]) => Ok("OK".into_response()),
        (Method::POST, ["execute"]) => execute(inside, request).await,
        (Method::POST, ["contexts"]) => create(inside, request).await,
        (Method::GET, ["contexts"]) => list(inside).await,
        (Method::DELETE, ["contexts", id]) => delete(inside, id).await,
        (Method::POST, ["contexts", id, "restart"]) => restart(inside, id).await,
        (method, _) => Err(Refusal::new(
            StatusCode::NOT_IMPLEMENTED,
            "unsupported",
            format!("this server's E2B dialect has no {method} {} of the code interpreter", shorten(&path)),
        )),
    }
}

#[derive(Debug, Deserialize)]
pub struct Execute {
    code: String,
    #[serde(default)]
    context_id: Option<String>,
    #[serde(default)]
    language: Option<String>,
    #[serde(default)]
    env_vars: Option<BTreeMap<String, String>>,
}

async fn execute(inside: Inside, request: Request) -> Result<Response> {
    let Json(wanted) = Json::<Execute>::from_request(request, &inside.app).await?;
    if wanted.context_id.is_some() && wanted.language.is_some() {
        return Err(Refusal::invalid("only one of context_id or language can be provided"));
    }
    let request = RunCode {
        code: wanted.code,
        language: wanted.language.map(|language| named(&language)),
        context: wanted.context_id,
        stdin: None,
        env: wanted.env_vars.unwrap_or_default(),
        cwd: None,
        timeout_seconds: Some(NO_TIME_LIMIT_SECONDS),
        background: true,
        stream: false,
    };
    let failed = |error| Refusal::of(inside.id(), error);
    let begun = inside.fleet().run_code(&inside.actor, inside.id(), request, None).await.map_err(failed)?;
    let mut unwatched = Unwatched::new(&inside, &begun);
    let from = OutputFrom { follow: true, ..OutputFrom::default() };
    let mut reader =
        inside.fleet().output(&inside.actor, inside.id(), begun.exec, from).await.map_err(failed)?;
    let context = begun.context.clone().unwrap_or_default();
    let count = inside.app.e2b().executions.next(inside.id(), &context);
    let ending = inside.app.ending().clone();
    let body = async_stream::stream! {
        let mut texts = Texts::default();
        yield line(&json!({ "type": "number_of_executions", "execution_count": count }));
        loop {
            let step = tokio::select! {
                biased;
                () = ending.cancelled() => Step::Ending,
                event = reader.next() => Step::Next(event),
                () = tokio::time::sleep(ALIVE_EVERY) => Step::Quiet,
            };
            let event = match step {
                Step::Next(event) => event,
                Step::Quiet => {
                    yield line(&json!({ "type": "keepalive" }));
                    continue;
                }
                Step::Ending => {
                    unwatched.is_over();
                    yield Err(broken_off("the server is shutting down"));
                    return;
                }
            };
            match event {
                Some(Ok(OutputEvent::Output { stream, data, .. })) => {
                    if let Some(said) = texts.take(stream, &data) {
                        yield line(&said);
                    }
                }
                Some(Ok(OutputEvent::Gap { stream, bytes, .. })) => {
                    if let Some(said) = texts.rest(stream) {
                        yield line(&said);
                    }
                    yield line(&text(stream, &format!("... {bytes} bytes were not kept ...\n")));
                }
                Some(Ok(OutputEvent::Result { result })) => yield line(&code_results::result(&result)),
                Some(Ok(OutputEvent::Error { error })) => {
                    yield line(&json!({
                        "type": "error", "name": error.name, "value": error.value, "traceback": error.traceback,
                    }));
                }
                Some(Ok(OutputEvent::Alive)) => {}
                Some(Ok(OutputEvent::Ended { exec })) => {
                    unwatched.is_over();
                    let rests = [StreamName::Stdout, StreamName::Stderr].map(|stream| texts.rest(stream));
                    for said in rests.into_iter().flatten() {
                        yield line(&said);
                    }
                    if exec.cause == Some(ExecCause::SandboxEnded) {
                        yield Err(broken_off("the sandbox has ended"));
                        return;
                    }
                    yield line(&json!({ "type": "end_of_execution" }));
                    return;
                }
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
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((headers, Body::from_stream(body)).into_response())
}

/// The next thing that the answer has to react to.
enum Step {
    Next(Option<std::result::Result<OutputEvent, FleetError>>),
    Quiet,
    Ending,
}

/// Interrupts the code when nobody reads its answer any more.
struct Unwatched {
    running: Option<(Inside, u32)>,
}

impl Unwatched {
    fn new(inside: &Inside, exec: &Exec) -> Unwatched {
        let own =
            Inside { app: inside.app.clone(), actor: inside.actor.clone(), sandbox: inside.sandbox.clone() };
        Unwatched { running: Some((own, exec.exec)) }
    }

    fn is_over(&mut self) {
        self.running = None;
    }
}

impl Drop for Unwatched {
    fn drop(&mut self) {
        let (Some((inside, exec)), Ok(runtime)) =
            (self.running.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        runtime.spawn(async move {
            let _ = inside.fleet().kill_exec(&inside.actor, inside.id(), exec).await;
        });
    }
}

/// Bytes of both streams as text; a character that came in two pieces is told whole.
#[derive(Default)]
struct Texts {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Texts {
    fn take(&mut self, stream: StreamName, data: &str) -> Option<Value> {
        let held = self.held(stream);
        held.extend(STANDARD.decode(data).unwrap_or_default());
        let whole = match std::str::from_utf8(held) {
            // The beginning of a character: the rest is still to come.
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => held.len(),
        };
        let rest = held.split_off(whole);
        let said = std::mem::replace(held, rest);
        (!said.is_empty()).then(|| text(stream, &String::from_utf8_lossy(&said)))
    }

    /// The beginning of a character whose rest does not come.
    fn rest(&mut self, stream: StreamName) -> Option<Value> {
        let said = std::mem::take(self.held(stream));
        (!said.is_empty()).then(|| text(stream, &String::from_utf8_lossy(&said)))
    }

    fn held(&mut self, stream: StreamName) -> &mut Vec<u8> {
        match stream {
            StreamName::Stdout => &mut self.stdout,
            StreamName::Stderr => &mut self.stderr,
        }
    }
}

fn text(stream: StreamName, said: &str) -> Value {
    let kind = match stream {
        StreamName::Stdout => "stdout",
        StreamName::Stderr => "stderr",
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    json!({ "type": kind, "text": said, "timestamp": rfc3339_unsigned(u64::try_from(now).unwrap_or(u64::MAX)) })
}

fn line(value: &Value) -> std::io::Result<Bytes> {
    Ok(format!("{value}\n").into())
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct NewContext {
    cwd: Option<String>,
    language: Option<String>,
}

async fn create(inside: Inside, request: Request) -> Result<Response> {
    let Json(wanted) = Json::<NewContext>::from_request(request, &inside.app).await?;
    let cwd = wanted.cwd.map(|cwd| inside.user(None).path(&cwd)).transpose()?;
    let request = CreateContext {
        language: wanted.language.map(|language| named(&language)),
        cwd,
        ..CreateContext::default()
    };
    let made = inside.fleet().create_context(&inside.actor, inside.id(), request).await;
    let made = made.map_err(|error| Refusal::of(inside.id(), error))?;
    Ok(Answer(described(&made)).into_response())
}

async fn list(inside: Inside) -> Result<Response> {
    let contexts = inside.fleet().contexts(&inside.actor, inside.id()).await;
    let contexts = contexts.map_err(|error| Refusal::of(inside.id(), error))?;
    Ok(Answer(contexts.iter().map(described).collect::<Vec<_>>()).into_response())
}

async fn delete(inside: Inside, id: &str) -> Result<Response> {
    let deleted = inside.fleet().delete_context(&inside.actor, inside.id(), id).await;
    deleted.map_err(|error| Refusal::of(inside.id(), error))?;
    inside.app.e2b().executions.reset(inside.id(), id);
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn restart(inside: Inside, id: &str) -> Result<Response> {
    let begun = inside.fleet().restart_context(&inside.actor, inside.id(), id).await;
    begun.map_err(|error| Refusal::of(inside.id(), error))?;
    inside.app.e2b().executions.reset(inside.id(), id);
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn described(context: &Context) -> Value {
    json!({ "id": context.id, "language": context.language, "cwd": context.cwd.as_deref().unwrap_or(HOME) })
}

/// Short names that E2B knows too.
fn named(language: &str) -> String {
    match language.to_ascii_lowercase().as_str() {
        "js" => "javascript".into(),
        "ts" => "typescript".into(),
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_in_two_pieces_is_told_whole() {
        let mut texts = Texts::default();
        let encoded = |bytes: &[u8]| STANDARD.encode(bytes);
        let said =
            |value: Option<Value>| value.map(|value| value["text"].as_str().unwrap_or_default().to_string());
        assert_eq!(
            said(texts.take(StreamName::Stdout, &encoded("a\u{e4}".as_bytes().split_at(2).0))),
            Some("a".into())
        );
        assert_eq!(said(texts.take(StreamName::Stderr, &encoded(b"err"))), Some("err".into()));
        assert_eq!(said(texts.take(StreamName::Stdout, &encoded(&[0xa4, b'b']))), Some("\u{e4}b".into()));
        assert_eq!(said(texts.take(StreamName::Stdout, &encoded(&[0xff, b'c']))), Some("\u{fffd}c".into()));
        assert_eq!(said(texts.take(StreamName::Stdout, &encoded(&[0xc3]))), None);
        // Its other half never comes.
        assert_eq!(said(texts.rest(StreamName::Stdout)), Some("\u{fffd}".into()));
        assert_eq!(
            (said(texts.rest(StreamName::Stdout)), said(texts.rest(StreamName::Stderr))),
            (None, None)
        );
    }

    #[test]
    fn executions_are_counted_for_each_context() {
        let counts = Executions::default();
        assert_eq!((counts.next("a", "x"), counts.next("a", "x"), counts.next("b", "x")), (1, 2, 1));
        counts.reset("a", "x");
        assert_eq!(counts.next("a", "x"), 1);
    }
}
