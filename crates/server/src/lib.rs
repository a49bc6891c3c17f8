//! Paddock over HTTP: `/v1` in JSON, streams, ports inside, a description of itself.
//!
//! - [`serve`]: listeners, connections, the end; [`listen`], [`connections`], [`tls`] and [`prompt`] are their parts;
//!   [`reload`]: the settings that SIGHUP changes
//! - [`app`]: the state that handlers share, and all routes
//! - one file per resource: [`sandboxes`], [`execs`], [`code`], [`contexts`], [`files`], [`signed`], [`snapshots`], [`changes`],
//!   [`events`], [`audit`], [`access`], [`templates`], [`pools`], [`secrets`], [`jobs`], [`ports`] (with [`proxy`])
//! - [`dialects`]: the same in the words of others: MCP, Loopstack, E2B, SandboxFusion
//! - [`health`], [`control`], [`metrics`], [`docs`], [`openapi`]: about the server itself
//! - [`front`]: a room that may take requests before these do, as a gateway does
//! - [`nodes`]: this server as one node of many; [`gateway`]: the word of the gateway before it
//! - [`ui`]: the dashboard, and [`sign_in`] how a browser gets its token; [`load`]: the numbers of its first page
//! - [`guard`] and [`auth`]: the callers that may ask; [`revoked`]: until when; [`extract`] (with [`strict`] and
//!   [`bodies`]), [`errors`], [`request`], [`unread`], [`linger`], [`stream`]: in and out
//!
//! Decisions are the engine's: a handler reads a request, asks the fleet, and writes its answer.

mod access;
mod activity;
mod app;
mod audit;
mod auth;
mod bodies;
mod changes;
mod code;
mod connections;
mod contexts;
mod control;
mod dialects;
mod docs;
mod errors;
mod events;
mod execs;
mod extract;
mod files;
pub mod front;
mod gateway;
mod gateway_key;
mod guard;
mod health;
mod jobs;
mod linger;
mod listen;
mod load;
mod log;
mod memory;
mod metrics;
mod network;
mod nodes;
mod openapi;
mod options;
mod own_token;
mod peer;
mod pools;
mod ports;
mod prompt;
mod proxy;
mod reload;
mod request;
mod resources;
mod revoked;
mod sandboxes;
mod secrets;
mod serve;
mod sign_in;
mod signed;
mod snapshots;
mod stream;
mod strict;
mod templates;
mod tls;
mod ui;
mod unread;
mod verify;
mod volumes;

pub use dialects::e2b::fuzz as e2b_fuzz;
pub use gateway_key::{GatewayKey, GatewayKeyError};
pub use listen::{ListenError, Listener};
pub use log::{LogError, start_log};
pub use openapi::openapi;
pub use options::{Options, ServerLimits};
pub use reload::Reload;
pub use serve::{Ended, run, run_behind};
pub use tls::{Tls, TlsError};
