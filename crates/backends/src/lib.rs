//! The fences, and the parts of each.
//!
//! - [`backend`]: the trait of a backend; [`purpose`]: what one of its sandboxes is for
//! - [`fence`]: the trait of a sandbox that stands, and those of sandboxes that others begin from; [`fence_usage`]: the kernel's
//!   counts; [`error`]: their errors
//! - [`held`]: the names in a workspace that stay read-only because of the workspace's content
//! - [`handover`]: the network link of a sandbox, from its guest to the engine
//! - [`host_limit`]: limits of the host that refuse the next sandbox
//! - [`installed`]: programs and kernels of others that this host has
//! - [`select`]: which backend a spec gets
//! - [`gvisor`]: a kernel in user space, inside the process backend's fence
//! - [`microvm`]: a VM with a kernel of its own, inside the process backend's fence
//! - [`notice`]: news for a person who waits
//! - [`process`]: Linux namespaces, cgroups, seccomp and Landlock; no daemon, no KVM
//! - [`shared`]: the parts that all three have: slots, host ids, cgroups, records, adoption, the launch of the guest
//! - [`parts`]: of those, the parts that every backend needs, for one outside of this crate
//! - [`live_fork`]: a waiting interpreter, or a VM, is copied as it stands into another sandbox
//!
//! A backend only knows how to put up a fence and hand back a byte stream to the guest inside it.

mod backend;
mod error;
mod fence;
mod fence_usage;
mod gvisor;
mod handover;
mod held;
mod host_limit;
mod installed;
mod live_fork;
mod microvm;
mod notice;
pub mod parts;
mod process;
mod purpose;
mod select;
mod shared;

pub use backend::Backend;
pub use error::{AdoptError, CreateError, LiveForkError};
pub use fence::{
    AwaitedFork, BegunLiveFork, CopiedInterpreter, Fence, ForkBegun, ForkComposed, Interpreter,
    InterpreterStart, Kept, Landing, LiveForkSource, PausedVm, Raised, ZygoteSandbox,
};
pub use fence_usage::{FenceUsage, Shortage};
pub use handover::{Handover, NetworkEnds};
pub use held::{Found, FoundName, find as find_held_names, fuzz_git_settings, names_found};
pub use host_limit::{HostLimit, MOUNTS_OF_A_SANDBOX};
pub use notice::tell_waiting;
pub use process::{give_up_calls, keep_only_calls};
pub use purpose::Purpose;
pub use select::{FindBackends, SelectError, all, select};
pub use shared::{
    Claim, HeadStart, KeepsCgroups, MemoryRoom, NEUTRAL_ID, Places, StateClaim, memory_room,
    serve_as_janitor_if_asked,
};
