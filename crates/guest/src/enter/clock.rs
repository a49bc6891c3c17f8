//! Clocks that begin at the sandbox's own start, so that the host's uptime is not seen.

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use rustix::time::{ClockId, clock_gettime};
use std::os::fd::AsFd;

/// Holds for processes started afterwards; the agent itself keeps the host's clocks, unless it [shares](share_with_the_work) these.
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

/// This process too goes by them: kernels such as 6.1 share no memory between processes whose clocks differ, so that each command
/// would be started from a copy of all of it. Where it cannot, that is how they are started.
pub fn share_with_the_work() {
    if let Ok(clocks) = std::fs::File::open("/proc/self/ns/time_for_children") {
        let _ = move_into_link_name_space(clocks.as_fd(), Some(LinkNameSpaceType::Time));
    }
}
