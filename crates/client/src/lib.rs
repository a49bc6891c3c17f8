//! The HTTP API of Paddock from the side of a caller: typed calls of `/v1` over a unix socket, TCP or TLS. Nothing here reads the
//! environment or starts a server; a program that does gives a [`Revive`] to its [`Client`].
//!
//! - [`client`]: one server, as one caller; [`call`]: one request
//! - [`address`]: where the server is; [`revive`]: a server that the caller may start again
//! - [`connection`]: TCP, TLS or a unix socket, and HTTP/1.1 over it; [`connect_error`]: why there is none
//! - [`target`]: paths and queries in which no text of the caller's can become syntax
//! - [`answer`]: bodies, whole or as they come
//! - [`calls`]: typed calls
//! - [`error`]: errors, for people
//!
//! It is written over hyper, although reqwest is linked for registries. A kept connection to a server that has ended hands back
//! the request that it did not send, which is then surely safe to send again, also where its effect must not happen
//! twice. Each way in which a connection fails has a message of its own. And a command over a unix socket, the usual way,
//! sets up no TLS and reads no certificates: it has about a millisecond until its first byte.

mod address;
mod answer;
mod call;
mod calls;
mod client;
mod connect_error;
mod connection;
mod error;
mod revive;
mod target;

pub use address::Address;
pub use answer::{Answer, Lines};
pub use call::{Call, Upload};
pub use calls::Filter;
pub use client::{Client, random_key};
pub use connect_error::ConnectError;
pub use connection::{Stream, connect, short_path};
pub use error::ClientError;
pub use hyper::Method;
pub use revive::{NotStarted, Revive};
pub use target::Target;

/// The variables of the environment in which a person names the server and gives a token. The hints of the errors name them.
pub const PADDOCK_URL: &str = "PADDOCK_URL";
pub const PADDOCK_TOKEN: &str = "PADDOCK_TOKEN";

#[cfg(test)]
mod tests;
