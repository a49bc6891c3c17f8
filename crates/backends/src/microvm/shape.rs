//! The shape of a sandbox's VM: its memory and processors, and the needs of QEMU and the VM's kernel besides the work.

use super::monitor::{Acceleration, Shape};
use super::qemu::TRANSLATED;
use paddock_fences::error::CreateError;
use paddock_model::Limits;

/// Bytes that the VM's kernel needs besides the work.
const OWN_KERNEL: u64 = 128 << 20;
/// Bytes that QEMU needs besides the VM's memory.
const OWN_MEMORY: u64 = 160 << 20;
/// QEMU's threads, including those that serve shared files.
const OWN_THREADS: u32 = 256;
const OWN_FILES: u32 = 16_384;
/// The fence's own files.
const OWN_DISK: u64 = 16 << 20;
const MOST_PROCESSORS: u32 = 16;

/// Memory of the whole VM, for a sandbox with these limits.
fn memory(limits: &Limits) -> u64 {
    limits.memory.saturating_add(limits.memory / 32 + OWN_KERNEL).next_multiple_of(64 << 20)
}

/// A VM cannot have more memory than the host: such a VM would boot, in minutes, but no copy of it would ever begin.
pub fn refuse_more_than(host: u64, limits: &Limits) -> Result<(), CreateError> {
    let machine = memory(limits);
    if machine <= host {
        return Ok(());
    }
    Err(CreateError::Unavailable {
        missing: format!("memory: its VM would have {} MiB, and this host has {}", machine >> 20, host >> 20),
        remedy: Some(
            "ask for less (`--memory`, `limits.memory_bytes`); what is not used is not taken".into(),
        ),
    })
}

/// The host's memory, with its swap.
pub fn memory_of_the_host() -> u64 {
    let host = rustix::system::sysinfo();
    (host.totalram as u64).saturating_add(host.totalswap as u64).saturating_mul(host.mem_unit.into())
}

/// The shape of a sandbox's VM, however it began.
pub fn shape(limits: &Limits, acceleration: Acceleration) -> Shape {
    let memory = memory(limits);
    let here = std::thread::available_parallelism().map_or(1, |number| number.get() as u32);
    let processors = (limits.cpus.ceil() as u32).clamp(1, here.min(MOST_PROCESSORS));
    let fixed_addresses = acceleration == Acceleration::Emulated && super::qemu::wants_fixed_addresses();
    Shape { memory, processors, acceleration, fixed_addresses }
}

/// The limits of the cgroups: those of the work, plus the needs of QEMU and the VM's kernel.
pub fn with_own(work: &Limits, shape: Shape) -> Limits {
    Limits {
        memory: shape.memory.saturating_add(OWN_MEMORY + (TRANSLATED << 20) + OWN_DISK),
        pids: OWN_THREADS,
        files: OWN_FILES,
        disk: OWN_DISK,
        ..work.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_memory_than_the_host_has_is_refused() {
        let limits = Limits { memory: 256 << 20, ..Limits::default() };
        refuse_more_than(memory(&limits), &limits).unwrap();
        let refused = refuse_more_than(memory(&limits) - 1, &limits).unwrap_err();
        assert!(refused.to_string().contains("its VM would have 448 MiB"), "{refused}");
        assert!(refused.hint().is_some());
        let absurd = Limits { memory: 1 << 50, ..Limits::default() };
        assert!(refuse_more_than(memory_of_the_host(), &absurd).is_err());
    }
}
