//! What the work used, as far as the inside can tell.

use paddock_protocol::WorkUsage;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};

/// Counters that have to be opened before the agent hides itself from /proc.
pub struct Counters {
    io: Option<File>,
    /// `None` where the disk is the host's: the host counts it.
    disk: Option<&'static str>,
}

impl Counters {
    /// Precondition: /proc is the sandbox's own.
    pub fn open(disk_in_memory: bool) -> Counters {
        Counters { io: File::open("/proc/self/io").ok(), disk: disk_in_memory.then_some("/tmp") }
    }

    /// Processor time and bytes count every process that has ended: whoever reaps adds them up, and the last
    /// to reap is this one. `most_memory` is the most that was seen of all processes together, 0 where nobody looked.
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
        match self.disk.map(rustix::fs::statvfs) {
            Some(Ok(disk)) => (disk.f_blocks - disk.f_bfree) * disk.f_frsize,
            _ => 0,
        }
    }

    fn host_bytes(&self) -> Option<u64> {
        let mut text = [0; 512];
        let length = self.io.as_ref()?.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(&text[..length]).ok()?;
        text.lines().find_map(|line| line.strip_prefix("write_bytes: "))?.parse().ok()
    }
}

/// Memory of all work now: private pages of every process, anonymous files and segments that nobody has
/// mapped, and the disk where it lives in memory.
pub fn memory_in_use(counters: &Counters) -> u64 {
    let mut pages = 0u64;
    let mut files = AnonymousFiles::default();
    let Ok(processes) = std::fs::read_dir("/proc") else { return 0 };
    for process in processes.flatten() {
        let name = process.file_name();
        let Some(pid) = name.to_str().filter(|n| n.bytes().all(|b| b.is_ascii_digit())) else { continue };
        if pid == "1" {
            continue;
        }
        files.count(pid);
        // Total, resident, shared: what is shared with files is not the work's own.
        let Ok(text) = std::fs::read_to_string(format!("/proc/{pid}/statm")) else { continue };
        let mut fields = text.split(' ').skip(1).map(|f| f.parse::<u64>().unwrap_or(0));
        let resident = fields.next().unwrap_or(0);
        pages += resident.saturating_sub(fields.next().unwrap_or(0));
    }
    pages * rustix::param::page_size() as u64 + files.bytes + segments() + counters.disk_bytes()
}

/// The same where the kernel serves nobody else: by its own count, which knows what processes share.
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

/// memfd and its like, through the descriptors that hold them. Looking is bounded, so that a process with very
/// many descriptors cannot keep the agent busy.
#[derive(Default)]
struct AnonymousFiles {
    seen: std::collections::BTreeSet<u64>,
    looked: usize,
    bytes: u64,
}

const MOST_LOOKS: usize = 4096;

impl AnonymousFiles {
    fn count(&mut self, pid: &str) {
        let Ok(descriptors) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return };
        for descriptor in descriptors.flatten() {
            self.looked += 1;
            if self.looked > MOST_LOOKS {
                return;
            }
            let path = descriptor.path();
            if !std::fs::read_link(&path)
                .is_ok_and(|target| target.as_os_str().as_bytes().starts_with(b"/memfd:"))
            {
                continue;
            }
            let Ok(found) = std::fs::metadata(&path) else { continue };
            if self.seen.insert(found.ino()) {
                self.bytes += found.blocks() * 512;
            }
        }
    }
}

/// System V shared memory of the sandbox's own namespace: the 15th column is what is resident.
fn segments() -> u64 {
    const RESIDENT: usize = 14;
    let text = std::fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    let resident = |line: &str| line.split_whitespace().nth(RESIDENT).and_then(|f| f.parse::<u64>().ok());
    text.lines().skip(1).filter_map(resident).sum()
}
/// What a kernel says that it has killed for want of memory, in the file of its cgroup's events.
pub fn memory_kills(events: &impl std::os::fd::AsFd) -> u64 {
    let mut text = [0; 512];
    let Ok(count) = rustix::io::pread(events, &mut text, 0) else { return 0 };
    let text = String::from_utf8_lossy(&text[..count]);
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok()).unwrap_or(0)
}
