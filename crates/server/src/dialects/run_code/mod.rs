//! SandboxFusion's protocol: code in, what it printed out, for programs that reward a model for its code (verl, SkyRL).
//!
//! - [`caller`]: the right to ask, for clients that can be given nothing but a URL
//! - [`request`]: what is asked for; `paddock_tools::sandbox_fusion` has the words of it, the languages and the shapes of answers
//! - [`sandbox`]: one fresh sandbox for one request, which ends with it
//! - [`program`], [`notebook`]: a program, and cells that remember
//! - [`errors`]: what is refused
//!
//! Everything is done by the same calls of the fleet as `/v1`. The routes are not in the OpenAPI document: SandboxFusion describes
//! them, and a second description could only differ from it.

mod caller;
mod errors;
mod notebook;
mod program;
mod request;
mod sandbox;

use crate::app::App;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::routing::{any, get, post};
use axum::{Json, Router};
use errors::Refusal;

/// Each is also served below the name of a template: clients put the path behind the address that they were given.
const BELOW_TEMPLATE: &str = "/run_code/in/{template}";
/// Data sets and their evaluation, which are no work for a sandbox.
const DATA_SETS: [&str; 7] = [
    "/get_prompts",
    "/get_prompt_by_id",
    "/submit",
    "/list_datasets",
    "/list_ids",
    "/get_metrics",
    "/get_metrics_function",
];

pub fn routes(app: &App) -> Router<App> {
    let keyed = Router::new()
        .route("/run_code", post(program::run))
        .route("/run_jupyter", post(notebook::run))
        .route(&below("/run_code"), post(program::run))
        .route(&below("/run_jupyter"), post(notebook::run));
    let keyed = DATA_SETS.iter().fold(keyed, |router, path| {
        router.route(path, any(no_data_sets)).route(&below(path), any(no_data_sets))
    });
    let keyed = keyed.route_layer(from_fn_with_state(app.clone(), caller::require));
    keyed.route("/v1/ping", get(ping)).route(&below("/v1/ping"), get(ping))
}

fn below(path: &str) -> String {
    format!("{BELOW_TEMPLATE}{path}")
}

/// As SandboxFusion answers: the server is there, which is no secret.
async fn ping() -> Json<&'static str> {
    Json("pong")
}

async fn no_data_sets(request: Request) -> Refusal {
    let path = crate::errors::shorten(request.uri().path());
    Refusal::status(
        StatusCode::NOT_IMPLEMENTED,
        "unsupported",
        format!(
            "{path}: this server runs code (/run_code, /run_jupyter) and has no data sets and no evaluation of them; \
             let SandboxFusion's own server do that, with set_dataset_endpoint, and keep set_sandbox_endpoint here"
        ),
    )
}
