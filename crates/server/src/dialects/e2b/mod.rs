//! E2B's protocol: its unmodified SDKs use this server as their cloud.
//!
//! - [`sandboxes`], [`create`], [`listing`], [`metrics`], [`network`], [`snapshots`]: the control plane, for who holds an API key
//!   ([`key`]); [`views`]: a sandbox as E2B describes it
//! - [`data_plane`]: requests that name a sandbox in a header; [`grants`]: the tokens that open one sandbox, [`inside`]: one
//!   request that was let in, and its user, home and paths
//! - [`connect`], [`messages`]: the framing of E2B's remote calls; [`process`], [`process_calls`], [`ends`], [`registry`]: commands;
//!   [`filesystem`], [`entries`], [`watch`], [`watchers`]: directories and what happens in them
//! - [`files`], [`multipart`], [`signatures`]: whole files over HTTP
//! - [`code`], [`code_results`]: the code interpreter
//! - [`json`], [`errors`], [`unsupported`], [`timestamps`]: bodies, refusals, and how time is written
//!
//! Everything is done by the same calls of the fleet as `/v1`. The routes are not in the OpenAPI document: E2B describes them, and
//! a second description could only differ from it.

mod code;
mod code_results;
mod connect;
mod create;
mod data_plane;
mod ends;
mod entries;
mod errors;
mod files;
mod filesystem;
mod grants;
mod inside;
mod json;
mod key;
mod listing;
mod messages;
mod metrics;
mod multipart;
mod network;
mod process;
mod process_calls;
mod registry;
mod sandboxes;
mod signatures;
mod snapshots;
mod timestamps;
mod unsupported;
mod views;
mod watch;
mod watchers;

use crate::app::App;
use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{any, delete, get, post, put};

pub use data_plane::{ROUTE_NAME, answer as data_plane, is_for_sandbox};

/// The memory of the dialect between requests. A new server goes on without it.
#[derive(Default)]
pub struct State {
    processes: registry::Processes,
    watchers: watchers::Watchers,
    executions: code::Executions,
}

/// The control plane, and the address of signed URLs, which name no sandbox.
pub fn routes(app: &App) -> Router<App> {
    let keyed = Router::new()
        .route("/sandboxes", post(create::create).get(listing::list))
        .route("/v2/sandboxes", post(create::create).get(listing::list))
        .route("/sandboxes/{id}", get(sandboxes::get).delete(sandboxes::kill))
        .route("/sandboxes/{id}/connect", post(sandboxes::connect))
        .route("/v2/sandboxes/{id}/connect", post(sandboxes::connect))
        .route("/sandboxes/{id}/timeout", post(sandboxes::set_timeout))
        .route("/sandboxes/{id}/pause", post(sandboxes::pause))
        .route("/sandboxes/{id}/metrics", get(metrics::read))
        .route("/sandboxes/{id}/network", put(network::update))
        .route("/sandboxes/{id}/snapshots", post(snapshots::create))
        .route("/sandboxes/{id}/fork", post(snapshots::fork))
        .route("/snapshots", get(snapshots::list))
        .route("/templates/{id}", delete(snapshots::delete).fallback(unsupported::refuse))
        .route("/templates/aliases/{alias}", get(snapshots::alias))
        .merge(unsupported::routes())
        .method_not_allowed_fallback(unsupported::refuse)
        .route_layer(from_fn_with_state(app.clone(), key::require));
    keyed
        .route("/files", get(files::read_signed).post(files::write_signed))
        .route("/volumecontent/{*path}", any(unsupported::refuse))
}
