//! The memory numbers of /proc, in bytes.

use crate::footprint::{kilobytes, processes_below};
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

pub fn resident(process: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    kilobytes(&status, "VmRSS:").context("no resident size in /proc")
}

/// Each shared page divided by its users.
pub fn proportional(process: &Path) -> Result<u64> {
    let rollup = std::fs::read_to_string(process.join("smaps_rollup"))
        .with_context(|| format!("{}/smaps_rollup", process.display()))?;
    kilobytes(&rollup, "Pss:").context("no proportional size in /proc")
}

/// The bytes that no other process has.
pub fn private(process: &Path) -> Result<u64> {
    let rollup = std::fs::read_to_string(process.join("smaps_rollup"))
        .with_context(|| format!("{}/smaps_rollup", process.display()))?;
    let of = |key: &str| kilobytes(&rollup, key).context("no private size in /proc");
    Ok(of("Private_Clean:")? + of("Private_Dirty:")?)
}

/// All processes of sandboxes: in an idle one only guests run, whose executable is below the state directory.
pub fn proportional_of_guests(state: &Path) -> Result<(usize, u64)> {
    let guests = processes_below(state);
    let sizes = guests.iter().map(|guest| proportional(guest)).collect::<Result<Vec<_>>>()?;
    Ok((sizes.len(), sizes.iter().sum()))
}

/// Sums over all processes of these sandboxes, and over the server with its other processes: the number of the former,
/// and both sums. A process belongs to a sandbox whose cgroup it is in, or whose guest it descends from.
pub fn proportional_of_sandboxes(state: &Path, server: u32, live: &[String]) -> Result<(usize, u64, u64)> {
    of_sandboxes(state, server, live, proportional)
}

/// The same by another size.
pub fn of_sandboxes(
    state: &Path,
    server: u32,
    live: &[String],
    size: fn(&Path) -> Result<u64>,
) -> Result<(usize, u64, u64)> {
    let groups: BTreeSet<_> = live.iter().map(|id| format!("paddock-{id}")).collect();
    let parents = parents();
    let guests: BTreeSet<_> = processes_below(state).iter().filter_map(|path| number(path)).collect();
    let (mut count, mut inside, mut own) = (0, 0, 0);
    for &process in parents.keys() {
        let path = PathBuf::from(format!("/proc/{process}"));
        let in_group = std::fs::read_to_string(path.join("cgroup"))
            .is_ok_and(|text| text.split(['/', '\n']).any(|part| groups.contains(part)));
        let is_inside =
            in_group || guests.contains(&process) || descends(process, &parents, |one| guests.contains(&one));
        let is_own = process == server || descends(process, &parents, |one| one == server);
        if !is_inside && !is_own {
            continue;
        }
        // A process that has just ended has no memory.
        let size = size(&path).unwrap_or(0);
        if is_inside {
            (count, inside) = (count + 1, inside + size);
        } else {
            own += size;
        }
    }
    Ok((count, inside, own))
}

/// Pages that no other process has, in bytes: of the processes in the cgroups of these sandboxes, and of as many guests.
pub fn private_of_children(state: &Path, children: &[String]) -> Result<(f64, f64)> {
    let groups: BTreeSet<_> = children.iter().map(|id| format!("paddock-{id}")).collect();
    let guests = processes_below(state);
    let is_work = |path: &PathBuf| {
        let text = std::fs::read_to_string(path.join("cgroup")).unwrap_or_default();
        !guests.contains(path) && text.split(['/', '\n']).any(|part| groups.contains(part))
    };
    let all = parents().into_keys().map(|process| PathBuf::from(format!("/proc/{process}")));
    let work: Vec<u64> = all.filter(is_work).map(|path| private(&path)).collect::<Result<_>>()?;
    anyhow::ensure!(work.len() >= children.len(), "{} processes of {} children", work.len(), children.len());
    let of_guests: Vec<u64> = guests.iter().map(|guest| private(guest)).collect::<Result<_>>()?;
    let each = of_guests.iter().sum::<u64>() as f64 / of_guests.len().max(1) as f64;
    Ok((work.iter().sum::<u64>() as f64, each * children.len() as f64))
}

fn parents() -> BTreeMap<u32, u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let of = |path: PathBuf| {
        let status = std::fs::read_to_string(path.join("status")).ok()?;
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()?;
        Some((number(&path)?, parent))
    };
    entries.filter_map(|entry| of(entry.path())).collect()
}

fn number(path: &Path) -> Option<u32> {
    path.file_name()?.to_str()?.parse().ok()
}

fn descends(process: u32, parents: &BTreeMap<u32, u32>, from: impl Fn(u32) -> bool) -> bool {
    let mut next = parents.get(&process);
    while let Some(&parent) = next {
        if from(parent) {
            return true;
        }
        next = parents.get(&parent);
    }
    false
}

/// Lines of /proc/meminfo.
pub struct Machine(String);

impl Machine {
    pub fn now() -> Result<Machine> {
        Ok(Machine(std::fs::read_to_string("/proc/meminfo")?))
    }

    pub fn line(&self, key: &str) -> f64 {
        kilobytes(&self.0, key).unwrap_or_default() as f64
    }
}

/// The highest resident size since [`forget_peak`].
pub fn peak(process: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    kilobytes(&status, "VmHWM:").context("no peak of the resident size in /proc")
}

pub fn forget_peak(process: u32) -> Result<()> {
    std::fs::write(format!("/proc/{process}/clear_refs"), "5").context("clear_refs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_descends_from_this_process() {
        let mut child = std::process::Command::new("/bin/sleep").arg("60").spawn().unwrap();
        let found = parents();
        let own = std::process::id();
        let descended = descends(child.id(), &found, |one| one == own);
        let (count, inside, with_child) = proportional_of_sandboxes(Path::new("/none"), own, &[]).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(descended && !descends(1, &found, |one| one == own));
        assert_eq!((count, inside), (0, 0));
        assert!(with_child > 0);
    }
}
