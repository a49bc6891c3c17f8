//! The last results of `paddock verify`. The server never runs it by itself.

use crate::app::App;
use crate::auth::Caller;
use crate::errors::Failure;
use crate::extract::NoQuery;
use axum::Json as Answer;
use axum::extract::State;
use paddock_model::api::{ApiError, VerifyResults};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(last_verify))
}

/// The last results of `paddock verify` on this host, by backend
///
/// For the owner by the unix socket, and for an admin token of the owner's tenant. Empty where it was never run with the state
/// directory of this server.
#[utoipa::path(get, path = "/v1/verify", tag = "server",
    responses((status = 200, body = VerifyResults), (status = 403, body = ApiError)))]
async fn last_verify(
    State(app): State<App>,
    Caller(actor): Caller,
    _: NoQuery,
) -> Result<Answer<VerifyResults>, Failure> {
    if !actor.sees_server() {
        return Err(Failure::forbidden("the results of verify are for the owner of the host")
            .hint("Use the unix socket, or an admin token of the tenant `owner`."));
    }
    let state = app.fleet().state_dir().to_path_buf();
    let read = tokio::task::spawn_blocking(move || paddock_records::verified::kept(&state));
    Ok(Answer(read.await.map_err(|_| Failure::internal())?))
}
