//! Memory pressure: with less memory left than the server is to keep free, it sheds load before the kernel kills.
//!
//! - [`gauge`]: the memory that is left, of the host and of the cgroups around the server
//! - [`choice`]: the sandboxes that are hibernated for it, and their order
//! - [`watcher`]: the task that looks, takes down ready sandboxes of pools, and hibernates

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

/// The host's shortage of memory, as the watcher last found it.
#[derive(Default)]
pub struct Pressure {
    /// True if less is left than must be kept free.
    holds: AtomicBool,
    /// True if, besides, nothing more could be shed.
    is_short: AtomicBool,
    /// The bytes that were left, and the bytes to keep free, at the last look.
    available: AtomicU64,
    mark: AtomicU64,
    hibernated: AtomicU64,
}

impl Pressure {
    pub fn holds(&self) -> bool {
        self.holds.load(Ordering::Relaxed)
    }

    /// The number of sandboxes that were hibernated for lack of memory.
    pub fn hibernated_total(&self) -> u64 {
        self.hibernated.load(Ordering::Acquire)
    }

    fn note(&self, available: u64, mark: u64) {
        self.available.store(available, Ordering::Relaxed);
        self.mark.store(mark, Ordering::Relaxed);
    }

    /// Returns true if it did not hold before.
    fn begin(&self) -> bool {
        !self.holds.swap(true, Ordering::Relaxed)
    }

    /// Returns true if it held before.
    fn end(&self) -> bool {
        self.is_short.store(false, Ordering::Relaxed);
        self.holds.swap(false, Ordering::Relaxed)
    }
}

impl Fleet {
    /// Checked before something begins that takes memory: a create, a fork, a sandbox that wakes.
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
