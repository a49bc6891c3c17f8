//! Code contexts: interpreters inside a sandbox that remember.

use crate::app::App;
use crate::auth::Caller;
use crate::errors::Failure;
use crate::extract::{Json, NoQuery, Target};
use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use paddock_model::api::{Context, CreateContext};
use serde::Serialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list_contexts, create_context))
        .routes(routes!(get_context, delete_context))
        .routes(routes!(restart_context))
        .routes(routes!(interrupt_context))
}

#[derive(Serialize, utoipa::ToSchema)]
struct ContextList {
    contexts: Vec<Context>,
}

#[derive(Serialize, utoipa::ToSchema)]
struct Interrupted {
    /// True if there was code to interrupt.
    interrupted: bool,
}

/// Create a context
#[utoipa::path(post, path = "/v1/sandboxes/{id}/contexts", tag = "code",
    params(("id" = String, Path, description = "Id or name")), request_body = CreateContext,
    responses((status = 201, body = Context)))]
async fn create_context(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(id): Target,
    _: NoQuery,
    Json(request): Json<CreateContext>,
) -> Result<(StatusCode, Answer<Context>), Failure> {
    let made = app.fleet().create_context(&actor, &id, request).await?;
    Ok((StatusCode::CREATED, Answer(made)))
}

/// List the contexts of a sandbox
#[utoipa::path(get, path = "/v1/sandboxes/{id}/contexts", tag = "code",
    params(("id" = String, Path, description = "Id or name")), responses((status = 200, body = ContextList)))]
async fn list_contexts(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(id): Target,
    _: NoQuery,
) -> Result<Answer<ContextList>, Failure> {
    Ok(Answer(ContextList { contexts: app.fleet().contexts(&actor, &id).await? }))
}

/// One context
#[utoipa::path(get, path = "/v1/sandboxes/{id}/contexts/{context}", tag = "code",
    params(("id" = String, Path, description = "Id or name"), ("context" = String, Path, description = "Id of the context")),
    responses((status = 200, body = Context)))]
async fn get_context(
    State(app): State<App>,
    Caller(actor): Caller,
    Target((id, context)): Target<(String, String)>,
    _: NoQuery,
) -> Result<Answer<Context>, Failure> {
    Ok(Answer(app.fleet().context(&actor, &id, &context).await?))
}

/// Delete a context
///
/// Code that runs in it ends with it.
#[utoipa::path(delete, path = "/v1/sandboxes/{id}/contexts/{context}", tag = "code",
    params(("id" = String, Path, description = "Id or name"), ("context" = String, Path, description = "Id of the context")),
    responses((status = 204)))]
async fn delete_context(
    State(app): State<App>,
    Caller(actor): Caller,
    Target((id, context)): Target<(String, String)>,
    _: NoQuery,
) -> Result<StatusCode, Failure> {
    app.fleet().delete_context(&actor, &id, &context).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Begin a context anew
///
/// Code that runs in it ends, and what it remembered is gone. The rest of the sandbox is left alone.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/contexts/{context}/restart", tag = "code",
    params(("id" = String, Path, description = "Id or name"), ("context" = String, Path, description = "Id of the context")),
    responses((status = 200, body = Context)))]
async fn restart_context(
    State(app): State<App>,
    Caller(actor): Caller,
    Target((id, context)): Target<(String, String)>,
    _: NoQuery,
) -> Result<Answer<Context>, Failure> {
    Ok(Answer(app.fleet().restart_context(&actor, &id, &context).await?))
}

/// Interrupt what runs in a context
///
/// As Ctrl-C would. The context keeps what it remembers.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/contexts/{context}/interrupt", tag = "code",
    params(("id" = String, Path, description = "Id or name"), ("context" = String, Path, description = "Id of the context")),
    responses((status = 200, body = Interrupted)))]
async fn interrupt_context(
    State(app): State<App>,
    Caller(actor): Caller,
    Target((id, context)): Target<(String, String)>,
    _: NoQuery,
) -> Result<Answer<Interrupted>, Failure> {
    let interrupted = app.fleet().interrupt_context(&actor, &id, &context).await?;
    Ok(Answer(Interrupted { interrupted }))
}
