//! The gate between real programs in a network namespace and real servers outside it.
//!
//! - `place`: the namespace, with a link and a proxy as a sandbox has them
//! - `servers`: the servers that stand for the outside
//! - `names`, `connect`, `fronts`, `proxy`, `refusals`, `limits`, `secrets`: the tests
//! - `speed`: numbers to look at

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test: whatever is missing shall fail it"
)]

mod connect;
mod fronts;
mod limits;
mod names;
mod place;
mod proxy;
mod refusals;
mod secrets;
mod servers;
mod speed;
