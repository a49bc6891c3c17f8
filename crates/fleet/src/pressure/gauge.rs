//! The memory that is left: the smaller of the host's available memory and the room in the cgroups around the server.

use paddock_backends::MemoryRoom;

/// The part of the memory that is kept free unless the owner sets another amount, and the most that this is.
const USUAL_SHARE: u64 = 20;
const USUAL_MOST: u64 = 1 << 30;
/// Percent of the last ten seconds in which some process waited for memory.
const WAITING: f64 = 20.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Bytes that are still available.
    pub available: u64,
    pub total: u64,
    /// True if processes of the host wait for memory already, by the kernel's pressure stall information.
    pub is_waited_for: bool,
}

impl Memory {
    pub fn now() -> Option<Memory> {
        let read = |path: &str| std::fs::read_to_string(path).ok();
        let stalls = read("/proc/pressure/memory");
        Memory::of(&read("/proc/meminfo")?, paddock_backends::memory_room(), stalls.as_deref())
    }

    fn of(meminfo: &str, room: Option<MemoryRoom>, stalls: Option<&str>) -> Option<Memory> {
        let available = meminfo_bytes(meminfo, "MemAvailable:")?;
        let total = meminfo_bytes(meminfo, "MemTotal:")?;
        Some(Memory {
            available: room.map_or(available, |room| room.free.min(available)),
            total: room.map_or(total, |room| room.limit.min(total)),
            is_waited_for: stalls.and_then(some_of_ten_seconds).is_some_and(|percent| percent >= WAITING),
        })
    }

    /// Below this many available bytes load is shed. Waiting alone is no reason for that: one sandbox that thrashes
    /// within a limit of its own makes processes wait too. Waiting doubles the mark.
    pub fn mark(&self, keep_free: Option<u64>) -> u64 {
        let mark = keep_free.unwrap_or((self.total / USUAL_SHARE).min(USUAL_MOST));
        if self.is_waited_for { mark.saturating_mul(2) } else { mark }
    }
}

/// The value of a line of /proc/meminfo.
pub fn meminfo_bytes(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kibibytes| kibibytes << 10)
}

fn some_of_ten_seconds(stalls: &str) -> Option<f64> {
    let some = stalls.lines().find_map(|line| line.strip_prefix("some "))?;
    some.split_whitespace().find_map(|part| part.strip_prefix("avg10="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: &str = "MemTotal:       8388608 kB\nMemFree: 1 kB\nMemAvailable:   4194304 kB\n";
    const GIB: u64 = 1 << 30;

    #[test]
    fn the_smaller_of_host_and_cgroup_is_left() {
        let host = Memory { available: 4 * GIB, total: 8 * GIB, is_waited_for: false };
        assert_eq!(Memory::of(MEMINFO, None, None), Some(host));
        let tight = MemoryRoom { free: GIB, limit: 2 * GIB };
        let inside = Memory { available: GIB, total: 2 * GIB, is_waited_for: false };
        assert_eq!(Memory::of(MEMINFO, Some(tight), None), Some(inside));
        let wide = MemoryRoom { free: 16 * GIB, limit: 32 * GIB };
        assert_eq!(Memory::of(MEMINFO, Some(wide), None), Some(host));
        assert_eq!(Memory::of("nothing", None, None), None);
    }

    #[test]
    fn a_twentieth_is_kept_free_but_no_more_than_a_gibibyte_unless_it_is_said() {
        let memory = |total| Memory { available: 0, total, is_waited_for: false };
        assert_eq!(memory(2000).mark(None), 100);
        assert_eq!(memory(64 * GIB).mark(None), GIB);
        assert_eq!(memory(64 * GIB).mark(Some(7)), 7);
    }

    #[test]
    fn the_mark_is_twice_as_high_while_processes_wait() {
        let stalls = |percent: &str| {
            format!(
                "some avg10={percent} avg60=0.00 avg300=0.31 total=35\nfull avg10=99.00 avg60=0.00 avg300=0.22 total=12\n"
            )
        };
        let mark =
            |percent| Memory::of(MEMINFO, None, Some(&stalls(percent))).map(|memory| memory.mark(Some(100)));
        assert_eq!(mark("0.00"), Some(100));
        assert_eq!(mark("20.00"), Some(200));
        assert_eq!(Memory::of(MEMINFO, None, Some("")).map(|memory| memory.mark(Some(100))), Some(100));
    }
}
