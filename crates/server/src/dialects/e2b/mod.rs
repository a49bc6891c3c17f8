//! E2B's protocol: its unmodified SDKs use this server as their cloud.
//!
//! - [`sandboxes`], [`create`], [`listing`], [`metrics`], [`network`], [`ports`], [`header_rules`], [`snapshots`], [`fork_labels`]: the control plane, for who holds an API key
//!   ([`key`]); [`views`]: a sandbox as E2B describes it
//! - [`templates`], [`template_builds`]: templates, their tags and their builds
//! - [`data_plane`]: requests that name a sandbox in a header; [`grants`]: the tokens that open one sandbox, [`inside`]: one
//!   request that was let in, and its user, home and paths
//! - [`connect`], [`messages`]: the framing of E2B's remote calls; [`process`], [`process_calls`], [`ends`], [`registry`]: commands;
//!   [`filesystem`], [`entries`], [`watch`], [`watchers`]: directories and what happens in them
//! - [`files`], [`packed`], [`multipart`], [`signatures`]: whole files over HTTP
//! - [`volumes`], [`volume_content`]: directories that outlive sandboxes, and their files for who holds a volume's token
//! - [`secrets`]: values that are kept under a name; [`code`], [`code_results`]: the code interpreter
//! - [`routes`]: the tables of all operations; [`fuzz`]: entries for the fuzz targets
//! - [`json`], [`errors`], [`unsupported`], [`versions`], [`timestamps`]: bodies, refusals, warnings, and how time is written
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
mod fork_labels;
/// For the fuzz targets.
pub mod fuzz;
mod grants;
mod header_rules;
mod inside;
mod json;
mod key;
mod labels;
mod listing;
mod messages;
mod metrics;
mod multipart;
mod network;
mod owners;
mod packed;
mod ports;
mod process;
mod process_calls;
mod registry;
mod routes;
mod sandboxes;
mod secrets;
mod signature_search;
mod signatures;
mod snapshots;
mod template_builds;
mod templates;
mod timestamps;
mod unsupported;
mod versions;
mod views;
mod volume_content;
mod volumes;
mod watch;
mod watchers;

use crate::app::App;
use crate::errors::Failure;
use axum::Router;
use axum::middleware::from_fn_with_state;

pub use create::BUILT_IN;
pub use data_plane::{
    ENVD_TOKEN, PORT, ROUTE_NAME, SANDBOX, TRAFFIC_TOKEN, answer as data_plane, is_for_named, is_for_sandbox,
    named,
};
pub use errors::Refusal;
pub use key::{HEADER as KEY_HEADER, OWN_PREFIX as TOKEN_PREFIX, identify, own_form};
pub use sandboxes::let_in;
pub use timestamps::parse as parse_time;
pub use unsupported::{refuse, speaks};

/// The memory of the dialect between requests. A new server goes on without it.
#[derive(Default)]
pub struct State {
    processes: registry::Processes,
    watchers: watchers::Watchers,
    executions: code::Executions,
    versions: versions::Seen,
    issued: signature_search::Issued,
}

/// A failure of the server itself, as E2B's clients are told of it.
pub fn refusal(failure: Failure) -> Refusal {
    failure.into()
}

routes::table!(KEYED, keyed {
    "/sandboxes" => { post create::create, get listing::list }
    "/v2/sandboxes" => { post create::create, get listing::list }
    "/sandboxes/{id}" => { get sandboxes::get, delete sandboxes::kill }
    "/sandboxes/{id}/connect" => { post sandboxes::connect }
    "/v2/sandboxes/{id}/connect" => { post sandboxes::connect }
    "/sandboxes/{id}/timeout" => { post sandboxes::set_timeout }
    "/sandboxes/{id}/pause" => { post sandboxes::pause }
    "/sandboxes/{id}/metrics" => { get metrics::read }
    "/sandboxes/{id}/network" => { put network::update }
    "/sandboxes/{id}/snapshots" => { post snapshots::create }
    "/sandboxes/{id}/fork" => { post snapshots::fork }
    "/snapshots" => { get snapshots::list }
    "/v3/templates" => { post templates::create }
    "/templates/{id}" => { delete templates::delete }
    "/templates/aliases/{alias}" => { get templates::alias }
    "/templates/tags" => { post templates::assign_tags, delete templates::remove_tags }
    "/templates/{id}/tags" => { get templates::tags }
    "/templates/{id}/files/{hash}" => { get template_builds::files }
    "/v2/templates/{id}/builds/{build}" => { post template_builds::start }
    "/templates/{id}/builds/{build}/status" => { get template_builds::status }
    "/volumes" => { post volumes::create, get volumes::list }
    "/volumes/{id}" => { get volumes::get, delete volumes::delete }
    "/secrets" => { post secrets::create, get secrets::list }
    "/secrets/{*key}" => { get secrets::get, post secrets::update, delete secrets::delete }
});

// Without an API key: signed URLs, which name no sandbox, and addresses for uploads.
routes::table!(OPEN, open {
    "/files" => { get files::read_signed, post files::write_signed }
    template_builds::UPLOADS => { put template_builds::upload }
});

/// The control plane, and the addresses that are signed.
pub fn routes(app: &App) -> Router<App> {
    let keyed = keyed()
        .merge(unsupported::routes())
        .method_not_allowed_fallback(unsupported::refuse)
        .route_layer(from_fn_with_state(app.clone(), key::require));
    keyed
        .merge(open())
        .merge(volume_content::routes(app))
        .layer(from_fn_with_state(app.clone(), versions::warn))
}
