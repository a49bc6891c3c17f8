//! A server, from the side of the command: the calls that take more than one request.
//!
//! - [`client`]: the HTTP API, for the commands about sandboxes that last
//! - [`live`]: a command in such a sandbox, on the caller's streams
//! - [`copy`]: files and directories between here and there
//! - [`once`]: a sandbox of the server for one command

pub mod client;
pub mod copy;
pub mod live;
pub mod once;
