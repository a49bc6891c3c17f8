//! Empty cgroups, kept for the next sandbox with the same limits: making and removing five of them, with the kernel's
//! work afterwards, costs more than giving them another name.
//!
//! For v1 only, which can rename them, and for lasting sandboxes. A cgroup is kept only if all its counts can be reset;
//! a doubtful one is removed.

use crate::shared::cgroups::{Hierarchies, WorkGroup};
use paddock_model::Limits;
use std::io::Result;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

const MOST_SPARES: usize = 64;
/// The most bytes that the kernel may still hold for earlier processes of a spare; they are charged to its next user.
const MOST_HELD_BYTES: u64 = 1 << 20;
const PREFIX: &str = "paddock-spare-";

static KEPT_CGROUPS: Mutex<Kept> = Mutex::new(Kept { engines: 0, ready: Vec::new() });

/// The spares of this process.
struct Kept {
    /// The number of engines that make sandboxes; after the last of them nothing is kept.
    engines: usize,
    ready: Vec<Spare>,
}

struct Spare {
    name: String,
    hierarchies: Hierarchies,
    limits: Limits,
}

impl Spare {
    fn remove(&self) {
        let _ = WorkGroup::found(&self.hierarchies, &self.name).remove();
    }
}

/// Spares are kept as long as there is one of these.
pub struct Keeping(());

impl Keeping {
    pub fn begin() -> Keeping {
        kept().engines += 1;
        Keeping(())
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        let mut kept = kept();
        kept.engines -= 1;
        if kept.engines == 0 {
            kept.ready.drain(..).for_each(|spare| spare.remove());
        }
    }
}

fn kept() -> MutexGuard<'static, Kept> {
    KEPT_CGROUPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// True if two limits agree in the values that are written to cgroups.
fn alike(one: &Limits, other: &Limits) -> bool {
    (one.memory, one.cpus, one.pids) == (other.memory, other.cpus, other.pids)
}

/// Gives a spare the name; returns true if there was one.
pub fn take(hierarchies: &Hierarchies, name: &str, limits: &Limits) -> bool {
    let fits = |spare: &Spare| spare.hierarchies == *hierarchies && alike(&spare.limits, limits);
    let spare = {
        let ready = &mut kept().ready;
        let place = ready.iter().rposition(fits);
        place.map(|place| ready.swap_remove(place))
    };
    let Some(spare) = spare else { return false };
    let renamed = rename(hierarchies, &spare.name, name).is_ok();
    if !renamed {
        spare.remove();
    }
    renamed
}

/// Returns true if it was kept; if not it is still there, under its name.
///
/// Precondition: nothing inside was ever frozen, and nothing can begin in it any more.
pub fn keep(hierarchies: &Hierarchies, name: &str, limits: Limits) -> bool {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let full = |kept: &Kept| kept.engines == 0 || kept.ready.len() >= MOST_SPARES;
    if full(&kept()) || !hierarchies.begin_anew(name) {
        return false;
    }
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name_of_spare = format!("{PREFIX}{}-{number}", std::process::id());
    if rename(hierarchies, name, &name_of_spare).is_err() {
        return false;
    }
    let spare = Spare { name: name_of_spare, hierarchies: hierarchies.clone(), limits };
    let mut kept = kept();
    match full(&kept) {
        false => kept.ready.push(spare),
        true => spare.remove(),
    }
    true
}

/// Removes the spares of processes that are gone.
pub fn sweep(hierarchies: &Hierarchies) {
    for parent in hierarchies.parents() {
        for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
            if owner.is_some_and(|owner| !Path::new("/proc").join(owner).exists()) {
                let _ = super::remove(&entry.path());
            }
        }
    }
}

/// In all hierarchies or in none.
fn rename(hierarchies: &Hierarchies, from: &str, to: &str) -> Result<()> {
    let (from, to) = (WorkGroup::directories(hierarchies, from), WorkGroup::directories(hierarchies, to));
    let pairs: Vec<(PathBuf, PathBuf)> = from.into_iter().zip(to).collect();
    for (done, (from, to)) in pairs.iter().enumerate() {
        if let Err(error) = std::fs::rename(from, to) {
            for (from, to) in &pairs[..done] {
                let _ = std::fs::rename(to, from);
            }
            return Err(error);
        }
    }
    Ok(())
}

