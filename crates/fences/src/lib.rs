//! A fence: the traits of one, and the parts that the fences of all backends share. Nothing here knows a backend.
//!
//! - [`backend`]: the trait of a backend; [`purpose`]: what one of its sandboxes is for
//! - [`fence`]: the trait of a sandbox that stands, and those of sandboxes that others begin from; [`fence_usage`]: the kernel's
//!   counts; [`error`]: their errors
//! - [`held`]: the names in a workspace that stay read-only because of the workspace's content
//! - [`handover`]: the network link of a sandbox, from its guest to the engine
//! - [`host_limit`]: limits of the host that refuse the next sandbox
//! - [`shared`]: slots, host ids, cgroups, records, adoption, the launch of the guest
//! - [`live_fork`]: a waiting interpreter, or a VM, is copied as it stands into another sandbox
//!
//! The guest's executable is carried in here, since [`shared`] launches it.

pub mod backend;
pub mod error;
pub mod fence;
pub mod fence_usage;
pub mod handover;
pub mod held;
pub mod host_limit;
pub mod live_fork;
pub mod purpose;
pub mod shared;

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
pub use purpose::Purpose;
pub use shared::{
    Claim, HeadStart, KeepsCgroups, MemoryRoom, NEUTRAL_ID, Places, StateClaim, memory_room,
    serve_as_janitor_if_asked,
};
