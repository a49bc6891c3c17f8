//! Operations of E2B's that this dialect does not have. Each is refused by its name.

use super::errors::Refusal;
use crate::app::App;
use crate::errors::shorten;
use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::routing::any;

const PATHS: [&str; 24] = [
    "/sandboxes/metrics",
    "/sandboxes/{id}/logs",
    "/v2/sandboxes/{id}/logs",
    "/sandboxes/{id}/resume",
    "/sandboxes/{id}/refreshes",
    "/templates",
    "/v2/templates",
    "/v3/templates",
    "/v2/templates/{id}",
    "/templates/tags",
    "/templates/{id}/tags",
    "/templates/{id}/files/{hash}",
    "/templates/{id}/builds/{build}",
    "/templates/{id}/builds/{build}/status",
    "/templates/{id}/builds/{build}/logs",
    "/v2/templates/{id}/builds/{build}",
    "/volumes",
    "/volumes/{id}",
    "/secrets",
    "/secrets/{*name}",
    "/teams",
    "/teams/{*rest}",
    "/api-keys",
    "/nodes",
];

pub fn routes() -> Router<App> {
    PATHS.iter().fold(Router::new(), |router, path| router.route(path, any(refuse)))
}

pub async fn refuse(request: Request) -> Refusal {
    let (method, path) = (request.method(), shorten(request.uri().path()));
    let message = format!(
        "this server's E2B dialect does not have the operation {method} {path}; docs/guides/e2b.md lists what it has"
    );
    Refusal::new(StatusCode::NOT_IMPLEMENTED, "unsupported", message)
}
