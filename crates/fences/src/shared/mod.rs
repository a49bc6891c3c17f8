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

pub mod adopt;
pub mod cgroups;
pub mod child;
mod claim;
pub mod fence;
pub mod guest_executable;
pub mod head_start;
pub mod identity;
mod janitor;
pub mod kernel;
pub mod lasting;
pub mod launch;
pub mod nested_launch;
pub mod new_repository;
pub mod placeholder;
mod places;
pub mod repository_files;
pub mod root_rights;
pub mod run_directory;
pub mod slot;
pub mod user_namespace;
pub mod way_in;
pub mod weaken;
pub mod written_repositories;

pub use cgroups::{Keeping as KeepsCgroups, MemoryRoom, memory_room};
pub use claim::{Claim, StateClaim};
pub use head_start::HeadStart;
pub use identity::NEUTRAL_ID;
pub use janitor::serve_if_asked as serve_as_janitor_if_asked;
pub use places::Places;
