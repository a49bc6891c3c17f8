//! The resources that the work used, as far as the inside can tell.

use paddock_protocol::WorkUsage;
use rustix::fs::{CWD, Mode, OFlags, openat};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

/// Counters that have to be opened before the agent hides itself from /proc.
pub struct Counters {
    io: Option<File>,
    /// `None` where the disk is the host's: the host counts it.
    disk: Option<OwnedFd>,
    /// File systems in memory besides the disk: /dev/shm, and those that the caller asked for.
    in_memory: Vec<OwnedFd>,
}

impl Counters {
    /// `disk`: a directory of the disk, where that is in memory. Precondition: /proc and the root are the sandbox's own.
    pub fn open(disk: Option<&str>, in_memory: &[&str]) -> Counters {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = |path: &str| openat(CWD, path, flags, Mode::empty()).ok();
        Counters {
            io: File::open("/proc/self/io").ok(),
            disk: disk.and_then(open),
            in_memory: in_memory.iter().copied().filter_map(open).collect(),
        }
    }

    /// Processor time and bytes count every process that has ended: each parent that reaps adds them up, and the last
    /// to reap is this one. `most_memory` is the most that was seen of all processes together, 0 if memory was not
    /// watched.
    pub fn read(&self, most_memory: u64) -> WorkUsage {
        // SAFETY: rusage is plain data; getrusage fills it.
        let children = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
            usage
        };
        let microseconds = |t: libc::timeval| t.tv_sec as u64 * 1_000_000 + t.tv_usec as u64;
        WorkUsage {
            disk_bytes: self.disk_bytes(),
            host_bytes: self.host_bytes().unwrap_or(0),
            cpu_us: microseconds(children.ru_utime) + microseconds(children.ru_stime),
            largest_process: most_memory.max(children.ru_maxrss as u64 * 1024),
        }
    }

    pub fn disk_bytes(&self) -> u64 {
        self.disk.as_ref().map_or(0, used)
    }

    /// Bytes of all file systems in memory, the disk among them if it is one. Removed files that a process still has
    /// open count.
    pub fn bytes_in_memory(&self) -> u64 {
        self.disk_bytes() + self.in_memory.iter().map(used).sum::<u64>()
    }

    fn host_bytes(&self) -> Option<u64> {
        let mut text = [0; 512];
        let length = self.io.as_ref()?.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(&text[..length]).ok()?;
        text.lines().find_map(|line| line.strip_prefix("write_bytes: "))?.parse().ok()
    }
}

fn used(directory: &OwnedFd) -> u64 {
    let found = rustix::fs::fstatvfs(directory);
    found.map_or(0, |found| found.f_blocks.saturating_sub(found.f_bfree) * found.f_frsize)
}

/// Memory of all work now, for a kernel that serves no other sandbox: by that kernel's own count, which knows about
/// shared pages. For a kernel that serves others too, [`crate::memory`] counts.
pub fn memory_of_own_kernel(counters: &Counters) -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    };
    let used =
        field("MemTotal:").zip(field("MemFree:")).map_or(0, |(total, free)| total.saturating_sub(free));
    used * 1024 + counters.disk_bytes()
}

/// The number of processes that a kernel has killed for want of memory, from the file of its cgroup's events.
pub fn memory_kills(events: &impl std::os::fd::AsFd) -> u64 {
    let mut text = [0; 512];
    let Ok(count) = rustix::io::pread(events, &mut text, 0) else { return 0 };
    let text = String::from_utf8_lossy(&text[..count]);
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok()).unwrap_or(0)
}
