//! The signed timeline of a sandbox.

use crate::app::App;
use crate::auth::Caller;
use crate::errors::Failure;
use crate::extract::{NoQuery, Target};
use crate::stream;
use axum::extract::State;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(sandbox_audit))
}

/// All that was done to a sandbox, as lines of JSON
///
/// Each line holds the hash of the one before, and a signature; the last one, `head`, says how many there are.
/// `paddock audit verify` checks them offline.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/audit", tag = "audit",
    params(("id" = String, Path, description = "Id or name")),
    responses((status = 200, description = "One record per line", content_type = "application/x-ndjson", body = Object)))]
async fn sandbox_audit(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(id): Target,
    _: NoQuery,
) -> Result<Response, Failure> {
    Ok(stream::download(&app, app.fleet().audit_lines(&actor, &id).await?, stream::NDJSON))
}
