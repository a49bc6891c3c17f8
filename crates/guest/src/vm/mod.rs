//! A VM with a kernel of its own, from both of its sides. Outside, PID 1 of a fence runs it and passes bytes; inside,
//! the VM's first process prepares it, starts the guest that does the work, and passes bytes.
//!
//! - [`wire`]: the messages of the two sides through the VM's port
//! - [`vm_runner`]: outside: the VM's port and the host's connections; [`process`]: the QEMU process; [`silence`]: the
//!   pause while the memory is kept
//! - [`vm_init`]: inside, the first process; [`boot`]: mounts and modules; [`prepare`]: disks, limits, shared
//!   directories; [`net`]: the network link, of a sandbox with network rules; [`launch`]: the guest in namespaces of
//!   its own; [`renew`]: the values that no two VMs may have in common; [`rename`]: the names that no two sandboxes may
//!   have in common
//!
//! To the VM runner every byte from the port is hostile: the work may have taken over the VM's kernel.

mod boot;
#[cfg(test)]
mod fuzz;
mod launch;
mod net;
mod prepare;
mod process;
mod rename;
mod renew;
mod silence;
mod vm_init;
mod vm_runner;
mod wire;

pub use vm_init::run as run_vm_init;
pub use vm_runner::serve;
