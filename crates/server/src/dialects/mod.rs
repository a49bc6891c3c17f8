//! Paddock in the words of others, beside `/v1`.
//!
//! - [`mcp`]: the Model Context Protocol over HTTP, at `/mcp`
//! - [`loopstack`]: the ten tools of Loopstack, at `/loopstack/tools`
//! - [`e2b`]: E2B's protocol, at the addresses that its SDKs ask
//! - [`run_code`]: SandboxFusion's protocol, at `/run_code`
//! - [`host`]: the fleet as the first two see it, on behalf of one caller

pub mod e2b;
mod host;
mod loopstack;
mod mcp;
pub mod run_code;

pub use mcp::Sessions;

use crate::app::App;
use utoipa_axum::router::OpenApiRouter;

/// Not described by the OpenAPI document: their own protocols describe them.
pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().merge(mcp::routes()).merge(loopstack::routes())
}

/// An absolute path without empty parts, `.` and `..`.
fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}
