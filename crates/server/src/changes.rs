//! The changes of a sandbox, and merging them back into its parent.

use crate::app::App;
use crate::auth::Caller;
use crate::errors::Failure;
use crate::extract::{Json, NoQuery, Query, Target};
use crate::stream;
use axum::Json as Answer;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use paddock_model::api::{Changes, MergeReport, MergeRequest, Since};
use serde::Deserialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list_changes))
        .routes(routes!(changes_archive))
        .routes(routes!(changes_patch))
        .routes(routes!(merge_changes))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct From {
    /// `start` (default), `snapshot` or `parent`.
    #[serde(default)]
    since: Option<Since>,
}

/// Files that a sandbox added, modified and deleted
#[utoipa::path(get, path = "/v1/sandboxes/{id}/changes", tag = "changes",
    params(("id" = String, Path, description = "Id or name"), From), responses((status = 200, body = Changes)))]
async fn list_changes(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(id): Target,
    Query(from): Query<From>,
) -> Result<Answer<Changes>, Failure> {
    Ok(Answer(app.fleet().changes(&actor, &id, from.since.unwrap_or_default()).await?))
}

/// The added and modified files as a tar archive
#[utoipa::path(get, path = "/v1/sandboxes/{id}/changes/archive", tag = "changes",
    params(("id" = String, Path, description = "Id or name"), From),
    responses((status = 200, content_type = "application/x-tar", body = [u8])))]
async fn changes_archive(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(id): Target,
    Query(from): Query<From>,
) -> Result<Response, Failure> {
    let archive = app.fleet().changes_archive(&actor, &id, from.since.unwrap_or_default()).await?;
    Ok(stream::download(&app, archive, stream::TAR))
}

/// The changes as a patch for `patch -p1` and `git apply`
///
/// Against what was there when the sandbox began. What is no text, or larger than 256 KiB, is named in comment lines.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/changes/patch", tag = "changes",
    params(("id" = String, Path, description = "Id or name"), From),
    responses((status = 200, content_type = "text/x-diff", body = String)))]
async fn changes_patch(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(id): Target,
    Query(from): Query<From>,
) -> Result<Response, Failure> {
    let patch = app.fleet().changes_patch(&actor, &id, from.since.unwrap_or_default()).await?;
    let headers = [(header::CONTENT_TYPE, "text/x-diff"), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
    Ok((headers, patch).into_response())
}

/// Bring changes of a fork back into its parent
///
/// `{id}` is the parent. With conflicts nothing is merged, and the report names them.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/merge", tag = "changes",
    params(("id" = String, Path, description = "Id or name")), request_body = MergeRequest,
    responses((status = 200, body = MergeReport)))]
async fn merge_changes(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(id): Target,
    _: NoQuery,
    Json(request): Json<MergeRequest>,
) -> Result<Answer<MergeReport>, Failure> {
    Ok(Answer(app.fleet().merge(&actor, &id, request).await?))
}
