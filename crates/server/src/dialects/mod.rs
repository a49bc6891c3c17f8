//! Paddock in the words of others, beside `/v1`.
//!
//! - [`mcp`]: the Model Context Protocol over HTTP, at `/mcp`
//! - [`loopstack`]: the ten tools of Loopstack, at `/loopstack/tools`
//! - [`e2b`]: E2B's protocol, at the addresses that its SDKs ask
//! - [`host`]: the fleet as the first two see it, on behalf of one caller

pub mod e2b;
mod host;
mod loopstack;
mod mcp;

pub use mcp::Sessions;

use crate::app::App;
use utoipa_axum::router::OpenApiRouter;

/// Not described by the OpenAPI document: their own protocols describe them.
pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().merge(mcp::routes()).merge(loopstack::routes())
}
