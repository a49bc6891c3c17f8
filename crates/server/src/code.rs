//! Code inside a sandbox.

use crate::app::App;
use crate::auth::Caller;
use crate::errors::Failure;
use crate::execs::wait_for_end;
use crate::extract::{Json, NoQuery, Target, idempotency_key};
use crate::stream;
use axum::Json as Answer;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use paddock_fleet::OutputFrom;
use paddock_model::api::{Exec, OutputEvent, RunCode};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(run_code))
}

/// Run code
///
/// In a context, which remembers what ran in it before. With `background` the answer is 201 at once. With `stream` it is
/// lines of JSON, one OutputEvent each, as things happen. Without either, the answer is 200 with output, results and
/// error when the code has ended.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/code", tag = "code",
    params(("id" = String, Path, description = "Id or name"),
        ("Idempotency-Key" = Option<String>, Header, description = "The same key gives the same exec again")),
    request_body = RunCode,
    responses((status = 200, description = "It has ended; with `stream`, one OutputEvent per line",
            content((Exec = "application/json"), (OutputEvent = "application/x-ndjson"))),
        (status = 201, description = "It runs in the background", body = Exec)))]
async fn run_code(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(id): Target,
    headers: HeaderMap,
    _: NoQuery,
    Json(request): Json<RunCode>,
) -> Result<Response, Failure> {
    let key = idempotency_key(&headers)?;
    let (background, streamed) = (request.background, request.stream);
    let started = app.fleet().run_code(&actor, &id, request, key).await?;
    if background {
        return Ok((StatusCode::CREATED, Answer(started)).into_response());
    }
    if streamed {
        let from = OutputFrom { follow: true, ..OutputFrom::default() };
        let reader = app.fleet().output(&actor, &started.sandbox, started.exec, from).await?;
        return Ok(stream::output(&app, reader, true));
    }
    Ok(Answer(wait_for_end(&app, &actor, started).await?).into_response())
}
