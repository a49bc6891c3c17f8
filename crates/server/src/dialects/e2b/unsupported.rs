//! Operations of E2B's that this dialect does not have. Each is refused by its name.

use super::errors::Refusal;
use super::key;
use crate::app::App;
use crate::errors::shorten;
use axum::Router;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::routing::any;

const PATHS: [&str; 16] = [
    "/sandboxes/metrics",
    "/sandboxes/{id}/logs",
    "/v2/sandboxes/{id}/logs",
    "/sandboxes/{id}/resume",
    "/sandboxes/{id}/refreshes",
    "/templates",
    "/v2/templates",
    "/v2/templates/{id}",
    "/templates/{id}/tags/{*rest}",
    "/default-templates",
    "/templates/{id}/builds/{build}",
    "/templates/{id}/builds/{build}/logs",
    "/teams",
    "/teams/{*rest}",
    "/api-keys",
    "/nodes",
];

/// The first parts of E2B's paths. None of them is a path of this server's own.
const ROOTS: [&str; 17] = [
    "access-tokens",
    "admin",
    "api-keys",
    "events",
    "files",
    "nodes",
    "sandboxes",
    "secrets",
    "snapshots",
    "team",
    "teams",
    "templates",
    "v2",
    "v3",
    "volumecontent",
    "volumes",
    "webhooks",
];
/// Of calls that a header sends to one sandbox.
const OF_A_SANDBOX: [&str; 5] = ["process.Process", "filesystem.Filesystem", "execute", "contexts", "health"];

/// True for a request that no route is for, if its caller speaks E2B's protocol: by its key, its name, or the path. The path `/` names no
/// operation: clients send it for a sandbox that is called `..`, and there is none.
pub fn speaks(request: &Request) -> bool {
    let root = root(request);
    if root.is_empty() {
        return false;
    }
    let text =
        |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    request.headers().contains_key(key::HEADER)
        || text("user-agent").starts_with("e2b-")
        || text("publisher") == "e2b"
        || ROOTS.contains(&root)
        || OF_A_SANDBOX.contains(&root)
}

pub fn routes() -> Router<App> {
    PATHS.iter().fold(Router::new(), |router, path| router.route(path, any(refuse)))
}

fn root(request: &Request) -> &str {
    request.uri().path().trim_start_matches('/').split('/').next().unwrap_or_default()
}

pub async fn refuse(request: Request) -> Refusal {
    let (method, path) = (request.method(), shorten(request.uri().path()));
    if OF_A_SANDBOX.contains(&root(&request)) {
        return Refusal::invalid(format!(
            "{method} {path} is for one sandbox, and the request names none: the header E2b-Sandbox-Id is missing"
        ));
    }
    if method == Method::DELETE && root(&request) == "sandboxes" {
        // E2B deletes a sandbox, and nothing below one: the id has a slash, and no sandbox has such an id.
        return Refusal::new(
            StatusCode::NOT_FOUND,
            "sandbox_not_found",
            format!("{method} {path}: there is no sandbox of this id"),
        );
    }
    let message = format!(
        "this server's E2B dialect does not have the operation {method} {path}; docs/guides/e2b.md lists what it has"
    );
    Refusal::new(StatusCode::NOT_IMPLEMENTED, "unsupported", message)
}
