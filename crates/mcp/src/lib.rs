//! A sandbox for any client of the Model Context Protocol.
//!
//! - [`Session`]: the sandboxes of one client, made by need and ended with it
//! - `renewal`: prolongs their lives while the client is there
//! - `handler`: lists the tools and answers calls, with progress and cancellation
//! - `lifecycle`: tools that make, list, fork, keep and end sandboxes
//! - [`serve_streams`]: over a pair of streams, such as standard input and output
//!
//! Sandboxes come from a [`paddock_tools::Host`]: the command's client of the API, or the server itself.

mod handler;
mod lifecycle;
mod renewal;
mod session;
mod streams;

#[cfg(test)]
mod tests;

pub use handler::Handler;
pub use renewal::LEASE;
pub use session::{Session, SessionOptions};
pub use streams::{ServeError, serve_streams};

#[cfg(feature = "http")]
pub use rmcp::transport::streamable_http_server;
