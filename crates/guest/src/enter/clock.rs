//! Clocks that begin at the sandbox's own start, so that the host's uptime is not seen.

use rustix::thread::UnshareFlags;
use rustix::time::{ClockId, clock_gettime};

/// Holds for processes started afterwards; the agent itself keeps the host's clocks.
pub fn start_at_zero() -> std::io::Result<()> {
    // SAFETY: a new time namespace shares nothing with other threads, and this process has only one.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWTIME) }?;
    let offset = |clock: ClockId| {
        let now = clock_gettime(clock);
        // The kernel takes seconds and a positive rest.
        format!("{} {}", -now.tv_sec - 1, 1_000_000_000 - now.tv_nsec)
    };
    let offsets =
        format!("monotonic {}\nboottime {}\n", offset(ClockId::Monotonic), offset(ClockId::Boottime));
    std::fs::write("/proc/self/timens_offsets", offsets)
}
