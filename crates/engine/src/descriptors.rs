//! The file descriptors that this process has left. Some are kept for ending things: a request that begins something
//! new is refused before the last ones are gone, so that sandboxes can always be removed.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::os::linux::fs::MetadataExt;

/// The number that is kept; at most an eighth of all.
const RESERVE: u64 = 256;
const PART: u64 = 8;

/// The open descriptors, and the most that this process may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptors {
    pub open: u64,
    pub most: u64,
}

impl Descriptors {
    pub fn now() -> Descriptors {
        Descriptors { open: open(), most: getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) }
    }

    /// True if something new may take some.
    pub fn has_room(&self) -> bool {
        self.left() > self.reserve()
    }

    /// True if a connection may take one. Half of the reserve is left for the requests over connections; a further
    /// quarter only the connections of the host's owner may use, who can remove things.
    pub fn has_room_for_connection(&self, owner: bool) -> bool {
        self.left() > self.reserve() / if owner { 4 } else { 2 }
    }

    fn left(&self) -> u64 {
        self.most.saturating_sub(self.open)
    }

    fn reserve(&self) -> u64 {
        RESERVE.min(self.most / PART)
    }
}

/// The reserve of a process that may have many.
pub const KEPT_FOR_ENDING: u64 = RESERVE;

/// A server has two descriptors for each sandbox, and one for each connection. The kernel's default allows this many.
const WANTED: u64 = 1 << 20;
/// The table of descriptors is made for this many at once, half a MiB. While the table grows, the kernel makes every
/// thread that opens a file wait for all processors; without this, 15 times on the way to 20,000 sandboxes.
const TABLE: i32 = 1 << 16;

/// Raises this process's limit as far as it may; root may go beyond the hard limit.
pub fn take_all() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let more = maximum.map(|maximum| maximum.max(WANTED));
    let set = |most| setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most });
    if let Err(error) = set(more).or_else(|_| set(maximum)) {
        tracing::debug!(%error, "the limit of open files could not be raised");
    }
    // The descriptor is closed at once; the table stays.
    let most =
        getrlimit(Resource::Nofile).current.map_or(TABLE, |most| TABLE.min(most.min(i32::MAX as u64) as i32));
    drop(rustix::io::fcntl_dupfd_cloexec(std::io::stderr(), most - 1));
}

/// Counts the open descriptors without taking one, and without a look at each.
fn open() -> u64 {
    // Since Linux 6.2 the size of this directory is their number.
    let counted = std::fs::metadata("/proc/self/fd").map_or(0, |directory| directory.st_size());
    if counted > 0 {
        return counted;
    }
    // The kernel gives out the lowest free number: all numbers below it are taken.
    use std::os::fd::AsRawFd;
    match rustix::io::fcntl_dupfd_cloexec(std::io::stderr(), 0) {
        Ok(lowest) => lowest.as_raw_fd().unsigned_abs().into(),
        Err(_) => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_opened_is_counted() {
        let before = open();
        let opened: Vec<_> = (0..200).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
        // Other tests open and close some meanwhile.
        assert!(open() > before + 100, "{before} {}", open());
        drop(opened);
    }

    #[test]
    fn the_last_ones_are_kept() {
        for (open, most, room) in [
            (0, 1024, true),
            (895, 1024, true),
            (896, 1024, false),
            (19_743, 20_000, true),
            (19_744, 20_000, false),
        ] {
            assert_eq!(Descriptors { open, most }.has_room(), room, "{open} of {most}");
        }
        for (open, everybody, owner) in [(895, true, true), (960, false, true), (992, false, false)] {
            let left = Descriptors { open, most: 1024 };
            assert_eq!(left.has_room_for_connection(false), everybody, "{open}");
            assert_eq!(left.has_room_for_connection(true), owner, "{open}");
        }
    }
}
