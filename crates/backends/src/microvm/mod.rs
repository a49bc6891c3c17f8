//! The microVM backend: a VM with a kernel of its own between the work and the host's kernel, run by QEMU.
//!
//! It runs inside the process backend's fence, not instead of it: the same namespaces, host ids, cgroups and records, with
//! QEMU where the work would be and the guest in its VM (docs/decisions/0038-a-machine-inside-the-process-fence.md).
//! This module holds only the differences:
//!
//! - [`probe`]: the parts that this host has for VMs, and how to get the rest
//! - [`runtime`]: the QEMU of this host; [`monitor`]: the traits of a VM monitor; [`qemu`], [`qmp`]: QEMU's
//!   implementation
//! - [`counter`]: how fast an emulated VM's clock runs
//! - [`kernel`], [`initramfs`]: the files that a VM boots; [`kvm`]: the choice between KVM and emulation;
//!   [`kvm_device`]: the device for one fence
//! - [`parts`]: the parts together, for one sandbox; [`shape`]: memory and processors of its VM
//! - [`image`], [`disk`], [`ext4`]: the disks of a VM
//! - [`bake`]: a VM that waits for orders, kept with its memory; every other VM is a copy of it
//! - [`create`]: a sandbox made anew, or from kept memory
//! - [`launch`], [`guest_plan`]: from the plan of a process sandbox to that of one with a VM, and the plan of the guest in it
//! - [`copy`]: a running VM, copied as it is
//! - [`adopt`]: sandboxes that an earlier engine left
//! - [`fence`]: the standing fence
//! - [`memory`]: the memory of a running VM, kept; [`template_bake`]: the same for any number of others

mod adopt;
mod bake;
mod copy;
mod counter;
mod create;
mod disk;
mod ext4;
mod fence;
mod guest_plan;
mod image;
mod initramfs;
mod kernel;
mod kvm;
mod kvm_device;
mod launch;
mod memory;
mod monitor;
mod parts;
mod probe;
mod qemu;
mod qmp;
mod runtime;
mod shape;
mod sparse;
mod template_bake;

use paddock_fences::backend::Backend;
use paddock_fences::error::{AdoptError, CreateError};
use paddock_fences::fence::Raised;
use paddock_fences::purpose::Purpose;
use paddock_model::{Availability, Guarantees, SandboxId, Spec};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

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

    fn create(&self, id: &SandboxId, spec: &Spec, purpose: Purpose) -> Result<Raised, CreateError> {
        match purpose {
            Purpose::Passing | Purpose::Lasting | Purpose::TemplateMemory | Purpose::ParentVm => {
                create::create(&self.state, id, spec, purpose)
            }
            Purpose::Zygote => Err(purpose.unsupported()),
        }
    }

    fn create_from_memory(&self, id: &SandboxId, spec: &Spec, memory: &Path) -> Result<Raised, CreateError> {
        create::create_from_memory(&self.state, id, spec, memory)
    }

    fn template_memory(&self, spec: &Spec, started: &[u8]) -> Result<Option<PathBuf>, CreateError> {
        template_bake::place(&self.state, spec, started)
    }

    fn adopt(&self, id: &SandboxId) -> Result<Raised, AdoptError> {
        adopt::adopt(&self.state, id)
    }

    fn stands(&self, id: &SandboxId) -> bool {
        paddock_fences::shared::adopt::stands(&self.state, id, Some(MicrovmBackend::NAME))
    }

    fn remove(&self, id: &SandboxId) -> Result<(), AdoptError> {
        paddock_fences::shared::adopt::remove(&self.state, id, Some(MicrovmBackend::NAME))
    }

    fn sweep(&self, keep: &BTreeSet<SandboxId>) -> std::io::Result<Vec<SandboxId>> {
        adopt::sweep(&self.state, keep)
    }
}
