//! The gVisor backend: a kernel in user space between the work and the host's, run by `runsc`.
//!
//! It runs inside the process backend's fence, not instead of it: the same namespaces, host ids, cgroups, disks, mounts and
//! records, with a sentry where the work would be and the guest behind that
//! (docs/decisions/0030-gvisor-inside-the-process-fence.md). This module holds only the differences:
//!
//! - [`probe`]: the parts of gVisor that this host has, and how to get the rest
//! - [`runtime`]: the `runsc` of this host: where it is, and its abilities
//! - [`bundle`]: the options and the `config.json` for runsc
//! - [`create`]: a sandbox made anew or from kept memory; [`launch`]: from the plan of a process sandbox to that of one with a sentry
//! - [`adopt`]: sandboxes that an earlier engine left
//! - [`fence`]: the standing fence
//! - [`memory`]: the memory of a running sandbox, kept by runsc

mod adopt;
mod bundle;
mod create;
mod fence;
mod launch;
mod memory;
mod probe;
mod runtime;

use paddock_fences::backend::Backend;
use paddock_fences::error::{AdoptError, CreateError};
use paddock_fences::fence::Raised;
use paddock_fences::purpose::Purpose;
use paddock_model::{Availability, Guarantees, SandboxId, Spec};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub struct GvisorBackend {
    state: PathBuf,
}

impl GvisorBackend {
    pub const NAME: &str = "gvisor";

    pub fn new(state: &Path) -> Self {
        GvisorBackend { state: state.to_path_buf() }
    }
}

impl Backend for GvisorBackend {
    fn name(&self) -> &'static str {
        GvisorBackend::NAME
    }

    fn missing(&self) -> Option<String> {
        let absent = runtime::find(&self.state).err().map(|error| error.to_string());
        absent.or_else(|| probe::too_few_ids().map(String::from))
    }

    fn probe(&self) -> Availability {
        probe::availability(&self.state)
    }

    fn guarantees(&self, spec: &Spec) -> Guarantees {
        probe::guarantees(&self.state, spec)
    }

    fn create(&self, id: &SandboxId, spec: &Spec, purpose: Purpose) -> Result<Raised, CreateError> {
        match purpose {
            Purpose::Passing | Purpose::Lasting => create::create(&self.state, id, spec, purpose),
            Purpose::TemplateMemory | Purpose::ParentVm | Purpose::Zygote => Err(purpose.unsupported()),
        }
    }

    fn create_from_memory(&self, id: &SandboxId, spec: &Spec, memory: &Path) -> Result<Raised, CreateError> {
        create::create_from_memory(&self.state, id, spec, memory)
    }

    fn adopt(&self, id: &SandboxId) -> Result<Raised, AdoptError> {
        adopt::adopt(&self.state, id)
    }

    fn stands(&self, id: &SandboxId) -> bool {
        paddock_fences::shared::adopt::stands(&self.state, id, Some(GvisorBackend::NAME))
    }

    fn remove(&self, id: &SandboxId) -> Result<(), AdoptError> {
        paddock_fences::shared::adopt::remove(&self.state, id, Some(GvisorBackend::NAME))
    }

    fn sweep(&self, keep: &BTreeSet<SandboxId>) -> std::io::Result<Vec<SandboxId>> {
        adopt::sweep(&self.state, keep)
    }
}
