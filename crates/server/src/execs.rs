//! Commands inside a sandbox: start, wait, read, write, end.

use crate::app::App;
use crate::auth::Caller;
use crate::errors::Failure;
use crate::extract::{Incoming, Json, NoQuery, Query, Target, idempotency_key};
use crate::stream;
use axum::Json as Answer;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use paddock_fleet::{Actor, OutputFrom};
use paddock_model::api::{Exec, OutputEvent, SignalExec, StartExec, StdinReceived, StreamName, TerminalSize};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list_execs, start_exec))
        .routes(routes!(get_exec, kill_exec))
        .routes(routes!(wait_exec))
        .routes(routes!(exec_output))
        .routes(routes!(exec_stdout))
        .routes(routes!(exec_stderr))
        .routes(routes!(exec_stdin))
        .routes(routes!(resize_exec))
        .routes(routes!(signal_exec))
}

#[derive(Serialize, utoipa::ToSchema)]
struct ExecList {
    execs: Vec<Exec>,
}

/// Start a command
///
/// With `background` the answer is 201 at once. Without it, the answer is 200 with the output when the command has
/// ended; it goes on when the caller goes away.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/execs", tag = "execs",
    params(("id" = String, Path, description = "Id or name"),
        ("Idempotency-Key" = Option<String>, Header, description = "The same key gives the same exec again")),
    request_body = StartExec,
    responses((status = 200, description = "It has ended", body = Exec),
        (status = 201, description = "It runs in the background", body = Exec)))]
async fn start_exec(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(id): Target,
    headers: HeaderMap,
    _: NoQuery,
    Json(request): Json<StartExec>,
) -> Result<(StatusCode, Answer<Exec>), Failure> {
    let key = idempotency_key(&headers)?;
    let background = request.background;
    let started = app.fleet().start_exec(&actor, &id, request, key).await?;
    if background {
        return Ok((StatusCode::CREATED, Answer(started)));
    }
    Ok((StatusCode::OK, Answer(wait_for_end(&app, &actor, started).await?)))
}

/// A caller that waits hears when the server ends; the exec itself goes on.
pub async fn wait_for_end(app: &App, actor: &Actor, started: Exec) -> Result<Exec, Failure> {
    tokio::select! {
        () = app.ending().cancelled() => {
            let mut failure = Failure::shutting_down();
            failure.hint = Some(format!(
                "The command goes on as exec {} of sandbox {}; wait for it when the server is back.",
                started.exec, started.sandbox
            ));
            Err(failure)
        }
        ended = app.fleet().wait_exec(actor, &started.sandbox, started.exec, None) => Ok(ended?),
    }
}

/// List the execs of a sandbox
#[utoipa::path(get, path = "/v1/sandboxes/{id}/execs", tag = "execs",
    params(("id" = String, Path, description = "Id or name")), responses((status = 200, body = ExecList)))]
async fn list_execs(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(id): Target,
    _: NoQuery,
) -> Result<Answer<ExecList>, Failure> {
    Ok(Answer(ExecList { execs: app.fleet().execs(&actor, &id).await? }))
}

/// One exec
#[utoipa::path(get, path = "/v1/sandboxes/{id}/execs/{exec}", tag = "execs",
    params(("id" = String, Path, description = "Id or name"), ("exec" = u32, Path, description = "Number of the exec")),
    responses((status = 200, body = Exec)))]
async fn get_exec(
    State(app): State<App>,
    Caller(actor): Caller,
    Target((id, exec)): Target<(String, u32)>,
    _: NoQuery,
) -> Result<Answer<Exec>, Failure> {
    Ok(Answer(app.fleet().exec(&actor, &id, exec).await?))
}

/// Kill an exec
#[utoipa::path(delete, path = "/v1/sandboxes/{id}/execs/{exec}", tag = "execs",
    params(("id" = String, Path, description = "Id or name"), ("exec" = u32, Path, description = "Number of the exec")),
    responses((status = 200, body = Exec)))]
