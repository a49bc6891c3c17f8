//! The microVM backend: a VM with a kernel of its own between the work and the host's kernel, run by QEMU.
//!
//! It runs inside the process backend's fence, not instead of it: the same namespaces, host ids, cgroups and records, with
//! QEMU where the work would be and the guest in its VM (docs/decisions/0038-a-machine-inside-the-process-fence.md).
//! This module holds only the differences:
//!
//! - [`probe`]: the parts that this host has for VMs, and how to get the rest
//! - [`runtime`]: the QEMU of this host; [`machine`]: the traits of a VM monitor; [`qemu`], [`qmp`]: QEMU's
//!   implementation
//! - [`counter`]: how fast an emulated VM's clock runs
//! - [`kernel`], [`initramfs`]: the files that a VM boots; [`kvm`]: the choice between KVM and emulation
//! - [`image`], [`disk`], [`ext4`]: the disks of a VM
//! - [`bake`]: a VM that waits for orders, kept with its memory; every other VM is a copy of it
//! - [`create`], [`orders`]: from the plan of a process sandbox to that of one with a VM, and the plan of the guest in
//!   it
//! - [`copy`]: a running VM, copied as it is
//! - [`adopt`]: sandboxes that an earlier engine left
//! - [`fence`]: the standing fence
//! - [`memory`]: the memory of a running VM, kept and brought back; [`above`]: the same for any number of others

mod above;
mod adopt;
mod bake;
mod copy;
mod counter;
mod create;
mod disk;
mod ext4;
mod fence;
mod image;
mod initramfs;
mod kernel;
mod kvm;
mod machine;
mod memory;
mod orders;
mod probe;
mod qemu;
mod qmp;
mod runtime;
mod sparse;

use crate::backend::{AdoptError, Backend, CreateError, Nursery, Raised};
use create::Life;
use paddock_model::{Availability, Guarantees, SandboxId, Spec};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub struct MicrovmBackend {
    state: PathBuf,
}

impl MicrovmBackend {
    pub const NAME: &str = "microvm";

    pub fn new(state: &Path) -> Self {
        MicrovmBackend { state: state.to_path_buf() }
    }
}

impl Backend for MicrovmBackend {
    fn name(&self) -> &'static str {
        MicrovmBackend::NAME
    }

    fn missing(&self) -> Option<String> {
        probe::missing(&self.state)
    }

    fn probe(&self) -> Availability {
        probe::availability(&self.state)
    }

    fn guarantees(&self, spec: &Spec) -> Guarantees {
        probe::guarantees(&self.state, spec)
    }

    fn create(&self, id: &SandboxId, spec: &Spec, lasting: bool) -> Result<Raised, CreateError> {
        let life = if lasting { Life::Lasting } else { Life::Passing };
        create::create(&self.state, id, spec, life)
    }

    fn create_stem(&self, id: &SandboxId, spec: &Spec) -> Result<Raised, CreateError> {
        create::create(&self.state, id, spec, Life::Stem)
    }

    fn create_from_memory(&self, id: &SandboxId, spec: &Spec, memory: &Path) -> Result<Raised, CreateError> {
        memory::recall(&self.state, id, spec, memory)
    }

    fn bake_place(&self, spec: &Spec, what: &[u8]) -> Result<Option<PathBuf>, CreateError> {
        above::place(&self.state, spec, what)
    }

    fn create_to_bake(&self, id: &SandboxId, spec: &Spec) -> Result<Raised, CreateError> {
        create::create_to_bake(&self.state, id, spec)
    }

    fn create_nursery(
        &self,
        _id: &SandboxId,
        _spec: &Spec,
    ) -> Result<(Raised, Arc<dyn Nursery>), CreateError> {
        Err(CreateError::Unavailable {
            missing: "an interpreter cannot be forked from one machine into another".into(),
            remedy: None,
        })
    }

    fn adopt(&self, id: &SandboxId) -> Result<Raised, AdoptError> {
        adopt::adopt(&self.state, id)
    }

    fn stands(&self, id: &SandboxId) -> bool {
        crate::process::adopt::stands(&self.state, id, Some(MicrovmBackend::NAME))
    }

    fn remove(&self, id: &SandboxId) -> Result<(), AdoptError> {
        crate::process::adopt::remove(&self.state, id, Some(MicrovmBackend::NAME))
    }

    fn sweep(&self, keep: &BTreeSet<SandboxId>) -> std::io::Result<Vec<SandboxId>> {
        adopt::sweep(&self.state, keep)
    }
}
