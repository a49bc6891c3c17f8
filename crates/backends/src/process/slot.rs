//! One number per live sandbox of this machine's user. Holding it means holding a lock that the kernel lets
//! go when the engine dies, so that the next engine can tell a live sandbox from what a crash left behind.

use super::placeholder::Placeholder;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// As many sandboxes at one time; also the number of id ranges that root hands out.
pub const SLOTS: u32 = 4096;

pub struct Slot {
    pub number: u32,
    locks: File,
    record: PathBuf,
}

/// What has to be removed if the engine is not there to do it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Record {
    /// PID 1 of the sandbox and when it started, by which it is told from a later process of the same number.
    pub guest: Option<(u32, u64)>,
    pub cgroups: Vec<PathBuf>,
    pub placeholders: Vec<Placeholder>,
}

impl Slot {
    pub fn take(state: &Path) -> Result<Slot> {
        let directory = run_directory(state);
        match open_locks(&directory) {
            Ok(locks) => Slot::take_from(&directory, locks),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
                let locks = open_locks(&directory)?;
                Slot::take_from(&directory, locks)
            }
            Err(error) => Err(error),
        }
    }

    fn take_from(directory: &Path, locks: File) -> Result<Slot> {
        sweep(directory);
        let mut start = [0; 4];
        rustix::rand::getrandom(&mut start, rustix::rand::GetRandomFlags::empty())?;
        let start = u32::from_ne_bytes(start);
        for offset in 0..SLOTS {
            let number = start.wrapping_add(offset) % SLOTS;
            if lock(&locks, number)? {
                return Ok(Slot { number, locks, record: directory.join(format!("{number}.json")) });
            }
        }
        Err(Error::new(ErrorKind::ResourceBusy, format!("all {SLOTS} places for sandboxes are taken")))
    }

    /// Where the sandbox is remembered while it lives.
    pub fn record(&self) -> &Path {
        &self.record
    }

    /// Written before the things that it names are made, and never half.
    pub fn remember(&self, record: &Record) -> Result<()> {
        let new = self.record.with_extension("new");
        std::fs::write(&new, serde_json::to_vec(record)?)?;
        std::fs::rename(&new, &self.record)
    }

    /// Whether another sandbox relies on this placeholder.
    pub fn others_hold(&self, path: &Path) -> bool {
        self.record.parent().is_some_and(|directory| named_by_others(directory, &self.record, path))
    }

    /// Precondition: nothing runs in the sandbox any more.
    pub fn release(&self, state: &Path, placeholders: &[Placeholder]) -> Result<()> {
        let _guard = if placeholders.is_empty() { None } else { Some(lock_placeholders(state)?) };
        for placeholder in placeholders.iter().filter(|p| !self.others_hold(&p.path)) {
            placeholder.remove();
        }
        self.forget()
    }

    fn forget(&self) -> Result<()> {
        match std::fs::remove_file(&self.record) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // The lock would go with the file anyway; this lets a process that keeps it open take the slot again.
        let _ = set_lock(&self.locks, self.number, libc::F_UNLCK);
    }
}

/// Removes what killed engines left, and counts it. Never fails: it is nobody's errand, and it is tried again
/// next time.
pub fn sweep_all(state: &Path) -> usize {
    sweep(&run_directory(state))
}

fn sweep(directory: &Path) -> usize {
    let mut swept = 0;
    let Ok(entries) = std::fs::read_dir(directory) else { return swept };
    // A file of its own: on the one that holds our slots, every probe would succeed.
    let Ok(probe) = open_locks(directory) else { return swept };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|n| n.strip_suffix(".json")).and_then(|n| n.parse::<u32>().ok());
        let Some(number) = number.filter(|n| *n < SLOTS) else { continue };
        if !lock(&probe, number).unwrap_or(false) {
            continue;
        }
        let path = entry.path();
        swept += usize::from(read_record(&path).is_none_or(|record| remove(directory, &path, &record)));
        let _ = set_lock(&probe, number, libc::F_UNLCK);
    }
    swept
}

/// Held while placeholders are made or removed, so that nobody removes what another has just come to rely on.
pub fn lock_placeholders(state: &Path) -> Result<File> {
    lock_placeholders_in(&run_directory(state))
}

fn lock_placeholders_in(directory: &Path) -> Result<File> {
    let file = File::create(directory.join("placeholders.lock"))?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)?;
    Ok(file)
}

/// Whether another record, of a live sandbox or of one that crashed, names the same placeholder.
fn named_by_others(directory: &Path, own: &Path, wanted: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(directory) else { return false };
    entries.flatten().map(|entry| entry.path()).filter(|path| path != own).any(|path| {
        path.extension().is_some_and(|e| e == "json")
            && read_record(&path).is_some_and(|record| record.placeholders.iter().any(|p| p.path == wanted))
    })
}

fn read_record(path: &Path) -> Option<Record> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

/// Whether everything is gone, the record included. While the sandbox still dies, nothing is touched: a
/// stand-in that went before it would take its protection away.
fn remove(directory: &Path, own: &Path, record: &Record) -> bool {
    if record.guest.is_some_and(|(pid, started)| start_time(pid) == Some(started)) {
        return false;
    }
    if !record.cgroups.iter().all(|path| super::cgroups::remove(path).is_ok()) {
        return false;
    }
    // Another sandbox may be about to rely on the same names.
    let Ok(_guard) = lock_placeholders_in(directory) else { return false };
    for placeholder in &record.placeholders {
        if !named_by_others(directory, own, &placeholder.path) {
            placeholder.remove();
        }
    }
    std::fs::remove_file(own).is_ok()
}

/// When a process started, in ticks since boot; `None` when there is none.
pub fn start_time(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything; a zombie has ended.
    let (_, after) = text.rsplit_once(')')?;
    let mut fields = after.split_whitespace();
    (fields.next()? != "Z").then_some(())?;
    fields.nth(18)?.parse().ok()
}

/// Gone with the machine's boot, as the sandboxes are.
fn run_directory(state: &Path) -> PathBuf {
    if rustix::process::geteuid().is_root() { PathBuf::from("/run/paddock") } else { state.join("run") }
}

fn open_locks(directory: &Path) -> Result<File> {
    let flags = libc::O_NOFOLLOW;
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(flags)
        .open(directory.join("slots"))
}

fn lock(locks: &File, number: u32) -> Result<bool> {
    match set_lock(locks, number, libc::F_WRLCK) {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Locks of the open file, not of the process: they hold between threads and survive forks correctly.
fn set_lock(locks: &File, number: u32, kind: i32) -> Result<()> {
    // SAFETY: flock is plain data for which all zeroes is valid.
    let mut request: libc::flock = unsafe { std::mem::zeroed() };
    request.l_type = kind as libc::c_short;
    request.l_whence = libc::SEEK_SET as libc::c_short;
    request.l_start = i64::from(number);
    request.l_len = 1;
    // SAFETY: F_OFD_SETLK reads one flock structure, which lives across the call.
    let result = unsafe { libc::fcntl(locks.as_raw_fd(), libc::F_OFD_SETLK, &raw const request) };
    if result == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}
