//! The process backend: the host's kernel, and every layer of it that separates.
//!
//! - [`probe`]: the parts of each layer that this host has, and how to get the rest
//! - [`create`]: the order in which a fence goes up
//! - [`seccomp`]: the allow-list
//! - [`root`], [`mounts`], [`workspace`]: the files that are seen inside; [`passed`]: how the guest gets them
//! - [`devices`]: nodes of the sandbox's own
//! - [`overlay`]: the root over an image, where the guest cannot make it itself
//! - [`link`]: the way out of a sandbox with network rules
//! - [`disk`]: where the work's writes are kept
//! - [`anchor`]: the directory that all sandboxes have above their root
//! - [`zygote`]: a sandbox whose interpreter is forked into others
//! - [`fence`]: the standing fence, and the place in it for live forks
//!
//! The parts that a fence of any backend has (host ids, cgroups, slots, records, the launch of the guest) are in [`paddock_fences::shared`]; the
//! copying of a running interpreter is in [`paddock_fences::live_fork`].

mod anchor;
pub(crate) mod create;
pub(crate) mod devices;
mod disk;
mod fence;
pub(crate) mod link;
pub(crate) mod mounts;
mod overlay;
pub(crate) mod passed;
pub(crate) mod probe;
pub(crate) mod root;
pub(crate) mod seccomp;
mod sudo;
mod workspace;
mod zygote;

pub use seccomp::{give_up_calls, keep_only_calls};

use create::Nesting;
use paddock_fences::backend::Backend;
use paddock_fences::error::{AdoptError, CreateError};
use paddock_fences::fence::Raised;
use paddock_fences::purpose::Purpose;
use paddock_fences::shared::{adopt, cgroups};
use paddock_model::{Availability, Guarantees, SandboxId, Spec};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

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

    fn create(&self, id: &SandboxId, spec: &Spec, purpose: Purpose) -> Result<Raised, CreateError> {
        match purpose {
            Purpose::Passing | Purpose::Lasting => {
                let (made, _) = create::create(&self.state, id, spec, Nesting::Alone(purpose), None)?;
                Ok(fence::engine_fence(made.raised))
            }
            Purpose::Zygote => zygote::create(&self.state, id, spec),
            Purpose::TemplateMemory | Purpose::ParentVm => Err(purpose.unsupported()),
        }
    }

    fn adopt(&self, id: &SandboxId) -> Result<Raised, AdoptError> {
        adopt::adopt(&self.state, id, None).map(fence::engine_fence)
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
