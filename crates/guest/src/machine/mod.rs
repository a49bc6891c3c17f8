//! A machine with a kernel of its own, from both of its sides. Outside, PID 1 of a fence runs it and passes bytes; inside, its
//! first process prepares it, starts the guest that does the work, and passes bytes.
//!
//! - [`wire`]: what the two say to each other through the machine's port
//! - [`keeper`]: outside: the machine's port and the host's connections; [`process`]: what it runs as; [`silence`]: while its
//!   memory is kept
//! - [`porter`]: inside, the first process; [`boot`]: mounts and modules; [`prepare`]: disks, limits, what is shared;
//!   [`net`]: what leads out, of a sandbox with network rules;
//!   [`launch`]: the guest in namespaces of its own; [`renew`]: what no two machines may have in common; [`rename`]: nor two sandboxes in them
//!
//! To the keeper everything that comes through the port is hostile: the work may have taken the machine's kernel.

mod boot;
#[cfg(test)]
mod fuzz;
mod keeper;
mod launch;
mod net;
mod porter;
mod prepare;
mod process;
mod rename;
mod renew;
mod silence;
mod wire;

pub use keeper::serve;
pub use porter::run as run_porter;
