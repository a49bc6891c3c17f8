//! The things that a run must not leave behind. Other users' sandboxes may live and die on this host meanwhile, so a
//! thing counts only if it is this caller's; if that cannot be told, only if no live process holds it.

use crate::wait::until;
use crate::{Caller, PATIENCE};
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions, read_dir, read_to_string};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where root's sandboxes are written down, one of these; an ordinary user's are in the state directory.
const RUN: [&str; 2] = ["/run/paddock", "/dev/shm/paddock"];

/// Nothing of this caller's is left. Waits a little: the kernel may still be taking processes down.
pub fn none_of(caller: &Caller) -> Result<()> {
    let mut left = Vec::new();
    let gone = until(PATIENCE / 2, "everything is gone", || {
        left = find(caller);
        left.is_empty().then_some(())
    });
    gone.with_context(|| format!("left behind: {left:#?}"))
}

/// The caller's guests, and the processes inside with them, are gone.
pub fn no_processes_of(caller: &Caller, mark: &str, limit: Duration) -> Result<()> {
    let mut left = Vec::new();
    let gone = until(limit, "all processes are gone", || {
        left = guests(caller);
        left.extend(with_text("environ", mark));
        left.is_empty().then_some(())
    });
    gone.with_context(|| format!("still there: {left:#?}"))
}

/// No guest of this caller's is left, while its server may run.
pub fn no_guests_of(caller: &Caller, limit: Duration) -> Result<()> {
    let mut left = Vec::new();
    let gone = until(limit, "all guests are gone", || {
        left = guests(caller);
        left.is_empty().then_some(())
    });
    gone.with_context(|| format!("still there: {left:#?}"))
}

/// Everything of this caller's that is there now.
pub fn find(caller: &Caller) -> Vec<String> {
    let mut left = guests(caller);
    // Paddock itself, and its helper processes.
    left.extend(with_text("environ", &format!("HOME={}", caller.home().display())));
    left.extend(with_text("cmdline", &caller.place().display().to_string()));
    left.extend(mounts(caller));
    left.extend(loop_devices(caller));
    left.extend(temporary_files(caller));
    let run = if caller.is_root { RUN.map(PathBuf::from).to_vec() } else { vec![caller.state().join("run")] };
    left.extend(run.iter().flat_map(|run| lasting(caller, run)));
    let own = caller.cgroups().first().map(|path| path.display().to_string());
    // Groups before records: a record is written before its groups are made.
    let groups = if caller.is_root { cgroups(caller) } else { BTreeSet::new() };
    let (dead, held): (Vec<_>, Vec<_>) = run.iter().map(|run| records(run)).unzip();
    let (dead, held) = (dead.concat(), held.concat());
    let ours = |text: &String| own.as_ref().is_none_or(|own| text.contains(own));
    left.extend(
        dead.iter().filter(|(_, text)| ours(text)).map(|(path, _)| format!("record {}", path.display())),
    );
    let stray =
        |path: &PathBuf| path.exists() && !held.iter().any(|text| text.contains(&path.display().to_string()));
    left.extend(groups.into_iter().filter(stray).map(|path| format!("cgroup {}", path.display())));
    left
}

/// Processes whose executable is the guest that Paddock unpacked for this caller.
fn guests(caller: &Caller) -> Vec<String> {
    let unpacked: BTreeSet<(u64, u64)> = entries(&caller.state().join("guest"))
        .iter()
        .filter_map(|path| path.metadata().ok())
        .map(|found| (found.dev(), found.ino()))
        .collect();
    let runs_it = |process: &PathBuf| {
        process.join("exe").metadata().is_ok_and(|found| unpacked.contains(&(found.dev(), found.ino())))
    };
    processes().into_iter().filter(runs_it).map(|path| format!("guest {}", path.display())).collect()
}

/// Processes with this text in their environment or arguments; zombies have neither.
fn with_text(file: &str, mark: &str) -> Vec<String> {
    let has_it = |process: &PathBuf| {
        std::fs::read(process.join(file))
            .is_ok_and(|found| found.windows(mark.len()).any(|window| window == mark.as_bytes()))
    };
    processes().into_iter().filter(has_it).map(|path| format!("process {}", path.display())).collect()
}

