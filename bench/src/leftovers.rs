//! The things that are there after many runs and were not there before.

use crate::command;
use crate::contestants::{Contestant, Paddock, Workload};
use anyhow::{Result, bail};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub const RUNS: usize = 200;
/// Where root's sandboxes are written down, one of these.
pub const RUN: [&str; 2] = ["/run/paddock", "/dev/shm/paddock"];

/// Sandboxes of others on this host come and go; a thing that stays longer than this was left.
const REMAINS_TIMEOUT: Duration = Duration::from_secs(5);

pub struct Leftovers {
    pub runs: usize,
    pub elapsed: Duration,
    pub found: Vec<String>,
}

pub fn after_runs(paddock: &Paddock, runs: usize) -> Result<Leftovers> {
    eprintln!("{runs} runs in a row");
    let before = snapshot(paddock);
    let mut command = paddock.command(Workload::True).quiet();
    let started = Instant::now();
    for run in 1..=runs {
        let (_, status) = command::time(&mut command)?;
        if !status.success() {
            bail!("run {run} of {runs} in a row: {status}");
        }
    }
    let elapsed = started.elapsed();
    let until = Instant::now() + REMAINS_TIMEOUT;
    loop {
        let found: Vec<_> = snapshot(paddock).difference(&before).cloned().collect();
        if found.is_empty() || Instant::now() > until {
            return Ok(Leftovers { runs, elapsed, found });
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Everything by its name, so that one thing that went does not hide another that came.
fn snapshot(paddock: &Paddock) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    found.extend(processes(paddock).iter().map(|path| format!("process {}", path.display())));
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    found.extend(mounts.lines().map(|line| format!("mount {line}")));
    let cgroups = cgroups(Path::new("/sys/fs/cgroup"), 0).into_iter().filter(|path| !is_inhabited(path));
    found.extend(cgroups.map(|path| format!("cgroup {}", path.display())));
    let records = RUN.iter().flat_map(|run| entries(Path::new(run))).filter(|path| !is_of_the_living(path));
    found.extend(records.map(|path| format!("file {}", path.display())));
    for directory in [&paddock.state, &paddock.state.join("run"), &paddock.temporary] {
        found.extend(entries(directory).iter().map(|path| format!("file {}", path.display())));
    }
    found
}

/// The guest, by its executable, which only this bench uses; Paddock, by its environment.
fn processes(paddock: &Paddock) -> Vec<PathBuf> {
    let state = paddock.state.as_os_str().as_encoded_bytes();
    let is_ours = |process: &PathBuf| {
        let executable = std::fs::read_link(process.join("exe")).unwrap_or_default();
        let environment = || std::fs::read(process.join("environ")).unwrap_or_default();
        executable.starts_with(&paddock.state)
            || (executable == paddock.program && environment().windows(state.len()).any(|part| part == state))
    };
    entries(Path::new("/proc")).into_iter().filter(is_ours).collect()
}

/// A live sandbox belongs to another user: of ours, the guest would be among the processes.
fn is_inhabited(cgroup: &Path) -> bool {
    std::fs::read_to_string(cgroup.join("cgroup.procs")).is_ok_and(|processes| !processes.is_empty())
}

fn is_of_the_living(record: &Path) -> bool {
    let record = std::fs::read(record).unwrap_or_default();
    let record: serde_json::Value = serde_json::from_slice(&record).unwrap_or_default();
    let cgroups = record["cgroups"].as_array().into_iter().flatten().filter_map(|path| path.as_str());
    cgroups.map(Path::new).any(is_inhabited)
}

/// Sandboxes in every hierarchy, v1 or v2, to a depth at which an engine may itself have been put.
pub fn cgroups(directory: &Path, depth: usize) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in entries(directory).into_iter().filter(|path| path.is_dir() && !path.is_symlink()) {
        if is_sandbox(&path) {
            found.push(path);
        } else if depth < 6 {
            found.extend(cgroups(&path, depth + 1));
        }
    }
    found
}

fn is_sandbox(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("paddock-sb-"))
}

pub fn entries(directory: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A check that cannot fail proves nothing.
    #[test]
    fn a_file_and_a_process_are_noticed() {
        let scratch = crate::scratch::Scratch::new().unwrap();
        let state = scratch.directory("state").unwrap();
        let temporary = scratch.directory("tmp").unwrap();
        let paddock = Paddock { program: state.join("sleep"), state: state.clone(), temporary };
        std::fs::copy("/bin/sleep", &paddock.program).unwrap();
        let before = snapshot(&paddock);
        std::fs::write(state.join("7.json"), "{}").unwrap();
        let mut child = std::process::Command::new(&paddock.program).arg("60").spawn().unwrap();
        let found: Vec<_> = snapshot(&paddock).difference(&before).cloned().collect();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.contains(&format!("process /proc/{}", child.id())), "{found:?}");
        assert!(found.contains(&format!("file {}", state.join("7.json").display())), "{found:?}");
    }
}
