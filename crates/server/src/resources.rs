//! Typed values that are kept for scripts.

use crate::app::App;
use crate::auth::Caller;
use crate::errors::Failure;
use crate::extract::{Json, NoQuery, Target};
use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use paddock_model::api::{Resource, ResourceList, SetResource};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list_resources)).routes(routes!(
        get_resource,
        set_resource,
        remove_resource
    ))
}

/// List resources, without their values
#[utoipa::path(get, path = "/v1/resources", tag = "resources", responses((status = 200, body = ResourceList)))]
async fn list_resources(
    State(app): State<App>,
    Caller(actor): Caller,
    _: NoQuery,
) -> Result<Answer<ResourceList>, Failure> {
    Ok(Answer(ResourceList { resources: app.fleet().resources(&actor)? }))
}

/// One resource
///
/// A value that is bound to hosts is not shown again; a read-only token sees no value at all.
#[utoipa::path(get, path = "/v1/resources/{resource}", tag = "resources",
    params(("resource" = String, Path, description = "Name; a `/` in it is written as %2F")),
    responses((status = 200, body = Resource)))]
async fn get_resource(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(resource): Target,
    _: NoQuery,
) -> Result<Answer<Resource>, Failure> {
    Ok(Answer(app.fleet().resource(&actor, &resource)?))
}

/// Keep a value for scripts, or another in its place
#[utoipa::path(put, path = "/v1/resources/{resource}", tag = "resources",
    params(("resource" = String, Path, description = "Name; a `/` in it is written as %2F")),
    request_body = SetResource, responses((status = 200, body = Resource)))]
async fn set_resource(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(resource): Target,
    _: NoQuery,
    Json(request): Json<SetResource>,
) -> Result<Answer<Resource>, Failure> {
    Ok(Answer(app.fleet().set_resource(&actor, &resource, request)?))
}

/// Forget a value
#[utoipa::path(delete, path = "/v1/resources/{resource}", tag = "resources",
    params(("resource" = String, Path, description = "Name; a `/` in it is written as %2F")),
    responses((status = 204)))]
async fn remove_resource(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(resource): Target,
    _: NoQuery,
) -> Result<StatusCode, Failure> {
    app.fleet().remove_resource(&actor, &resource)?;
    Ok(StatusCode::NO_CONTENT)
}
