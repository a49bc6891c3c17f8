//! The suite of `paddock verify`, as a test; its own are in `tests/`.
//!
//! - [`layers`]: which layer of the process fence stops which attacks, when it is the only one that is gone

pub mod layers;
