//! The memory of each process as the kernel tells it: quickly, by counters, or exactly, by walking its page tables.

use std::fs::{File, read_to_string};
use std::io::{BufRead, BufReader, Error, ErrorKind};
use std::iter::Sum;

/// Bytes that a process has mapped. Pages of the host's files are left out: the kernel can take them back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mapped {
    /// Anonymous pages, in memory or swapped out, huge pages, and the page tables themselves.
    pub own: u64,
    /// Pages of files in memory, and of shared anonymous mappings, which are such files without a name.
    pub shared: u64,
}

impl Sum for Mapped {
    fn sum<I: Iterator<Item = Mapped>>(all: I) -> Mapped {
        all.fold(Mapped::default(), |sum, one| Mapped {
            own: sum.own.saturating_add(one.own),
            shared: sum.shared.saturating_add(one.shared),
        })
    }
}

pub struct Process {
    pub pid: u32,
    /// Pages that others map too count whole.
    pub mapped: Mapped,
    tables: u64,
}

/// All but this one, in the order of their numbers.
pub fn all() -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut found: Vec<Process> = numbers.filter(|pid| *pid != 1).filter_map(Process::find).collect();
    found.sort_by_key(|process| process.pid);
    found
}

impl Process {
    fn find(pid: u32) -> Option<Process> {
        let text = read_to_string(format!("/proc/{pid}/status")).ok()?;
        let (mapped, tables) = of_status(&text);
        Some(Process { pid, mapped, tables })
    }

    /// Each page divided by the number of processes that map it. A process that cannot be looked into counts whole.
    pub fn walk(&self) -> Mapped {
        match read_to_string(format!("/proc/{}/smaps_rollup", self.pid)) {
            Ok(text) => of_rollup(&text, self.tables).unwrap_or(self.mapped),
            Err(error) if has_ended(&error) => Mapped::default(),
            Err(_) => self.mapped,
        }
    }

    /// Its share of shared mappings that belong to no counted file. `anonymous`: the device of files without a name.
    pub fn shared_of_no_file(&self, anonymous: u64, is_counted: impl Fn(u64) -> bool, walked: Mapped) -> u64 {
        match File::open(format!("/proc/{}/smaps", self.pid)) {
            Ok(file) => of_no_file(BufReader::new(file), anonymous, is_counted).unwrap_or(walked.shared),
            Err(error) if has_ended(&error) => 0,
            Err(_) => walked.shared,
        }
    }
}

