//! The parts that the fences of all backends share. Nothing here knows a backend.
//!
//! - [`slot`]: one number per live sandbox, and the remains of a crashed engine; [`places`]: how many there are, and how many are taken
//! - [`run_directory`]: where the records and sockets of slots lie
//! - [`claim`]: the engine that owns the sandboxes of a state directory
//! - [`identity`]: host ids that nothing else has; [`user_namespace`]: the namespaces that have them
//! - [`root_rights`]: a root inside that may install packages
//! - [`cgroups`]: limits, v1 and v2
//! - [`guest_executable`]: the guest that this build carries
//! - [`launch`]: clone into new namespaces and execute the guest; [`nested_launch`]: the same within another sandbox;
//!   [`child`]: the process that comes of it
//! - [`head_start`]: a child that waits for its sandbox, so that the sandbox need not wait for it
//! - [`way_in`]: the way of a process from outside into a sandbox
//! - [`placeholder`]: stand-ins for protected names that do not exist; [`new_repository`]: a repository that the work made where the
//!   workspace had none; [`written_repositories`]: those that it could write to are made harmless; [`repository_files`]: reading
//!   and writing in them
//! - [`lasting`], [`adopt`]: the parts that outlive the engine, and how the next engine takes them over
//! - [`fence`]: the fence that the host's kernel makes, and its end; [`janitor`]: cleans up when the engine is killed
//! - [`kernel`]: facts about the host's kernel
//! - [`weaken`]: layers that a test takes away; nothing in any other build

pub(crate) mod adopt;
pub(crate) mod cgroups;
pub(crate) mod child;
mod claim;
pub(crate) mod fence;
pub(crate) mod guest_executable;
pub(crate) mod head_start;
pub(crate) mod identity;
mod janitor;
pub(crate) mod kernel;
pub(crate) mod lasting;
pub(crate) mod launch;
pub(crate) mod nested_launch;
pub(crate) mod new_repository;
pub(crate) mod placeholder;
mod places;
pub(crate) mod repository_files;
pub(crate) mod root_rights;
pub(crate) mod run_directory;
pub(crate) mod slot;
pub(crate) mod user_namespace;
pub(crate) mod way_in;
pub(crate) mod weaken;
pub(crate) mod written_repositories;

pub use cgroups::{Keeping as KeepsCgroups, MemoryRoom, memory_room};
pub use claim::{Claim, StateClaim};
pub use head_start::HeadStart;
pub use identity::NEUTRAL_ID;
pub use janitor::serve_if_asked as serve_as_janitor_if_asked;
pub use places::Places;
