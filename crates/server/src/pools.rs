//! Sandboxes that are ready before a request comes, per template.

use crate::app::App;
use crate::auth::Caller;
use crate::errors::Failure;
use crate::extract::{Json, NoQuery, Target};
use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use paddock_model::api::{Pool, PoolSize};
use serde::Serialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list_pools)).routes(routes!(get_pool, set_pool, delete_pool))
}

#[derive(Serialize, utoipa::ToSchema)]
struct PoolList {
    pools: Vec<Pool>,
}

/// List pools
///
/// For the owner by the unix socket, and for an admin token of the owner's tenant.
#[utoipa::path(get, path = "/v1/pools", tag = "pools", responses((status = 200, body = PoolList)))]
async fn list_pools(
    State(app): State<App>,
    Caller(actor): Caller,
    _: NoQuery,
) -> Result<Answer<PoolList>, Failure> {
    Ok(Answer(PoolList { pools: app.fleet().pools(&actor)? }))
}

/// One pool
#[utoipa::path(get, path = "/v1/pools/{template}", tag = "pools",
    params(("template" = String, Path, description = "Name of the template")), responses((status = 200, body = Pool)))]
async fn get_pool(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(template): Target,
    _: NoQuery,
) -> Result<Answer<Pool>, Failure> {
    Ok(Answer(app.fleet().pool(&actor, &template)?))
}

/// Keep sandboxes of a template ready
///
/// Answers at once; they are made afterwards. The size is kept over restarts of the server.
#[utoipa::path(put, path = "/v1/pools/{template}", tag = "pools",
    params(("template" = String, Path, description = "Name of the template")), request_body = PoolSize,
    responses((status = 200, body = Pool)))]
async fn set_pool(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(template): Target,
    _: NoQuery,
    Json(size): Json<PoolSize>,
) -> Result<Answer<Pool>, Failure> {
    Ok(Answer(app.fleet().set_pool(&actor, &template, size)?))
}

/// Keep none of them ready any more
///
/// Those that were given away live on.
#[utoipa::path(delete, path = "/v1/pools/{template}", tag = "pools",
    params(("template" = String, Path, description = "Name of the template")), responses((status = 204)))]
async fn delete_pool(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(template): Target,
    _: NoQuery,
) -> Result<StatusCode, Failure> {
    app.fleet().remove_pool(&actor, &template)?;
    Ok(StatusCode::NO_CONTENT)
}
