//! Memory that belongs to files: memfd and its like, through the descriptors that hold them, and System V segments.

use super::processes::Process;
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

/// Descriptors looked at in one look, so that a process with very many cannot keep the agent busy. The next look goes on
/// where this one stopped.
const MOST_LOOKS: usize = 4096;

/// The anonymous files that descriptors hold. A round sees every descriptor once; it takes several looks where there are many.
#[derive(Default)]
pub struct Descriptors {
    /// Bytes by inode, of the last whole round and of this one.
    before: BTreeMap<u64, u64>,
    now: BTreeMap<u64, u64>,
    /// The process where this round goes on, and how many of its descriptors have been looked at.
    next: (u32, usize),
}

impl Descriptors {
    /// Bytes of all anonymous files. Precondition: `processes` are in the order of their numbers.
    pub fn count(&mut self, processes: &[Process]) -> u64 {
        let mut left = MOST_LOOKS;
        let (first, done) = self.next;
        for process in processes.iter().filter(|process| process.pid >= first) {
            let skipped = if process.pid == first { done } else { 0 };
            let looked = self.look_at(process.pid, skipped, left);
            left -= looked;
            if left == 0 {
                self.next = (process.pid, skipped + looked);
                return self.bytes();
            }
        }
        self.before = std::mem::take(&mut self.now);
        self.next = (0, 0);
        self.bytes()
    }

    /// True if the file is among those that were counted.
    pub fn has(&self, inode: u64) -> bool {
        self.before.contains_key(&inode) || self.now.contains_key(&inode)
    }

    /// While a round is not complete, files that it has not reached count as before.
    fn bytes(&self) -> u64 {
        let unseen = self.before.iter().filter(|(inode, _)| !self.now.contains_key(inode));
        unseen.map(|(_, bytes)| bytes).chain(self.now.values()).sum()
    }

    /// How many were looked at.
    fn look_at(&mut self, pid: u32, skipped: usize, most: usize) -> usize {
        let Ok(descriptors) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return 0 };
        let mut looked = 0;
        for descriptor in descriptors.flatten().skip(skipped).take(most) {
            looked += 1;
            let path = descriptor.path();
            let is_anonymous =
                |target: std::path::PathBuf| target.as_os_str().as_bytes().starts_with(b"/memfd:");
            if !std::fs::read_link(&path).is_ok_and(is_anonymous) {
                continue;
            }
            if let Ok(found) = std::fs::metadata(&path) {
                self.now.insert(found.ino(), found.blocks() * 512);
            }
        }
        looked
    }
}

/// The device of files in memory that have no name, as the kernel tells it in a process's mappings.
pub fn anonymous_device() -> Option<u64> {
    let file = rustix::fs::memfd_create("device", rustix::fs::MemfdFlags::CLOEXEC).ok()?;
    rustix::fs::fstat(&file).ok().map(|found| found.st_dev)
}

/// System V shared memory of the sandbox's own namespace: the 15th column is resident bytes, the 16th is swapped bytes.
pub fn segments() -> u64 {
    bytes_of_segments(&std::fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default())
}

fn bytes_of_segments(table: &str) -> u64 {
    const RESIDENT: usize = 14;
    let of = |line: &str| -> u64 {
        line.split_whitespace().skip(RESIDENT).take(2).filter_map(|word| word.parse::<u64>().ok()).sum()
    };
    table.lines().skip(1).map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::super::processes::all;
    use super::*;

    #[test]
    fn segments_count_what_is_resident_and_what_is_swapped_out() {
        let table = "key shmid perms size cpid lpid nattch uid gid cuid cgid atime dtime ctime rss swap\n\
                     0 1 600 1048576 9 9 0 0 0 0 0 1 1 1 1048576 4096\n\
                     0 2 600 1048576 9 9 0 0 0 0 0 1 1 1 0 0\n";
        assert_eq!(bytes_of_segments(table), (1 << 20) + 4096);
        assert_eq!(bytes_of_segments(""), 0);
    }

    #[test]
    fn a_file_behind_very_many_descriptors_is_found_and_counted_once() {
        let file = rustix::fs::memfd_create("hidden", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::io::write(&file, &[1; 64 << 10]).unwrap();
        let _copies: Vec<_> = (0..64).map(|_| file.try_clone().unwrap()).collect();
        let inode = rustix::fs::fstat(&file).unwrap().st_ino;
        let mine: Vec<_> = all().into_iter().filter(|process| process.pid == std::process::id()).collect();
        let mut descriptors = Descriptors::default();
        descriptors.count(&mine);
        assert!(descriptors.has(inode));
        assert_eq!(descriptors.before[&inode], 64 << 10);
        // A round of several looks remembers the files of its earlier looks.
        assert_eq!(descriptors.look_at(std::process::id(), 0, 3), 3);
        assert!(descriptors.has(inode) && descriptors.bytes() >= 64 << 10);
        drop((file, _copies));
        descriptors = Descriptors::default();
        descriptors.count(&mine);
        assert!(!descriptors.has(inode));
    }
}
