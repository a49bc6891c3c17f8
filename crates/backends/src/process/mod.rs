//! The process backend: the host's kernel, and every layer of it that separates.
//!
//! - [`probe`]: the parts of each layer that this host has, and how to get the rest
//! - [`create`]: the order in which a fence goes up
//! - [`identity`]: host ids that nothing else has
//! - [`slot`]: one number per live sandbox, and the remains of a crashed engine
//! - [`places`]: how many slots there are, and how many are taken
//! - [`run_directory`]: where their records and sockets lie
//! - [`claim`]: the engine that owns the sandboxes of a state directory
//! - [`launch`]: clone into new namespaces and execute the guest
//! - [`head_start`]: a child that waits for its sandbox, so that the sandbox need not wait for it
//! - [`guest_executable`]: the guest that this build carries
//! - [`cgroups`]: limits, v1 and v2
//! - [`seccomp`]: the allow-list
//! - [`root`], [`mounts`], [`workspace`]: the files that are seen inside
//! - [`overlay`]: the root over an image, where the guest cannot make it itself
//! - [`placeholder`]: stand-ins for protected names that do not exist
//! - [`new_repository`]: a repository that the work makes where the workspace has none
//! - [`link`]: the way out of a sandbox with network rules
//! - [`disk`]: where the work's writes are kept
//! - [`lasting`], [`adopt`]: the parts that outlive the engine, and how the next engine takes them over
//! - [`anchor`]: the directory that all sandboxes have above their root
//! - [`carry`], [`landing`]: an interpreter that waits is forked into another sandbox
//! - [`nursery`], [`within`]: a sandbox whose interpreter is forked into others, and those that nest in it
//! - [`fence`]: the standing fence, and its end
//! - [`janitor`]: cleans up when the engine is killed
//! - [`weaken`]: layers that a test takes away; nothing in any other build

pub(crate) mod adopt;
mod anchor;
#[cfg(target_arch = "x86_64")]
pub(crate) mod carry;
pub(crate) mod cgroups;
mod claim;
pub(crate) mod create;
mod disk;
pub(crate) mod fence;
pub(crate) mod guest_executable;
mod head_start;
pub(crate) mod identity;
mod janitor;
pub(crate) mod landing;
pub(crate) mod lasting;
mod launch;
pub(crate) mod link;
pub(crate) mod mounts;
mod new_repository;
mod nursery;
mod overlay;
mod placeholder;
mod places;
pub(crate) mod probe;
pub(crate) mod root;
mod run_directory;
pub(crate) mod seccomp;
mod slot;
mod weaken;
pub(crate) mod within;
mod workspace;

pub use cgroups::{Keeping as KeepsCgroups, MemoryRoom, memory_room};
pub use claim::{Claim, StateClaim};
pub use disk::NEUTRAL_ID;
pub use head_start::HeadStart;
pub use janitor::serve_if_asked as serve_as_janitor_if_asked;
pub use places::Places;
pub use seccomp::{give_up_calls, keep_only_calls};

use crate::backend::{AdoptError, Backend, CreateError, Nursery, Raised};
use create::Role;
use paddock_model::{Availability, Guarantees, SandboxId, Spec};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub struct ProcessBackend {
    state: PathBuf,
}

impl ProcessBackend {
    pub const NAME: &str = "process";

    pub fn new(state: &Path) -> Self {
        ProcessBackend { state: state.to_path_buf() }
    }
}

impl Backend for ProcessBackend {
    fn name(&self) -> &'static str {
        ProcessBackend::NAME
    }

    fn probe(&self) -> Availability {
        probe::availability(&self.state)
    }

    fn guarantees(&self, spec: &Spec) -> Guarantees {
        probe::guarantees(spec)
    }

    fn create(&self, id: &SandboxId, spec: &Spec, lasting: bool) -> Result<Raised, CreateError> {
        let role = if lasting { Role::Lasting } else { Role::Passing };
        create::create(&self.state, id, spec, role, None).map(|made| made.raised)
    }

    fn create_nursery(&self, id: &SandboxId, spec: &Spec) -> Result<(Raised, Arc<dyn Nursery>), CreateError> {
        nursery::create(&self.state, id, spec)
    }

    fn adopt(&self, id: &SandboxId) -> Result<Raised, AdoptError> {
        adopt::adopt(&self.state, id, None)
    }

    fn stands(&self, id: &SandboxId) -> bool {
        adopt::stands(&self.state, id, None)
    }

    fn remove(&self, id: &SandboxId) -> Result<(), AdoptError> {
        adopt::remove(&self.state, id, None)
    }

    fn sweep(&self, keep: &BTreeSet<SandboxId>) -> std::io::Result<Vec<SandboxId>> {
        cgroups::sweep_spares(cgroups::detect());
        adopt::sweep(&self.state, keep, None)
    }
}
