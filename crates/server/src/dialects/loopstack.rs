//! The ten tools of Loopstack over HTTP, for programs: a caller may do the same as over `/v1`.

use super::host::FleetHost;
use crate::app::App;
use crate::auth::Caller;
use crate::errors::{Failure, shorten};
use crate::extract::{Json, NoQuery, Target};
use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use paddock_model::api::CreateSandbox;
use paddock_tools::OperationError;
use paddock_tools::loopstack::{HostPaths, Loopstack, LoopstackError, LoopstackOptions, definitions};
use serde_json::{Map, Value, json};
use utoipa_axum::router::OpenApiRouter;

/// A container of Loopstack's lasts until it is destroyed; here it ends after a day at the latest.
const LONGEST_LIFE_SECONDS: f64 = 86_400.0;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().route("/loopstack/tools", get(list)).route("/loopstack/tools/{name}", post(call))
}

async fn list(_: Caller, _: NoQuery) -> Answer<Value> {
    Answer(json!({ "tools": definitions() }))
}

async fn call(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(name): Target,
    _: NoQuery,
    Json(arguments): Json<Map<String, Value>>,
) -> Result<Answer<Value>, Failure> {
    let create = CreateSandbox { ttl_seconds: Some(LONGEST_LIFE_SECONDS), ..CreateSandbox::default() };
    let options = LoopstackOptions { create, host_paths: HostPaths::AsCaller, lasting: true };
    let loopstack = Loopstack::new(FleetHost::new(app.fleet().clone(), actor), options);
    let data = tokio::select! {
        () = app.ending().cancelled() => return Err(Failure::shutting_down()),
        data = loopstack.call(&name, &arguments) => data.map_err(failure)?,
    };
    Ok(Answer(json!({ "data": data, "metadata": {} })))
}

fn failure(error: LoopstackError) -> Failure {
    let (status, code) = match &error {
        LoopstackError::UnknownTool { .. } => (StatusCode::NOT_FOUND, "invalid_request"),
        LoopstackError::Arguments { .. } | LoopstackError::Traversal(_) => {
            (StatusCode::BAD_REQUEST, "invalid_request")
        }
        LoopstackError::NotRegistered(_) => (StatusCode::NOT_FOUND, "sandbox_not_found"),
        LoopstackError::File { .. } | LoopstackError::Refused(_) | LoopstackError::Operation(_) => {
            (StatusCode::UNPROCESSABLE_ENTITY, "tool_failed")
        }
    };
    match error {
        // The hint stands apart, whole.
        LoopstackError::Operation(OperationError { message, hint, .. }) => {
            let failure = Failure::new(status, code, shorten(&message));
            if let Some(hint) = hint { failure.hint(hint) } else { failure }
        }
        error => Failure::new(status, code, shorten(&error.to_string())),
    }
}
