//! Memory pressure: with less memory left than the server is to keep free, it sheds load before the kernel kills.
//!
//! - [`gauge`]: how much memory is left, of the host and of the cgroups around the server
//! - [`choice`]: which sandboxes are hibernated for it, and in which order
//! - [`watcher`]: the task that looks, gives back what waits in pools, and hibernates

mod choice;
mod gauge;
mod watcher;

pub use gauge::{Memory, meminfo_bytes};
pub use watcher::start;

use super::{Fleet, FleetError};
use paddock_model::format_bytes;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A sandbox that was used within this time is not idle.
pub const LEAST_QUIET: Duration = Duration::from_secs(5);
/// A sandbox that was woken within this time is left awake: else two sandboxes in turn would only wake and sleep.
const AFTER_WAKING: Duration = Duration::from_secs(30);

/// Whether the host is short of memory, as the watcher last found it.
#[derive(Default)]
pub struct Pressure {
    /// Less is left than is to be kept free.
    holds: AtomicBool,
    /// And nothing more could be shed.
    is_short: AtomicBool,
    /// Bytes that were left, and bytes that are to be kept free, at the last look.
    available: AtomicU64,
    mark: AtomicU64,
    hibernated: AtomicU64,
}

impl Pressure {
    pub fn holds(&self) -> bool {
        self.holds.load(Ordering::Relaxed)
    }

    /// Sandboxes that were hibernated for want of memory.
    pub fn hibernated_total(&self) -> u64 {
        self.hibernated.load(Ordering::Acquire)
    }

    fn note(&self, available: u64, mark: u64) {
        self.available.store(available, Ordering::Relaxed);
        self.mark.store(mark, Ordering::Relaxed);
    }

    /// Whether it did not hold before.
    fn begin(&self) -> bool {
        !self.holds.swap(true, Ordering::Relaxed)
    }

    /// Whether it held before.
    fn end(&self) -> bool {
        self.is_short.store(false, Ordering::Relaxed);
        self.holds.swap(false, Ordering::Relaxed)
    }
}

impl Fleet {
    /// Before something begins that takes memory: a create, a fork, a sandbox that wakes.
    pub(super) fn unless_short_of_memory(&self) -> Result<(), FleetError> {
        let pressure = &self.0.pressure;
        if !pressure.is_short.load(Ordering::Relaxed) {
            return Ok(());
        }
        let left = format_bytes(pressure.available.load(Ordering::Relaxed));
        let mark = format_bytes(pressure.mark.load(Ordering::Relaxed));
        Err(FleetError::short_of_memory(format!(
            "{left} of memory are left on the host, the server keeps {mark} free, and no idle sandbox is left that may be hibernated"
        )))
    }
}
