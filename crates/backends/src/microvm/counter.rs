//! The time-stamp counter of the host's processor. An emulated processor shows the same number (QEMU passes it on), so
//! the VM's kernel has to be told its rate: with another rate, its clock would run too fast or too slow.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Long enough that the time between two readings does not count.
const WHILE: Duration = Duration::from_millis(10);
const TRIES: usize = 5;
/// Rates that differ by less than this, in kHz, belong to the same processor.
const STEP: u64 = 50_000;

/// Thousands in a second. Measured once.
pub fn rate() -> u64 {
    static RATE: OnceLock<u64> = OnceLock::new();
    *RATE.get_or_init(|| {
        let mut measured: Vec<u64> = (0..TRIES).map(|_| measure()).collect();
        measured.sort_unstable();
        measured[TRIES / 2]
    })
}

/// A name for the rate, for kept VMs: a VM whose clock would be wrong on this host has another name.
pub fn name() -> String {
    format!("{} kHz", (rate() + STEP / 2) / STEP * STEP)
}

fn measure() -> u64 {
    let (begun, first) = (Instant::now(), read());
    std::thread::sleep(WHILE);
    let (elapsed, last) = (begun.elapsed(), read());
    let ticks = u128::from(last.wrapping_sub(first)) * 1_000_000;
    u64::try_from(ticks / elapsed.as_nanos().max(1)).unwrap_or(u64::MAX).max(1)
}

#[cfg(target_arch = "x86_64")]
fn read() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and it only reads.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// QEMU counts nanoseconds on others.
#[cfg(not(target_arch = "x86_64"))]
fn read() -> u64 {
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    u64::try_from(BEGUN.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_runs_at_one_rate() {
        let (first, second) = (rate(), measure());
        assert!(first > 100_000, "{first} kHz");
        assert!(first.abs_diff(second) < first / 10, "{first} and {second} kHz");
    }
}