async fn kill_exec(
    State(app): State<App>,
    Caller(actor): Caller,
    Target((id, exec)): Target<(String, u32)>,
    _: NoQuery,
) -> Result<Answer<Exec>, Failure> {
    Ok(Answer(app.fleet().kill_exec(&actor, &id, exec).await?))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Waiting {
    /// Answer after so long at the latest; the exec is then still `running`. Default: for ever.
    #[serde(default)]
    #[param(minimum = 0, maximum = 86400)]
    timeout_seconds: Option<f64>,
}

/// Wait for the end of an exec
#[utoipa::path(get, path = "/v1/sandboxes/{id}/execs/{exec}/wait", tag = "execs",
    params(("id" = String, Path, description = "Id or name"), ("exec" = u32, Path, description = "Number of the exec"), Waiting),
    responses((status = 200, body = Exec)))]
async fn wait_exec(
    State(app): State<App>,
    Caller(actor): Caller,
    Target((id, exec)): Target<(String, u32)>,
    Query(waiting): Query<Waiting>,
) -> Result<Answer<Exec>, Failure> {
    let patience = match waiting.timeout_seconds {
        None => None,
        Some(seconds) if (0.0..=86_400.0).contains(&seconds) => Some(Duration::from_secs_f64(seconds)),
        Some(seconds) => {
            return Err(Failure::invalid(format!(
                "parameter `timeout_seconds`: {seconds} is not 0 to 86400"
            )));
        }
    };
    tokio::select! {
        () = app.ending().cancelled() => Err(Failure::shutting_down()),
        exec = app.fleet().wait_exec(&actor, &id, exec, patience) => Ok(Answer(exec?)),
    }
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Reading {
    /// Bytes of standard output that the caller has already.
    #[serde(default)]
    stdout_offset: u64,
    #[serde(default)]
    stderr_offset: u64,
    /// Results and errors of code that the caller has already.
    #[serde(default)]
    results_offset: u64,
    /// Go on until the exec has ended; else only what there is now.
    #[serde(default)]
    follow: bool,
}

/// Output of both streams, in order, as lines of JSON
#[utoipa::path(get, path = "/v1/sandboxes/{id}/execs/{exec}/output", tag = "execs",
    params(("id" = String, Path, description = "Id or name"), ("exec" = u32, Path, description = "Number of the exec"), Reading),
    responses((status = 200, description = "One OutputEvent per line", content_type = "application/x-ndjson", body = OutputEvent)))]
async fn exec_output(
    State(app): State<App>,
    Caller(actor): Caller,
    Target((id, exec)): Target<(String, u32)>,
    Query(reading): Query<Reading>,
) -> Result<Response, Failure> {
    let from = OutputFrom {
        stdout: reading.stdout_offset,
        stderr: reading.stderr_offset,
        results: reading.results_offset,
        follow: reading.follow,
    };
    let reader = app.fleet().output(&actor, &id, exec, from).await?;
    Ok(stream::output(&app, reader, reading.follow))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct RawReading {
    /// Bytes of this stream that the caller has already.
    #[serde(default)]
    offset: u64,
    /// Go on until the exec has ended; else only what there is now.
    #[serde(default)]
    follow: bool,
}

/// The exact bytes of standard output
///
/// Header X-Paddock-Offset says where the first byte stands in the stream. Where bytes at `offset` were not kept,
/// X-Paddock-Missing says how many, and the answer begins behind them. A gap further on ends the answer. Whenever bytes
/// are missing the status is 206, and Content-Range says which there are; with `follow`, a gap breaks the answer off.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/execs/{exec}/stdout", tag = "execs",
    params(("id" = String, Path, description = "Id or name"), ("exec" = u32, Path, description = "Number of the exec"), RawReading),
    responses((status = 200, content_type = "application/octet-stream", body = [u8]),
        (status = 206, description = "Some bytes were not kept", content_type = "application/octet-stream", body = [u8])))]
async fn exec_stdout(
    State(app): State<App>,
    Caller(actor): Caller,
    Target((id, exec)): Target<(String, u32)>,
    Query(reading): Query<RawReading>,
) -> Result<Response, Failure> {
    raw(&app, &actor, &id, exec, StreamName::Stdout, &reading).await
}

