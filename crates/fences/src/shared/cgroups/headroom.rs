//! The memory that cgroups still let this process and its sandboxes have.

use super::hierarchy::{self, field};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Version 1 writes a number near this one where there is no limit.
const NO_LIMIT: u64 = 1 << 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryRoom {
    /// Bytes that can still be had before the kernel kills for want of memory.
    pub free: u64,
    /// The limit that leaves so little.
    pub limit: u64,
}

/// The tightest limit above this process and above its sandboxes. `None` where no cgroup limits their memory.
pub fn memory_room() -> Option<MemoryRoom> {
    static GROUPS: OnceLock<Vec<PathBuf>> = OnceLock::new();
    let groups = GROUPS.get_or_init(hierarchy::memory_groups);
    groups.iter().filter_map(|group| room_in(group)).min_by_key(|room| room.free)
}

/// A cgroup has no more than any of those around it.
fn room_in(group: &Path) -> Option<MemoryRoom> {
    let is_cgroup = |path: &&Path| path.join("cgroup.procs").exists();
    // In a container the table may name a directory that is not seen there: the files are those of the mount point.
    let seen = group.ancestors().skip_while(|path| !path.exists());
    seen.take_while(is_cgroup).filter_map(room_at).min_by_key(|room| room.free)
}

fn room_at(group: &Path) -> Option<MemoryRoom> {
    let read = |file: &str| std::fs::read_to_string(group.join(file)).ok();
    let number = |file: &str| read(file).and_then(|text| text.trim().parse::<u64>().ok());
    let unified = [number("memory.max"), number("memory.high")].into_iter().flatten().min();
    let (limit, used, prefix) = match unified {
        Some(limit) => (limit, number("memory.current")?, ""),
        None => (number("memory.limit_in_bytes")?, number("memory.usage_in_bytes")?, "total_"),
    };
    if limit >= NO_LIMIT {
        return None;
    }
    let stat = read("memory.stat").unwrap_or_default();
    let cached = |name: &str| field(&stat, &format!("{prefix}{name}")).unwrap_or(0);
    // The kernel takes the inactive part of the file cache back first, then the unused pages of the active part: about
    // half.
    let reclaimable = cached("inactive_file") + cached("active_file") / 2;
    Some(MemoryRoom { free: limit.saturating_sub(used.saturating_sub(reclaimable)), limit })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(path: &Path, files: &[(&str, &str)]) {
        std::fs::create_dir_all(path).unwrap();
        std::fs::write(path.join("cgroup.procs"), "").unwrap();
        for (name, text) in files {
            std::fs::write(path.join(name), text).unwrap();
        }
    }

    #[test]
    fn the_tightest_limit_above_decides_on_version_2() {
        let top = tempfile::tempdir().unwrap();
        let (outer, inner) = (top.path().join("a"), top.path().join("a/b"));
        group(top.path(), &[]);
        group(
            &outer,
            &[
                ("memory.max", "1000\n"),
                ("memory.high", "max\n"),
                ("memory.current", "900\n"),
                ("memory.stat", "anon 600\ninactive_file 200\nactive_file 100\n"),
            ],
        );
        group(&inner, &[("memory.max", "max\n"), ("memory.current", "800\n")]);
        assert_eq!(room_in(&inner), Some(MemoryRoom { free: 350, limit: 1000 }));
        std::fs::write(inner.join("memory.high"), "810\n").unwrap();
        assert_eq!(room_in(&inner), Some(MemoryRoom { free: 10, limit: 810 }));
        // A directory that is not seen here stands for the one that is.
        assert_eq!(room_in(&outer.join("docker/x")), Some(MemoryRoom { free: 350, limit: 1000 }));
        assert_eq!(room_in(top.path()), None);
    }

    #[test]
    fn version_1_counts_what_is_below_and_names_no_limit_by_a_number() {
        let top = tempfile::tempdir().unwrap();
        let inner = top.path().join("a");
        let unlimited = ("memory.limit_in_bytes", "9223372036854771712\n");
        group(top.path(), &[unlimited, ("memory.usage_in_bytes", "5\n")]);
        group(
            &inner,
            &[
                ("memory.limit_in_bytes", "1000\n"),
                ("memory.usage_in_bytes", "1200\n"),
                ("memory.stat", "inactive_file 7\ntotal_inactive_file 300\ntotal_active_file 0\n"),
            ],
        );
        assert_eq!(room_in(&inner), Some(MemoryRoom { free: 100, limit: 1000 }));
        assert_eq!(room_in(top.path()), None);
    }
}
