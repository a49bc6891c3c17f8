//! Tells if the server lives, and if it can work.

use crate::app::App;
use crate::errors::Failure;
use axum::Json as Answer;
use axum::extract::State;
use paddock_model::api::ApiError;
use serde::Serialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(alive)).routes(routes!(ready))
}

#[derive(Serialize, utoipa::ToSchema)]
struct Health {
    status: &'static str,
    version: &'static str,
}

impl Health {
    fn ok() -> Answer<Health> {
        Answer(Health { status: "ok", version: env!("CARGO_PKG_VERSION") })
    }
}

/// The server answers
#[utoipa::path(get, path = "/healthz", tag = "server", security(()), responses((status = 200, body = Health)))]
async fn alive() -> Answer<Health> {
    Health::ok()
}

/// The server can create sandboxes: it tried what a create needs, at most a second ago
#[utoipa::path(get, path = "/readyz", tag = "server", security(()),
    responses((status = 200, body = Health), (status = 503, body = ApiError)))]
async fn ready(State(app): State<App>) -> Result<Answer<Health>, Failure> {
    if app.ending().is_cancelled() {
        return Err(Failure::shutting_down());
    }
    match app.fleet().can_create().await {
        Ok(()) => Ok(Health::ok()),
        Err(error) => {
            let mut failure = Failure::from(error);
            failure.status = axum::http::StatusCode::SERVICE_UNAVAILABLE;
            Err(failure)
        }
    }
}
