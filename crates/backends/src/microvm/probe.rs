//! The parts that this host has for VMs, and how to get the rest.

use super::ext4;
use super::kernel::{self, Kernel};
use super::kvm::{self, Decision};
use super::parts::{Parts, not_for_this_user};
use super::runtime::{self, REMEDY};
use super::{MicrovmBackend, guest_plan, qemu};
use crate::process::probe as fence;
use crate::process::probe::check;
use paddock_model::{
    Availability, Boundary, Capability, Check, CheckState, Disk, DiskLimit, ForkKind, Guarantees, Isolation,
    LandlockLevel, LimitKind, PauseKind, Root, SnapshotKind, Spec, Survivor,
};
use std::path::Path;

const KVM_REMEDY: &str = "on a host whose processor can (flags vmx or svm in /proc/cpuinfo), load the module kvm_intel or kvm_amd; in a virtual \
     machine, let it nest. It is tried again after a restart, or without kvm.json in the state directory";

pub const FIXED: &str =
    "programs in the VM have the same addresses each time: it was booted with PADDOCK_VM_ASLR=off";

/// The guarantees of the process fence around it, with the differences of a VM.
pub fn guarantees(state: &Path, spec: &Spec) -> Guarantees {
    let around = fence::guarantees(spec);
    let keeps_memory = keeps_memory(spec);
    let mut guarantees = Guarantees {
        backend: MicrovmBackend::NAME.into(),
        boundary: Boundary::OwnKernel,
        // Both limits by the VM's kernel, and the memory of the whole VM by the host's kernel too.
        memory_limit: LimitKind::Kernel,
        pids_limit: LimitKind::Kernel,
        // The size of its file system, on a file of that size.
        disk_limit: DiskLimit::Kernel,
        pause: PauseKind::StopSignals,
        seccomp: Isolation::On,
        // The Landlock level of the VM's kernel, which is known once it runs.
        landlock_abi: LandlockLevel(0),
        time_namespace: Isolation::On,
        system_inodes: Isolation::On,
        device_inodes: Isolation::On,
        capabilities: vec![
            Capability::PreparedMemory,
            Capability::RunningCopies,
            Capability::DiskImage,
            Capability::EmulatedProcessor,
        ],
        root_capabilities: Vec::new(),
        become_root: false,
        snapshot: if keeps_memory { SnapshotKind::Memory } else { around.snapshot },
        fork: if keeps_memory { ForkKind::Memory } else { ForkKind::Filesystem },
        survives_hibernate: match keeps_memory {
            true => vec![Survivor::Files, Survivor::Memory, Survivor::Processes],
            false => around.survives_hibernate.clone(),
        },
        ..around
    };
    guarantees.weaknesses = fence::weaknesses(&guarantees);
    let decision = Parts::look(state).map(|parts| kvm::decide(state, &parts));
    if let Ok(Decision { why_not: Some(why), .. }) = decision {
        guarantees.weaknesses.push(format!(
            "the VM's processor is emulated ({why}): what computes takes ten times as long, or longer"
        ));
        if qemu::wants_fixed_addresses() {
            guarantees.weaknesses.push(FIXED.into());
        }
    }
    guarantees
}

/// Memory is kept together with the disk of the same instant, so the disk must be in storage. A directory of the host
/// that is shared with a VM cannot be kept with it.
fn keeps_memory(spec: &Spec) -> bool {
    matches!(spec.disk, Disk::Directory { .. }) && spec.root != Root::HostUsr && !guest_plan::shares(spec)
}

/// The first missing part that a quick check finds.
pub fn missing(state: &Path) -> Option<String> {
    let absent = runtime::find().err().or_else(|| kernel::find(state).err()).or_else(|| ext4::find().err());
    absent.map(|error| error.to_string()).or_else(|| not_for_this_user().map(|(missing, _)| missing.into()))
}

pub fn availability(state: &Path) -> Availability {
    let mut checks = Vec::new();
    match runtime::find() {
        Ok(found) => {
            let detail = format!("{} {}", found.path.display(), found.version);
            checks.push(check("QEMU", CheckState::Good, detail, None));
        }
        Err(error) => checks.push(check("QEMU", CheckState::Missing, error.to_string(), Some(REMEDY))),
    }
    match kernel::find(state) {
        Ok(found) => checks.extend([booted(&found), sharing(&found)]),
        Err(error) => {
            checks.push(check("kernel", CheckState::Missing, error.to_string(), Some(kernel::REMEDY)))
        }
    }
    if let Ok(parts) = Parts::look(state) {
        checks.push(processor(kvm::decide(state, &parts)));
    }
    checks.push(match ext4::find() {
        Ok(found) => check("disks", CheckState::Good, found.display().to_string(), None),
        Err(error) => check("disks", CheckState::Missing, error.to_string(), Some(ext4::REMEDY)),
    });
    if let Some((missing, remedy)) = not_for_this_user() {
        checks.push(check("identities", CheckState::Missing, missing, Some(remedy)));
    }
    checks.push(fence::around(state));
    let usable = checks.iter().all(|check| check.state != CheckState::Missing);
    Availability { backend: MicrovmBackend::NAME.into(), usable, checks }
}

/// Emulated is no lack of safety; it is slow.
fn processor(decision: Decision) -> Check {
    match decision.why_not {
        None => check("processor", CheckState::Good, "KVM: a VM was booted on it", None),
        Some(why) => check("processor", CheckState::Degraded, format!("emulated: {why}"), Some(KVM_REMEDY)),
    }
}

fn booted(kernel: &Kernel) -> Check {
    check("kernel", CheckState::Good, kernel.path.display().to_string(), None)
}

fn sharing(kernel: &Kernel) -> Check {
    match kernel.shares {
        true => check("shared directories", CheckState::Good, "by 9p", None),
        false => check(
            "shared directories",
            CheckState::Degraded,
            "this kernel has no 9p: VMs need an image, and have no workspace and no mounts",
            Some(kernel::REMEDY),
        ),
    }
}
