//! Paddock in the words of others, beside `/v1`.
//!
//! - [`mcp`]: the Model Context Protocol over HTTP, at `/mcp`
//! - [`loopstack`]: the ten tools of Loopstack, at `/loopstack/tools`
//! - [`host`]: the fleet as both of them see it, on behalf of one caller

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
