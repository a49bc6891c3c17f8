//! The gate: the only way out of a sandbox that has network rules.
//!
//! - [`wire`]: parsers for what a sandbox sends
//! - [`place`]: the addresses at both ends of the link
//! - `names`: an address for each name, so that a connection says which name was meant
//! - `own`: whether an address is this machine's own
//! - [`fuzz`]: entries for the fuzz targets

#[doc(hidden)]
pub mod fuzz;
mod names;
mod own;
pub mod place;
#[doc(hidden)]
pub mod wire;

pub use names::Names;
pub use own::is_own;
