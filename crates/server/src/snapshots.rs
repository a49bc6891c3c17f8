//! Named states of files, and forks.

use crate::app::App;
use crate::auth::Caller;
use crate::errors::{Failure, hide_host_of};
use crate::extract::{NoQuery, OptionalJson, Query, Target, idempotency_key};
use crate::sandboxes::page_limit;
use axum::Json as Answer;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use paddock_model::api::{CreateSnapshot, Fork, Forked, Snapshot, SnapshotPage};
use paddock_records::store::SnapshotFilter;
use serde::Deserialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(create_snapshot))
        .routes(routes!(list_snapshots))
        .routes(routes!(get_snapshot, delete_snapshot))
        .routes(routes!(fork_sandbox))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Listing {
    /// 1 to 1000; default 100.
    #[serde(default)]
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// `next_cursor` of the page before.
    #[serde(default)]
    cursor: Option<String>,
    /// Only the one of this name.
    #[serde(default)]
    name: Option<String>,
    /// Only those of the sandbox with this id.
    #[serde(default)]
    sandbox: Option<String>,
}

/// Keep the files of a sandbox as they are now
#[utoipa::path(post, path = "/v1/sandboxes/{id}/snapshots", tag = "snapshots",
    params(("id" = String, Path, description = "Id or name")),
    request_body = Option<CreateSnapshot>, responses((status = 201, body = Snapshot)))]
async fn create_snapshot(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(id): Target,
    _: NoQuery,
    OptionalJson(request): OptionalJson<CreateSnapshot>,
) -> Result<(StatusCode, Answer<Snapshot>), Failure> {
    Ok((StatusCode::CREATED, Answer(app.fleet().create_snapshot(&actor, &id, request).await?)))
}

/// List snapshots
#[utoipa::path(get, path = "/v1/snapshots", tag = "snapshots", params(Listing),
    responses((status = 200, body = SnapshotPage)))]
async fn list_snapshots(
    State(app): State<App>,
    Caller(actor): Caller,
    Query(listing): Query<Listing>,
) -> Result<Answer<SnapshotPage>, Failure> {
    let limit = page_limit(listing.limit)?;
    let filter = SnapshotFilter { name: listing.name, sandbox: listing.sandbox };
    Ok(Answer(app.fleet().snapshots(&actor, &filter, limit, listing.cursor.as_deref()).await?))
}

/// One snapshot
#[utoipa::path(get, path = "/v1/snapshots/{snapshot}", tag = "snapshots",
    params(("snapshot" = String, Path, description = "Id or name")), responses((status = 200, body = Snapshot)))]
async fn get_snapshot(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(snapshot): Target,
    _: NoQuery,
) -> Result<Answer<Snapshot>, Failure> {
    Ok(Answer(app.fleet().snapshot(&actor, &snapshot).await?))
}

/// Forget a snapshot
#[utoipa::path(delete, path = "/v1/snapshots/{snapshot}", tag = "snapshots",
    params(("snapshot" = String, Path, description = "Id or name")), responses((status = 200, body = Snapshot)))]
async fn delete_snapshot(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(snapshot): Target,
    _: NoQuery,
) -> Result<Answer<Snapshot>, Failure> {
    Ok(Answer(app.fleet().delete_snapshot(&actor, &snapshot).await?))
}

/// New sandboxes that begin with the files of this one
///
/// The source keeps running. All are made or none; with `partial` each is made or fails by itself.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/fork", tag = "snapshots",
    params(("id" = String, Path, description = "Id or name"),
        ("Idempotency-Key" = Option<String>, Header, description = "The same key gives the same forks again")),
    request_body = Option<Fork>, responses((status = 201, body = Forked)))]
async fn fork_sandbox(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(id): Target,
    headers: HeaderMap,
    _: NoQuery,
    OptionalJson(request): OptionalJson<Fork>,
) -> Result<(StatusCode, Answer<Forked>), Failure> {
    let key = idempotency_key(&headers)?;
    let mut forked = app.fleet().fork(&actor, &id, request, key).await?;
    if !actor.owner {
        hide_host_of(&mut forked.failed);
    }
    Ok((StatusCode::CREATED, Answer(forked)))
}