/// The exact bytes of standard error
///
/// As for standard output.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/execs/{exec}/stderr", tag = "execs",
    params(("id" = String, Path, description = "Id or name"), ("exec" = u32, Path, description = "Number of the exec"), RawReading),
    responses((status = 200, content_type = "application/octet-stream", body = [u8]),
        (status = 206, description = "Some bytes were not kept", content_type = "application/octet-stream", body = [u8])))]
async fn exec_stderr(
    State(app): State<App>,
    Caller(actor): Caller,
    Target((id, exec)): Target<(String, u32)>,
    Query(reading): Query<RawReading>,
) -> Result<Response, Failure> {
    raw(&app, &actor, &id, exec, StreamName::Stderr, &reading).await
}

async fn raw(
    app: &App,
    actor: &Actor,
    id: &str,
    exec: u32,
    name: StreamName,
    reading: &RawReading,
) -> Result<Response, Failure> {
    let reader = app.fleet().raw_output(actor, id, exec, name, reading.offset, reading.follow).await?;
    Ok(stream::raw(app, reader, reading.offset, reading.follow).await?)
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Feeding {
    /// Where the first byte stands in all of the input; bytes that arrived already are skipped.
    #[serde(default)]
    offset: Option<u64>,
    /// No more will come after these bytes.
    #[serde(default)]
    close: bool,
}

/// Write to standard input
#[utoipa::path(post, path = "/v1/sandboxes/{id}/execs/{exec}/stdin", tag = "execs",
    params(("id" = String, Path, description = "Id or name"), ("exec" = u32, Path, description = "Number of the exec"), Feeding),
    request_body(content = [u8], content_type = "application/octet-stream"),
    responses((status = 200, body = StdinReceived)))]
async fn exec_stdin(
    State(app): State<App>,
    Caller(actor): Caller,
    Target((id, exec)): Target<(String, u32)>,
    Query(feeding): Query<Feeding>,
    mut body: Incoming,
) -> Result<Answer<StdinReceived>, Failure> {
    let mut input = app.fleet().exec_input(&actor, &id, exec).await?;
    // An empty write tells how far the input is.
    let mut received = input.write(feeding.offset, &[]).await?;
    let mut offset = feeding.offset.unwrap_or(received);
    while let Some(bytes) = body.next().await? {
        received = input.write(Some(offset), &bytes).await?;
        offset += bytes.len() as u64;
    }
    if feeding.close {
        input.close().await?;
    }
    Ok(Answer(StdinReceived { offset: received }))
}

/// Give the terminal of an exec another size
#[utoipa::path(post, path = "/v1/sandboxes/{id}/execs/{exec}/resize", tag = "execs",
    params(("id" = String, Path, description = "Id or name"), ("exec" = u32, Path, description = "Number of the exec")),
    request_body = TerminalSize, responses((status = 204)))]
async fn resize_exec(
    State(app): State<App>,
    Caller(actor): Caller,
    Target((id, exec)): Target<(String, u32)>,
    _: NoQuery,
    Json(size): Json<TerminalSize>,
) -> Result<StatusCode, Failure> {
    app.fleet().resize_exec(&actor, &id, exec, size).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Send a signal to an exec
#[utoipa::path(post, path = "/v1/sandboxes/{id}/execs/{exec}/signal", tag = "execs",
    params(("id" = String, Path, description = "Id or name"), ("exec" = u32, Path, description = "Number of the exec")),
    request_body = SignalExec, responses((status = 204)))]
async fn signal_exec(
    State(app): State<App>,
    Caller(actor): Caller,
    Target((id, exec)): Target<(String, u32)>,
    _: NoQuery,
    Json(request): Json<SignalExec>,
) -> Result<StatusCode, Failure> {
    app.fleet().signal_exec(&actor, &id, exec, &request.signal).await?;
    Ok(StatusCode::NO_CONTENT)
}
