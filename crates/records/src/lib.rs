//! Records of a node, each kind in its own form.
//!
//! - [`store`]: sandboxes, execs, jobs, tokens and keys of calls, in SQLite
//! - [`journal`]: the output of execs; [`capture`]: output kept within a bound, head and tail
//! - [`audit`]: a signed timeline for each sandbox
//! - [`access`]: tokens, roles, quotas; [`signing`]: links to one file
//! - [`verified`]: the last results of `paddock verify`
//! - [`vault`]: the key that secrets are encrypted with at rest

pub mod access;
pub mod audit;
pub mod capture;
pub mod journal;
pub mod signing;
pub mod store;
pub mod vault;
pub mod verified;
