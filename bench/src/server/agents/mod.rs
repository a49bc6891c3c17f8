//! The time that agents add to a call: MCP over standard input and output, and the Python SDK's tools. Each beside the
//! same call without it, one after the other, so that both see the same host.
//!
//! - [`mcp`]: `run_code` through `paddock mcp`
//! - [`handle`]: `sandbox.tools.handle` of the Python SDK; its script is `handle.py`

mod handle;
mod mcp;

pub use handle::interpreter;

use super::part::{Findings, Part};
use super::process::Server;
use super::promises::{Limit::AtMost, Promise, Source, promise};
use anyhow::Result;

pub const PROMISES: [Promise; 2] = [
    promise(
        Part::AgentsMcp,
        "MCP run_code over stdio, warm, p50",
        "<= 3 ms",
        Source::Percentile("MCP over stdio", 50),
        AtMost(3.0),
    ),
    promise(
        Part::AgentsHandle,
        "tools.handle adds to run_code, p50",
        "<= 1 ms",
        Source::Fact("added by tools.handle"),
        AtMost(1.0),
    ),
];

pub async fn measure(server: &Server, part: Part) -> Result<Findings> {
    match part {
        Part::AgentsHandle => handle::measure(server),
        _ => mcp::measure(server).await,
    }
}
