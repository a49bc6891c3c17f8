//! Tokens, tenants and their quotas.

use crate::app::App;
use crate::auth::Caller;
use crate::errors::Failure;
use crate::extract::{Json, NoQuery, Target};
use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use paddock_fleet::Actor;
use paddock_model::api::{ApiError, CreateToken, CreatedToken, Quota, Role, Tenant, Token, UpdateToken};
use serde::Serialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list_tokens, create_token))
        .routes(routes!(revoke_token, update_token))
        .routes(routes!(revoke_tokens))
        .routes(routes!(list_tenants))
        .routes(routes!(set_quota))
        .routes(routes!(who_am_i))
}

#[derive(Serialize, utoipa::ToSchema)]
struct TokenList {
    tokens: Vec<Token>,
}

#[derive(Serialize, utoipa::ToSchema)]
struct TenantList {
    tenants: Vec<Tenant>,
}

#[derive(Serialize, utoipa::ToSchema)]
struct WhoAmI {
    tenant: String,
    role: Role,
    /// The owner of the host, by the unix socket.
    owner: bool,
}

/// List the tokens of one's tenant; the owner sees all
#[utoipa::path(get, path = "/v1/tokens", tag = "access", responses((status = 200, body = TokenList)))]
async fn list_tokens(
    State(app): State<App>,
    Caller(actor): Caller,
    _: NoQuery,
) -> Result<Answer<TokenList>, Failure> {
    manages_tokens(&actor)?;
    Ok(Answer(TokenList { tokens: app.fleet().tokens(&actor).await? }))
}

/// Create a token; its secret is shown this once
#[utoipa::path(post, path = "/v1/tokens", tag = "access", request_body = CreateToken,
    responses((status = 201, body = CreatedToken)))]
async fn create_token(
    State(app): State<App>,
    Caller(actor): Caller,
    _: NoQuery,
    Json(request): Json<CreateToken>,
) -> Result<(StatusCode, Answer<CreatedToken>), Failure> {
    manages_tokens(&actor)?;
    Ok((StatusCode::CREATED, Answer(app.fleet().create_token(&actor, request).await?)))
}

/// Revoke a token
#[utoipa::path(delete, path = "/v1/tokens/{token}", tag = "access",
    params(("token" = String, Path, description = "Id of the token, not its secret")),
    responses((status = 200, body = Token), (status = 404, body = ApiError)))]
async fn revoke_token(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(token): Target,
    _: NoQuery,
) -> Result<Answer<Token>, Failure> {
    manages_tokens(&actor)?;
    Ok(Answer(app.fleet().revoke_token(&actor, &token).await?))
}

/// Change the role of a token
///
/// Everything that it has open ends, as if it had been revoked; its next call has the new role.
#[utoipa::path(patch, path = "/v1/tokens/{token}", tag = "access",
    params(("token" = String, Path, description = "Id of the token, not its secret")), request_body = UpdateToken,
    responses((status = 200, body = Token), (status = 404, body = ApiError)))]
async fn update_token(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(token): Target,
    _: NoQuery,
    Json(change): Json<UpdateToken>,
) -> Result<Answer<Token>, Failure> {
    manages_tokens(&actor)?;
    Ok(Answer(app.fleet().set_token_role(&actor, &token, change.role).await?))
}

/// Revoke all tokens of a tenant, and its sign-in codes
///
/// Its sandboxes, snapshots and volumes stay; answers with the tokens that were revoked.
#[utoipa::path(delete, path = "/v1/tenants/{tenant}/tokens", tag = "access",
    params(("tenant" = String, Path, description = "Name of the tenant")),
    responses((status = 200, body = TokenList), (status = 403, body = ApiError)))]
async fn revoke_tokens(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(tenant): Target,
    _: NoQuery,
) -> Result<Answer<TokenList>, Failure> {
    manages_tokens(&actor)?;
    // First, so that no code becomes a token in between.
    if actor.owner || actor.tenant == tenant {
        app.sign_in_codes().forget(&tenant);
    }
    Ok(Answer(TokenList { tokens: app.fleet().revoke_tokens_of(&actor, &tenant).await? }))
}

/// One's own tenant with its quota; the owner sees all
#[utoipa::path(get, path = "/v1/tenants", tag = "access", responses((status = 200, body = TenantList)))]
async fn list_tenants(
    State(app): State<App>,
    Caller(actor): Caller,
    _: NoQuery,
) -> Result<Answer<TenantList>, Failure> {
    Ok(Answer(TenantList { tenants: app.fleet().tenants(&actor).await? }))
}

/// Set the quota of a tenant
///
/// For the owner by the unix socket, and for an admin token of the owner's tenant. It replaces the whole quota.
#[utoipa::path(put, path = "/v1/tenants/{tenant}/quota", tag = "access",
    params(("tenant" = String, Path, description = "Name of the tenant")), request_body = Quota,
    responses((status = 200, body = Tenant), (status = 403, body = ApiError)))]
async fn set_quota(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(tenant): Target,
    _: NoQuery,
    Json(quota): Json<Quota>,
) -> Result<Answer<Tenant>, Failure> {
    if !actor.sees_server() {
        return Err(Failure::forbidden("quotas are set by the owner of the host")
            .hint("Use the unix socket, or an admin token of the tenant `owner`."));
    }
    Ok(Answer(app.fleet().set_quota(&actor, &tenant, quota).await?))
}

/// Tenant and role of this token
#[utoipa::path(get, path = "/v1/whoami", tag = "access", responses((status = 200, body = WhoAmI)))]
async fn who_am_i(Caller(actor): Caller, _: NoQuery) -> Answer<WhoAmI> {
    Answer(WhoAmI { tenant: actor.tenant, role: actor.role, owner: actor.owner })
}

fn manages_tokens(actor: &Actor) -> Result<(), Failure> {
    match actor.owner || actor.role == Role::Admin {
        true => Ok(()),
        false => Err(Failure::forbidden("only an admin of the tenant manages its tokens")),
    }
}
