//! Sandboxes: create, look, change, end.

use crate::app::App;
use crate::auth::Caller;
use crate::errors::Failure;
use crate::extract::{Json, NoQuery, OptionalJson, Query, Target, idempotency_key};
use axum::Json as Answer;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use paddock_fleet::ListFilter;
use paddock_model::api::{
    CreateSandbox, Extend, Hibernate, Pause, Resume, Sandbox, SandboxMetrics, SandboxPage, SandboxState,
    SandboxUsage, UpdateSandbox,
};
use serde::Deserialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

const PAGE: usize = 100;
const LONGEST_PAGE: usize = 1000;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list_sandboxes, create_sandbox))
        .routes(routes!(get_sandbox, update_sandbox, kill_sandbox))
        .routes(routes!(extend_sandbox))
        .routes(routes!(pause_sandbox))
        .routes(routes!(resume_sandbox))
        .routes(routes!(hibernate_sandbox))
        .routes(routes!(wake_sandbox))
        .routes(routes!(sandbox_usage))
        .routes(routes!(sandbox_metrics))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Listing {
    /// Only in this state; may be repeated. Without it, all that live.
    #[serde(default)]
    state: Vec<SandboxState>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    template: Option<String>,
    /// `key=value`; may be repeated, and all have to match.
    #[serde(default)]
    metadata: Vec<String>,
    /// 1 to 1000; default 100.
    #[serde(default)]
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// `next_cursor` of the page before.
    #[serde(default)]
    cursor: Option<String>,
    /// Only those made after this time, in milliseconds since 1970.
    #[serde(default)]
    created_after_ms: Option<u64>,
    /// `desc` (default): the newest first; `asc`: the oldest first.
    #[serde(default)]
    #[param(inline)]
    order: Order,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
enum Order {
    #[default]
    Desc,
    Asc,
}

/// How many a page has, where the caller says so.
pub fn page_limit(limit: Option<usize>) -> Result<usize, Failure> {
    match limit.unwrap_or(PAGE) {
        limit @ 1..=LONGEST_PAGE => Ok(limit),
        limit => Err(Failure::invalid(format!("parameter `limit`: {limit} is not 1 to {LONGEST_PAGE}"))),
    }
}

/// List sandboxes by age
#[utoipa::path(get, path = "/v1/sandboxes", tag = "sandboxes", params(Listing),
    responses((status = 200, body = SandboxPage)))]
async fn list_sandboxes(
    State(app): State<App>,
    Caller(actor): Caller,
    Query(listing): Query<Listing>,
) -> Result<Answer<SandboxPage>, Failure> {
    let metadata = listing.metadata.iter().map(|pair| match pair.split_once('=') {
        Some((key, value)) => Ok((key.to_string(), value.to_string())),
        None => Err(Failure::invalid(format!("parameter `metadata`: {pair:?} is not of the form key=value"))),
    });
    let filter = ListFilter {
        metadata: metadata.collect::<Result<_, _>>()?,
        limit: page_limit(listing.limit)?,
        states: listing.state,
        name: listing.name,
        template: listing.template,
        cursor: listing.cursor,
        oldest_first: listing.order == Order::Asc,
        created_after_ms: listing.created_after_ms,
        ..ListFilter::default()
    };
    Ok(Answer(app.fleet().list(&actor, &filter).await?))
}

/// Create a sandbox
///
/// Answers when it is ready. With a full quota it waits for room, up to a bound.
#[utoipa::path(post, path = "/v1/sandboxes", tag = "sandboxes",
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key gives the same sandbox again")),
    request_body = Option<CreateSandbox>,
    responses((status = 201, body = Sandbox), (status = 409, body = paddock_model::api::ApiError)))]
async fn create_sandbox(
    State(app): State<App>,
    Caller(actor): Caller,
    headers: HeaderMap,
    _: NoQuery,
    OptionalJson(request): OptionalJson<CreateSandbox>,
) -> Result<(StatusCode, Answer<Sandbox>), Failure> {
    let key = idempotency_key(&headers)?;
    Ok((StatusCode::CREATED, Answer(app.fleet().create(&actor, request, key).await?)))
}

/// One sandbox
#[utoipa::path(get, path = "/v1/sandboxes/{id}", tag = "sandboxes", params(("id" = String, Path, description = "Id or name")),
    responses((status = 200, body = Sandbox)))]
async fn get_sandbox(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(id): Target,
    _: NoQuery,
) -> Result<Answer<Sandbox>, Failure> {
    Ok(Answer(app.fleet().get(&actor, &id).await?))
}

/// Change metadata, idle action, persistence, limits, or what later commands get
///
/// All that is asked for happens, or nothing. A hibernated sandbox wakes with its new limits.
#[utoipa::path(patch, path = "/v1/sandboxes/{id}", tag = "sandboxes", params(("id" = String, Path, description = "Id or name")),
    request_body = UpdateSandbox,
    responses((status = 200, body = Sandbox), (status = 409, body = paddock_model::api::ApiError)))]