fn processes() -> Vec<PathBuf> {
    let is_process = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().iter().all(u8::is_ascii_digit))
    };
    entries(Path::new("/proc")).into_iter().filter(is_process).collect()
}

fn mounts(caller: &Caller) -> Vec<String> {
    let place = caller.place().display().to_string();
    let table = read_to_string("/proc/self/mountinfo").unwrap_or_default();
    table.lines().filter(|line| line.contains(&place)).map(|line| format!("mount {line}")).collect()
}

/// Files of this caller's that a loop device still holds, mounted or not.
fn loop_devices(caller: &Caller) -> Vec<String> {
    let place = caller.place().display().to_string();
    let holds = |device: &PathBuf| {
        read_to_string(device.join("loop/backing_file")).is_ok_and(|file| file.contains(&place))
    };
    let devices = entries(Path::new("/sys/block")).into_iter().filter(holds);
    devices.map(|device| format!("loop device {}", device.display())).collect()
}

/// Directories in which sandboxes that last keep their sockets and records.
fn lasting(caller: &Caller, run: &Path) -> Vec<String> {
    let place = caller.place().display().to_string();
    let ours = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // Root's engines share their run directory; a record names the state directory that it belongs to.
        let theirs = caller.is_root
            && !read_to_string(path.join("record.json")).is_ok_and(|record| record.contains(&place));
        path.is_dir() && name.starts_with("sb-") && !theirs
    };
    let found = entries(run).into_iter().filter(ours);
    found.map(|path| format!("directory of a sandbox {}", path.display())).collect()
}

/// All entries of the places for unfinished things, and names of unfinished things elsewhere.
fn temporary_files(caller: &Caller) -> Vec<String> {
    let mut left = entries(&caller.state().join("images/temporary"));
    for directory in ["", "guest", "templates", "images/roots", "images/records", "images/blobs/sha256"] {
        let unfinished = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with('.') || name.contains("tmp") || name.contains(".part")
        };
        left.extend(entries(&caller.state().join(directory)).into_iter().filter(unfinished));
    }
    left.into_iter().map(|path| format!("temporary file {}", path.display())).collect()
}

/// Cgroups of sandboxes, in every hierarchy.
fn cgroups(caller: &Caller) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut open = caller.cgroups().to_vec();
    if open.is_empty() {
        open.push("/sys/fs/cgroup".into());
    }
    while let Some(directory) = open.pop() {
        for path in entries(&directory) {
            let is_directory = path.symlink_metadata().is_ok_and(|found| found.is_dir());
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if is_directory && name.starts_with("paddock-sb-") {
                found.insert(path);
            } else if is_directory {
                open.push(path);
            }
        }
    }
    found
}

/// Records whose holder is dead, with their texts, and the texts of those whose holder lives.
fn records(run: &Path) -> (Vec<(PathBuf, String)>, Vec<String>) {
    let (mut dead, mut held) = (Vec::new(), Vec::new());
    for group in entries(&run.join("slots")) {
        let Ok(locks) = OpenOptions::new().read(true).write(true).open(group.join("locks")) else { continue };
        for path in entries(&group) {
            let slot = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".json")?.parse().ok());
            let Some(slot) = slot else { continue };
            let Ok(text) = read_to_string(&path) else { continue };
            if is_locked(&locks, slot) {
                held.push(text);
            } else if path.exists() {
                dead.push((path, text));
            }
        }
    }
    (dead, held)
}

/// Looks without taking the lock, so that no sandbox is disturbed.
fn is_locked(locks: &File, slot: i64) -> bool {
    // SAFETY: flock is plain data for which all zeroes is valid.
    let mut request: libc::flock = unsafe { std::mem::zeroed() };
    request.l_type = libc::F_WRLCK as libc::c_short;
    request.l_whence = libc::SEEK_SET as libc::c_short;
    request.l_start = slot;
    request.l_len = 1;
    // SAFETY: F_OFD_GETLK reads and writes one flock structure, which lives across the call.
    let result = unsafe { libc::fcntl(locks.as_raw_fd(), libc::F_OFD_GETLK, &raw mut request) };
    result == 0 && request.l_type != libc::F_UNLCK as libc::c_short
}

pub(crate) fn entries(directory: &Path) -> Vec<PathBuf> {
    read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}
