//! Secrets that are kept under a name. No call shows a value.

use crate::app::App;
use crate::auth::Caller;
use crate::errors::Failure;
use crate::extract::{Json, NoQuery, Query, Target};
use crate::sandboxes::page_limit;
use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use paddock_model::api::{ApiError, CreateSecret, Secret, SecretPage, UpdateSecret};
use serde::Deserialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(create_secret, list_secrets)).routes(routes!(
        get_secret,
        update_secret,
        remove_secret
    ))
}

/// Keep a secret under a name
#[utoipa::path(post, path = "/v1/secrets", tag = "secrets", request_body = CreateSecret,
    responses((status = 201, body = Secret), (status = 409, body = ApiError)))]
async fn create_secret(
    State(app): State<App>,
    Caller(actor): Caller,
    _: NoQuery,
    Json(request): Json<CreateSecret>,
) -> Result<(StatusCode, Answer<Secret>), Failure> {
    Ok((StatusCode::CREATED, Answer(app.fleet().create_secret(&actor, request)?)))
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
}

/// List secrets, the newest first
#[utoipa::path(get, path = "/v1/secrets", tag = "secrets", params(Listing),
    responses((status = 200, body = SecretPage)))]
async fn list_secrets(
    State(app): State<App>,
    Caller(actor): Caller,
    Query(list): Query<Listing>,
) -> Result<Answer<SecretPage>, Failure> {
    let limit = page_limit(list.limit)?;
    Ok(Answer(app.fleet().secrets(&actor, limit, list.cursor.as_deref())?))
}

/// One secret, without its value
#[utoipa::path(get, path = "/v1/secrets/{secret}", tag = "secrets",
    params(("secret" = String, Path, description = "Name or id; a `/` in it is written as %2F")),
    responses((status = 200, body = Secret)))]
async fn get_secret(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(secret): Target,
    _: NoQuery,
) -> Result<Answer<Secret>, Failure> {
    Ok(Answer(app.fleet().secret(&actor, &secret)?))
}

/// Give a secret a new value, as its next version
///
/// Sandboxes that have the value before keep it until they end.
#[utoipa::path(put, path = "/v1/secrets/{secret}", tag = "secrets",
    params(("secret" = String, Path, description = "Name or id; a `/` in it is written as %2F")),
    request_body = UpdateSecret, responses((status = 200, body = Secret)))]
async fn update_secret(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(secret): Target,
    _: NoQuery,
    Json(request): Json<UpdateSecret>,
) -> Result<Answer<Secret>, Failure> {
    Ok(Answer(app.fleet().update_secret(&actor, &secret, request)?))
}

/// Forget a secret
#[utoipa::path(delete, path = "/v1/secrets/{secret}", tag = "secrets",
    params(("secret" = String, Path, description = "Name or id; a `/` in it is written as %2F")),
    responses((status = 204)))]
async fn remove_secret(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(secret): Target,
    _: NoQuery,
) -> Result<StatusCode, Failure> {
    app.fleet().remove_secret(&actor, &secret)?;
    Ok(StatusCode::NO_CONTENT)
}