impl Hierarchies {
    /// Resets every count that a sandbox is told of. Returns true if it could.
    fn begin_anew(&self, name: &str) -> bool {
        let (Some(memory), Some(pids), Some(accounting)) = (&self.memory, &self.pids, &self.accounting)
        else {
            return false;
        };
        let read = |parent: &Path, file: &str| std::fs::read_to_string(parent.join(name).join(file));
        let number = |parent, file| read(parent, file).ok().and_then(|text| text.trim().parse::<u64>().ok());
        // A process in one of the cgroups is in all. A short run has no accounting, and keeps nothing. A count that
        // cannot be reset must be as it began.
        let unused = number(pids, "pids.current") == Some(0)
            && read(pids, "pids.events").is_ok_and(|text| text.trim() == "max 0")
            && self.memory_kills(name) == 0
            && number(memory, "memory.usage_in_bytes").is_some_and(|held| held <= MOST_HELD_BYTES);
        let reset = |parent: &Path, file: &str| std::fs::write(parent.join(name).join(file), "0").is_ok();
        unused && reset(memory, "memory.max_usage_in_bytes") && reset(accounting, "cpuacct.usage")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;
    use std::process::Command;
    use std::time::{Duration, Instant};

    /// Five directories of v1 that this user may make cgroups in, or nothing to test.
    fn hierarchies() -> Option<Hierarchies> {
        let found = crate::shared::cgroups::detect().for_life(true);
        let whole = found.memory.is_some() && found.pids.is_some() && found.accounting.is_some();
        if !whole {
            eprintln!("SKIP spare cgroups: this machine has no v1, or lends it to nobody");
        }
        whole.then_some(found)
    }

    fn numbers(hierarchies: &Hierarchies, name: &str) -> Vec<u64> {
        let inode = |path: PathBuf| std::fs::metadata(path).map_or(0, |found| found.ino());
        WorkGroup::directories(hierarchies, name).into_iter().map(inode).collect()
    }

    /// Returns true if it succeeded.
    fn work_in(group: &WorkGroup, script: &str) -> bool {
        let mut enter = String::new();
        for directory in &group.directories {
            enter.push_str(&format!("echo 0 > {}/tasks; ", directory.display()));
        }
        Command::new("sh").arg("-c").arg(enter + script).status().unwrap().success()
    }

    fn unused_name(what: &str) -> String {
        format!("paddock-test-{}-{what}", std::process::id())
    }

    #[test]
    fn cgroups_are_used_again_with_the_same_limits_and_counts_of_their_own() {
        let Some(hierarchies) = hierarchies() else { return };
        let _keeping = Keeping::begin();
        // No other test has these limits.
        let limits = Limits { memory: 123 << 20, pids: 77, ..Limits::default() };
        let (first, second, third) = (unused_name("a"), unused_name("b"), unused_name("c"));
        let group = WorkGroup::create(&hierarchies, &first, &limits).unwrap();
        let made = numbers(&hierarchies, &first);
        assert!(work_in(&group, "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"));
        let used = group.usage(&first);
        assert!(used.cpu_ms.unwrap() > 1.0 && used.peak_memory.unwrap() > 0, "{used:?}");
        group.give_back(&first).unwrap();
        assert!(numbers(&hierarchies, &first).iter().all(|number| *number == 0));

        let group = WorkGroup::create(&hierarchies, &second, &limits).unwrap();
        assert_eq!(numbers(&hierarchies, &second), made);
        let fresh = group.usage(&second);
        assert!(fresh.cpu_ms.unwrap() < 1.0, "{fresh:?}");
        assert!(fresh.peak_memory.unwrap() <= MOST_HELD_BYTES, "{fresh:?}");
        assert_eq!((fresh.processes, fresh.memory_kills, fresh.refused_processes), (Some(0), 0, 0));
        group.give_back(&second).unwrap();

        // Other limits: others.
        let other = Limits { pids: 78, ..limits.clone() };
        let group = WorkGroup::create(&hierarchies, &third, &other).unwrap();
        assert_ne!(numbers(&hierarchies, &third), made);
        group.remove().unwrap();
        let left = take(&hierarchies, &third, &limits);
        assert!(left);
        WorkGroup::found(&hierarchies, &third).remove().unwrap();
    }

    #[test]
    fn cgroups_that_cannot_begin_anew_are_not_kept() {
        let Some(hierarchies) = hierarchies() else { return };
        let _keeping = Keeping::begin();
        let limits = Limits { memory: 124 << 20, pids: 3, ..Limits::default() };
        let name = unused_name("d");
        let refused = |group: &WorkGroup| assert!(!work_in(group, "sleep 1 & sleep 1 & sleep 1 & wait"));
        let changed = |group: &WorkGroup| {
            group.change(&name, &limits, &Limits { pids: 4, ..limits.clone() }).unwrap();
        };
        let frozen = |group: &WorkGroup| {
            group.freeze(&name).unwrap();
            group.thaw(&name).unwrap();
        };
        type Happening<'a> = (&'a str, &'a dyn Fn(&WorkGroup));
        let cases: [Happening<'_>; 3] = [("refused", &refused), ("changed", &changed), ("frozen", &frozen)];
        for (what, happens) in cases {
            let group = WorkGroup::create(&hierarchies, &name, &limits).unwrap();
            happens(&group);
            // Its processes may still be about.
            let deadline = Instant::now() + Duration::from_secs(20);
            while let Err(error) = group.give_back(&name) {
                assert!(Instant::now() < deadline, "{what}: {error}");
                std::thread::sleep(Duration::from_millis(10));
            }
            assert!(!take(&hierarchies, &name, &limits), "{what}");
            assert!(numbers(&hierarchies, &name).iter().all(|number| *number == 0), "{what}");
        }
    }

    #[test]
    fn those_of_a_process_that_is_gone_are_swept() {
        let Some(hierarchies) = hierarchies() else { return };
        let mut gone = Command::new("true").spawn().unwrap();
        gone.wait().unwrap();
        let group = WorkGroup::found(&hierarchies, &format!("{PREFIX}{}-7", gone.id()));
        group.directories.iter().for_each(|path| std::fs::create_dir(path).unwrap());
        let ours = WorkGroup::found(&hierarchies, &format!("{PREFIX}{}-test", std::process::id()));
        ours.directories.iter().for_each(|path| std::fs::create_dir(path).unwrap());
        sweep(&hierarchies);
        assert!(group.directories.iter().all(|path| !path.exists()));
        assert!(ours.directories.iter().all(|path| path.exists()));
        ours.remove().unwrap();
    }
}