fn has_ended(error: &Error) -> bool {
    error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

/// `Name:   123 kB`, in bytes.
fn field(line: &str) -> Option<(&str, u64)> {
    let (name, value) = line.split_once(':')?;
    let kilobytes: u64 = value.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some((name, kilobytes.saturating_mul(1024)))
}

/// And how much of it are page tables.
fn of_status(text: &str) -> (Mapped, u64) {
    let (mut mapped, mut tables) = (Mapped::default(), 0);
    for (name, bytes) in text.lines().filter_map(field) {
        match name {
            "RssAnon" | "VmSwap" | "HugetlbPages" => mapped.own += bytes,
            "RssShmem" => mapped.shared += bytes,
            "VmPTE" => tables = bytes,
            _ => {}
        }
    }
    mapped.own += tables;
    (mapped, tables)
}

/// `None` where the kernel does not tell the kinds apart (before Linux 5.3).
fn of_rollup(text: &str, tables: u64) -> Option<Mapped> {
    let mut mapped = Mapped { own: tables, shared: 0 };
    let mut told = false;
    for (name, bytes) in text.lines().filter_map(field) {
        match name {
            "Pss_Anon" | "SwapPss" | "Private_Hugetlb" | "Shared_Hugetlb" => mapped.own += bytes,
            "Pss_Shmem" => {
                mapped.shared += bytes;
                told = true;
            }
            _ => {}
        }
    }
    told.then_some(mapped)
}

/// Segments of System V have such names, and are counted by their own list.
const SEGMENT: &str = "/SYSV";

fn of_no_file(smaps: impl BufRead, anonymous: u64, is_counted: impl Fn(u64) -> bool) -> Option<u64> {
    let (mut bytes, mut counts) = (0, false);
    for line in smaps.split(b'\n') {
        // Names of files are any bytes.
        let line = String::from_utf8_lossy(&line.ok()?).into_owned();
        match field(&line) {
            Some(("Pss", share)) if counts => bytes += share,
            Some(_) => {}
            None => {
                if let Some((device, inode, name)) = mapping(&line) {
                    counts = device == anonymous && !name.starts_with(SEGMENT) && !is_counted(inode);
                }
            }
        }
    }
    Some(bytes)
}

/// `start-end rights offset major:minor inode   name`; `None` for every other line.
fn mapping(line: &str) -> Option<(u64, u64, &str)> {
    let mut words = line.splitn(6, ' ');
    let (range, _rights, _offset) = (words.next()?, words.next()?, words.next()?);
    range.split_once('-').filter(|(start, _)| u64::from_str_radix(start, 16).is_ok())?;
    let (major, minor) = words.next()?.split_once(':')?;
    let device =
        rustix::fs::makedev(u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?);
    let inode = words.next()?.parse().ok()?;
    Some((device, inode, words.next().unwrap_or("").trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEBIBYTE: u64 = 1 << 20;

    #[test]
    fn counters_of_a_process_are_told_apart() {
        let status = "Name:\tx: 5 kB\nVmPTE:\t      44 kB\nRssAnon:\t    1024 kB\nRssFile:\t    9999 kB\n\
                      RssShmem:\t    2048 kB\nVmSwap:\t       4 kB\nHugetlbPages:\t 0 kB\nThreads:\t1\n";
        let (mapped, tables) = of_status(status);
        assert_eq!(mapped, Mapped { own: MEBIBYTE + (48 << 10), shared: 2 * MEBIBYTE });
        assert_eq!(tables, 44 << 10);
        // A process that has ended has no memory.
        assert_eq!(of_status("Name:\tz\nState:\tZ (zombie)\n"), (Mapped::default(), 0));
    }

    #[test]
    fn a_kernel_that_does_not_tell_kinds_apart_is_not_believed() {
        let new = "Rss: 9 kB\nPss_Anon:  512 kB\nPss_File: 77 kB\nPss_Shmem: 1024 kB\nSwapPss: 512 kB\n";
        assert_eq!(of_rollup(new, 0), Some(Mapped { own: MEBIBYTE, shared: MEBIBYTE }));
        assert_eq!(of_rollup("Rss: 9 kB\nPss: 9 kB\n", 0), None);
    }

    #[test]
    fn only_shared_memory_without_a_counted_file_counts() {
        let maps = "\
7f0000000000-7f0000001000 rw-s 00000000 00:01 11                         /dev/zero (deleted)
Size:               1024 kB
Pss:                 100 kB
7f0000001000-7f0000002000 rw-s 00000000 00:01 12                         /memfd:x 1-2 (deleted)
Pss:                1000 kB
7f0000002000-7f0000003000 rw-s 00000000 00:01 13                         /SYSV00000000 (deleted)
Pss:                1000 kB
7f0000003000-7f0000004000 rw-s 00000000 00:2a 11                         /dev/shm/x
Pss:                1000 kB
7f0000004000-7f0000005000 rw-p 00000000 00:00 0
Pss:                1000 kB
7f0000005000-7f0000006000 rw-s 00000000 00:01 14                         [anon_shmem:name]
Pss:                  28 kB
";
        let of = of_no_file(maps.as_bytes(), rustix::fs::makedev(0, 1), |inode| inode == 12);
        assert_eq!(of, Some(128 << 10));
    }

    #[test]
    fn a_shared_anonymous_mapping_of_this_process_is_found() {
        let bytes = 8 * MEBIBYTE as usize;
        // SAFETY: a new mapping that nothing else refers to, filled within its bounds, and unmapped below.
        let memory = unsafe {
            let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
            let memory =
                libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            assert_ne!(memory, libc::MAP_FAILED);
            memory.cast::<u8>().write_bytes(1, bytes);
            memory
        };
        let own = Process::find(std::process::id()).unwrap();
        let walked = own.walk();
        let anonymous = super::super::files::anonymous_device().unwrap();
        let found = own.shared_of_no_file(anonymous, |_| false, walked);
        // SAFETY: mapped above with this size, and used by nothing any more.
        unsafe { libc::munmap(memory, bytes) };
        assert!(walked.shared >= bytes as u64, "{walked:?}");
        assert!(found >= bytes as u64, "{found}");
    }
}
