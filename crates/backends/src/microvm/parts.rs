//! The parts that this host has for a VM: QEMU and a kernel, and what a sandbox needs of them.

use super::kernel::Kernel;
use super::qemu::Qemu;
use super::shape::{memory_of_the_host, refuse_more_than};
use super::{guest_plan, kernel, runtime};
use paddock_fences::error::CreateError;
use paddock_fences::shared::identity;
use paddock_model::{Network, Root, Spec};
use std::path::Path;

/// The parts that this host has for a VM.
pub struct Parts {
    pub vmm: Qemu,
    pub kernel: Kernel,
}

impl Parts {
    pub fn find(state: &Path, spec: &Spec) -> Result<Parts, CreateError> {
        guest_plan::refuse_the_hosts_network(&spec.network)?;
        if let Some((missing, remedy)) = not_for_this_user() {
            return Err(CreateError::Unavailable { missing: missing.into(), remedy: Some(remedy.into()) });
        }
        refuse_more_than(memory_of_the_host(), &spec.limits)?;
        let parts = Parts::look(state)?;
        let kernel = &parts.kernel;
        if !kernel.shares && (spec.root == Root::HostUsr || guest_plan::shares(spec)) {
            return Err(CreateError::Unavailable {
                missing: format!(
                    "directories of the host in a VM: the kernel {} has no modules `9p` and `9pnet_virtio` (Debian's cloud \
                     kernel has none)",
                    kernel.version
                ),
                remedy: Some(format!(
                    "{}; or give an image (`--image`), and no workspace or mounts",
                    kernel::REMEDY
                )),
            });
        }
        if !kernel.networks && spec.network != Network::None {
            return Err(CreateError::Unavailable {
                missing: format!("network rules: the kernel {} has no module `veth`", kernel.version),
                remedy: Some(kernel::REMEDY.into()),
            });
        }
        Ok(parts)
    }

    /// Finds the parts for any VM.
    pub fn look(state: &Path) -> Result<Parts, CreateError> {
        let runtime = runtime::find().map_err(|error| runtime::unavailable(&error))?;
        let kernel = kernel::find(state).map_err(|error| kernel::unavailable(&error))?;
        Ok(Parts { vmm: Qemu { runtime }, kernel })
    }
}

/// The part of this host that an ordinary user lacks, and the remedy.
pub fn not_for_this_user() -> Option<(&'static str, &'static str)> {
    let ordinary = identity::method() != identity::Method::Range;
    ordinary.then_some((
        "an ordinary user cannot make the disks and host ids of a VM yet",
        "run paddock as root; or use `--backend process`",
    ))
}
