//! Ports inside, for callers who show no token of the tenant.
//!
//! - [`public`]: ports that answer everybody; [`visitors`]: the connections of those who came without a token
//! - [`signed`]: rights to one port

mod public;
mod signed;
mod visitors;

pub use public::Visit;
pub use visitors::Visitors;
