//! The server as its owner meets it: its state, and its end.

use crate::app::App;
use crate::auth::Caller;
use crate::errors::Failure;
use crate::extract::NoQuery;
use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use paddock_model::api::{ApiError, SandboxCounts, ServerStatus};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(server_status)).routes(routes!(stop_server))
}

/// The server's version and whether it can create sandboxes; its owner learns more
#[utoipa::path(get, path = "/v1/server", tag = "server", responses((status = 200, body = ServerStatus)))]
async fn server_status(State(app): State<App>, Caller(actor): Caller, _: NoQuery) -> Answer<ServerStatus> {
    let problem = match app.fleet().can_create().await {
        Ok(()) => None,
        Err(error) => {
            let failure = Failure::from(error);
            Some(if actor.owner { failure.message } else { failure.without_host().message })
        }
    };
    let mut status = ServerStatus {
        version: env!("CARGO_PKG_VERSION").into(),
        ready: problem.is_none(),
        problem,
        ports_domain: app.guard().domain().map(String::from),
        process: None,
        state_dir: None,
        started_at_ms: None,
        addresses: Vec::new(),
        sandboxes: None,
    };
    if actor.owner {
        let counted = app.fleet().metrics();
        status.process = Some(std::process::id());
        status.state_dir = Some(app.fleet().state_dir().display().to_string());
        status.started_at_ms = Some(app.started_at_ms());
        status.addresses = app.addresses().to_vec();
        status.sandboxes = Some(SandboxCounts {
            creating: counted.creating,
            running: counted.running,
            paused: counted.paused,
            hibernated: counted.hibernated,
        });
    }
    Answer(status)
}

/// End the server as SIGTERM does; sandboxes keep running. Only the owner may
#[utoipa::path(post, path = "/v1/server/stop", tag = "server",
    responses((status = 202), (status = 403, body = ApiError)))]
async fn stop_server(
    State(app): State<App>,
    Caller(actor): Caller,
    _: NoQuery,
) -> Result<StatusCode, Failure> {
    if !actor.owner {
        return Err(Failure::forbidden("only the owner of the host stops the server")
            .hint("Ask over the unix socket of the server."));
    }
    app.stop_asked().cancel();
    Ok(StatusCode::ACCEPTED)
}
