//! One suite for every fence: attacks carried out from inside by a probe, each with a control outside that
//! shows that the attack can succeed.
//!
//! - [`attack`]: what an attack is, and what came of it
//! - [`probe`]: the half that runs inside, one file per group of attacks
//! - [`fence`]: runs a command behind a backend of `paddock`, as root and rootless
//! - [`host`]: canaries, listeners and a victim process on the host, for the attacks to miss
//! - [`control`]: runs the same probe outside, in throw-away namespaces
//! - [`scenarios`]: attacks that need limits, two sandboxes or a look from outside
//! - [`expectations`]: what must come of each attack, from one file
//! - [`sweep`]: what a run has left behind
//! - [`table`]: the result, for people

// A test tool: what goes wrong here has to stop the suite, with the place where it did.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod attack;
pub mod control;
pub mod expectations;
pub mod fence;
pub mod host;
pub mod probe;
pub mod scenarios;
pub mod sweep;
pub mod table;
