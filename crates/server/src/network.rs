//! The network rules of a sandbox, and the decisions of its gate.

use crate::app::App;
use crate::auth::Caller;
use crate::errors::Failure;
use crate::extract::{Query, Target};
use axum::Json as Answer;
use axum::extract::State;
use paddock_model::api::NetworkView;
use serde::Deserialize;
use std::time::Duration;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(get_network))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
#[derive(Default)]
struct Watch {
    /// Only decisions after this number.
    after: u64,
    /// Wait so many seconds for a decision, if there is none yet; at most 60.
    #[param(maximum = 60)]
    wait_seconds: u64,
}

/// The network rules of a sandbox, and the decisions of its gate
///
/// `network` of `PATCH /v1/sandboxes/{id}` changes the rules.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/network", tag = "network",
    params(("id" = String, Path, description = "Id or name"), Watch), responses((status = 200, body = NetworkView)))]
async fn get_network(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(id): Target,
    Query(watch): Query<Watch>,
) -> Result<Answer<NetworkView>, Failure> {
    let wait = Duration::from_secs(watch.wait_seconds);
    Ok(Answer(app.fleet().network(&actor, &id, watch.after, wait).await?))
}
