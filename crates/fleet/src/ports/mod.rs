//! Ports inside, for callers who show no token of the tenant.
//!
//! - [`public`]: ports that answer everybody
//! - [`signed`]: rights to one port

mod public;
mod signed;

pub use public::{Ports, Visit, inherited, set};