async fn update_sandbox(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(id): Target,
    _: NoQuery,
    Json(request): Json<UpdateSandbox>,
) -> Result<Answer<Sandbox>, Failure> {
    Ok(Answer(app.fleet().update(&actor, &id, request).await?))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Ending {
    /// The work in it failed: its volumes are treated as their `on_failure` says.
    #[serde(default)]
    failed: bool,
}

/// End a sandbox
#[utoipa::path(delete, path = "/v1/sandboxes/{id}", tag = "sandboxes",
    params(("id" = String, Path, description = "Id or name"), Ending), responses((status = 200, body = Sandbox)))]
async fn kill_sandbox(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(id): Target,
    Query(ending): Query<Ending>,
) -> Result<Answer<Sandbox>, Failure> {
    Ok(Answer(match ending.failed {
        true => app.fleet().fail(&actor, &id).await?,
        false => app.fleet().kill(&actor, &id).await?,
    }))
}

/// Set a new time to live, from now
#[utoipa::path(post, path = "/v1/sandboxes/{id}/extend", tag = "sandboxes", params(("id" = String, Path, description = "Id or name")),
    request_body = Extend, responses((status = 200, body = Sandbox)))]
async fn extend_sandbox(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(id): Target,
    _: NoQuery,
    Json(request): Json<Extend>,
) -> Result<Answer<Sandbox>, Failure> {
    Ok(Answer(app.fleet().extend(&actor, &id, request).await?))
}

/// Freeze everything inside; memory is kept
#[utoipa::path(post, path = "/v1/sandboxes/{id}/pause", tag = "sandboxes", params(("id" = String, Path, description = "Id or name")),
    request_body = Option<Pause>, responses((status = 200, body = Sandbox)))]
async fn pause_sandbox(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(id): Target,
    _: NoQuery,
    OptionalJson(request): OptionalJson<Pause>,
) -> Result<Answer<Sandbox>, Failure> {
    Ok(Answer(app.fleet().pause(&actor, &id, request).await?))
}

/// Go on after a pause
#[utoipa::path(post, path = "/v1/sandboxes/{id}/resume", tag = "sandboxes", params(("id" = String, Path, description = "Id or name")),
    request_body = Option<Resume>, responses((status = 200, body = Sandbox)))]
async fn resume_sandbox(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(id): Target,
    _: NoQuery,
    OptionalJson(request): OptionalJson<Resume>,
) -> Result<Answer<Sandbox>, Failure> {
    Ok(Answer(app.fleet().resume(&actor, &id, request).await?))
}

/// Keep the files, give up processes and memory
#[utoipa::path(post, path = "/v1/sandboxes/{id}/hibernate", tag = "sandboxes", params(("id" = String, Path, description = "Id or name")),
    request_body = Option<Hibernate>, responses((status = 200, body = Sandbox)))]
async fn hibernate_sandbox(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(id): Target,
    _: NoQuery,
    OptionalJson(request): OptionalJson<Hibernate>,
) -> Result<Answer<Sandbox>, Failure> {
    Ok(Answer(app.fleet().hibernate(&actor, &id, request).await?))
}

/// Wake a hibernated sandbox
#[utoipa::path(post, path = "/v1/sandboxes/{id}/wake", tag = "sandboxes", params(("id" = String, Path, description = "Id or name")),
    request_body = Option<Resume>, responses((status = 200, body = Sandbox)))]
async fn wake_sandbox(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(id): Target,
    _: NoQuery,
    OptionalJson(request): OptionalJson<Resume>,
) -> Result<Answer<Sandbox>, Failure> {
    Ok(Answer(app.fleet().wake(&actor, &id, request).await?))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Between {
    /// Milliseconds since 1970; default: all that are kept.
    #[serde(default)]
    start_ms: Option<u64>,
    #[serde(default)]
    end_ms: Option<u64>,
}

/// Use of the host over the last minutes, and now
#[utoipa::path(get, path = "/v1/sandboxes/{id}/metrics", tag = "sandboxes",
    params(("id" = String, Path, description = "Id or name"), Between), responses((status = 200, body = SandboxMetrics)))]
async fn sandbox_metrics(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(id): Target,
    Query(between): Query<Between>,
) -> Result<Answer<SandboxMetrics>, Failure> {
    Ok(Answer(app.fleet().usage_history(&actor, &id, between.start_ms, between.end_ms).await?))
}

/// Resources that a sandbox uses now
#[utoipa::path(get, path = "/v1/sandboxes/{id}/usage", tag = "sandboxes", params(("id" = String, Path, description = "Id or name")),
    responses((status = 200, body = SandboxUsage)))]
async fn sandbox_usage(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(id): Target,
    _: NoQuery,
) -> Result<Answer<SandboxUsage>, Failure> {
    Ok(Answer(app.fleet().usage(&actor, &id).await?))
}
