//! The fences, and the parts of each.
//!
//! - [`backend`]: the trait that every fence implements, and its errors
//! - [`held`]: the names in a workspace that stay read-only because of the workspace's content
//! - [`handover`]: the network link of a sandbox, from its guest to the engine
//! - [`host_limit`]: limits of the host that refuse the next sandbox
//! - [`installed`]: programs and kernels of others that this host has
//! - [`select`]: which backend a spec gets
//! - [`gvisor`]: a kernel in user space, inside the process backend's fence
//! - [`microvm`]: a VM with a kernel of its own, inside the process backend's fence
//! - [`process`]: Linux namespaces, cgroups, seccomp and Landlock; no daemon, no KVM
//!
//! A backend only knows how to put up a fence and hand back a byte stream to the guest inside it.

mod backend;
mod gvisor;
mod handover;
mod held;
mod host_limit;
mod installed;
mod microvm;
mod process;
mod select;

pub use backend::{
    AdoptError, Backend, Birth, Carried, CarryError, Cradle, CreateError, Fence, FenceUsage, ForkBegun,
    ForkComposed, ForkSite, Interpreter, Kept, Landing, Nursery, Raised, Shortage, Stem,
};
pub use handover::{Handover, NetworkEnds};
pub use held::{Found, FoundName, find as find_held_names, fuzz_git_settings, names_found};
pub use host_limit::{HostLimit, MOUNTS_OF_A_SANDBOX};
pub use process::{
    Claim, HeadStart, KeepsCgroups, MemoryRoom, NEUTRAL_ID, Places, StateClaim, give_up_calls,
    keep_only_calls, memory_room, serve_as_janitor_if_asked,
};
pub use select::{NAMES, SelectError, all, select};
