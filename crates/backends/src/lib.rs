//! The fences of Paddock, and the choice between them. The traits, and the parts that all of them share, are in `paddock_fences`; those
//! that a caller of a backend meets are named here too.
//!
//! - [`installed`]: programs and kernels of others that this host has
//! - [`select`]: which backend a spec gets
//! - [`gvisor`]: a kernel in user space, inside the process backend's fence
//! - [`microvm`]: a VM with a kernel of its own, inside the process backend's fence
//! - [`notice`]: news for a person who waits
//! - [`process`]: Linux namespaces, cgroups, seccomp and Landlock; no daemon, no KVM
//! - [`parts`]: the parts that every backend needs, for one outside of this crate
//!
//! A backend only knows how to put up a fence and hand back a byte stream to the guest inside it.

mod gvisor;
mod installed;
mod microvm;
mod notice;
pub mod parts;
mod process;
mod select;

pub use notice::tell_waiting;
pub use paddock_fences::{
    AdoptError, AwaitedFork, Backend, BegunLiveFork, CopiedInterpreter, CreateError, Fence, FenceUsage,
    ForkBegun, ForkComposed, Found, FoundName, Handover, HeadStart, HostLimit, Interpreter, InterpreterStart,
    KeepsCgroups, Kept, Landing, LiveForkError, LiveForkSource, MOUNTS_OF_A_SANDBOX, MemoryRoom, NEUTRAL_ID,
    NetworkEnds, PausedVm, Places, Purpose, Raised, Shortage, ZygoteSandbox, find_held_names,
    fuzz_git_settings, memory_room, names_found, serve_as_janitor_if_asked,
};
pub use process::{give_up_calls, keep_only_calls};
pub use select::{FindBackends, SelectError, all, select};
