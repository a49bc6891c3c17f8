//! One number per live sandbox of this machine's user. Holding it means holding a lock that the kernel lets
//! go when the engine dies, so that the next engine can tell a live sandbox from what a crash left behind.

use super::lasting::{self, Lasting};
use super::placeholder::Placeholder;
use super::run_directory::run_directory;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// As many sandboxes at one time; also the number of id ranges that root hands out.
pub const SLOTS: u32 = 4096;

pub struct Slot {
    pub number: u32,
    /// Absent where the guest of a lasting sandbox holds the lock.
    locks: Option<File>,
    record: PathBuf,
}

/// What has to be removed if the engine is not there to do it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Record {
    /// PID 1 of the sandbox and when it started, by which it is told from a later process of the same number.
    pub guest: Option<(u32, u64)>,
    pub cgroups: Vec<PathBuf>,
    pub placeholders: Vec<Placeholder>,
    #[serde(default)]
    pub lasting: Option<Lasting>,
    /// As `guest`, of the nursery that it nests in.
    #[serde(default)]
    pub nursery: Option<(u32, u64)>,
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
            if !lock(&locks, number)? {
                continue;
            }
            let record = record_of(directory, number);
            if is_worked_off(directory, &record) {
                return Ok(Slot { number, locks: Some(locks), record });
            }
            // Whoever was here is still ending: there is room elsewhere.
            set_lock(&locks, number, libc::F_UNLCK)?;
        }
        Err(Error::new(ErrorKind::ResourceBusy, format!("all {SLOTS} places for sandboxes are taken")))
    }

    /// That of a sandbox that holds it by itself.
    pub fn held_by_guest(state: &Path, number: u32) -> Slot {
        Slot { number, locks: None, record: record_of(&run_directory(state), number) }
    }

    /// A descriptor that holds the slot too, for as long as it is open anywhere.
    pub fn share(&self) -> Result<OwnedFd> {
        match &self.locks {
            Some(locks) => Ok(locks.try_clone()?.into()),
            None => Err(Error::other("the slot is held by its guest already")),
        }
    }

    /// From now on only those hold it who were given a share.
    pub fn hand_over(&mut self) {
        self.locks = None;
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

    /// The placeholders that other sandboxes rely on. Read once for many: there may be a thousand records.
    pub fn held_by_others(&self) -> BTreeSet<PathBuf> {
        self.record.parent().map_or_else(BTreeSet::new, |directory| named_by_others(directory, &self.record))
    }

    /// Precondition: nothing runs in the sandbox any more.
    pub fn release(&self, state: &Path, id: &str, placeholders: &[Placeholder]) -> Result<()> {
        let probe = match self.locks {
            Some(_) => None,
            None => {
                let probe = open_locks(&run_directory(state))?;
                if !self.take_back(&probe, id)? {
                    return Ok(());
                }
                Some(probe)
            }
        };
        let _guard = if placeholders.is_empty() { None } else { Some(lock_placeholders(state)?) };
        if !placeholders.is_empty() {
            let held = self.held_by_others();
            remove_unheld(placeholders, &held);
        }
        self.forget()?;
        drop(probe);
        Ok(())
    }

    /// The lock that the guest held; not when somebody else has worked off the record of sandbox `id`.
    ///
    /// Whoever sweeps holds each lock for a moment and may let it go with nothing done, and a process that is
    /// being started elsewhere holds what it inherited until it executes.
    fn take_back(&self, probe: &File, id: &str) -> Result<bool> {
        for pause in [0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] {
            std::thread::sleep(Duration::from_millis(pause));
            if lock(probe, self.number)? {
                return Ok(self.remembers(id));
            }
            if !self.remembers(id) {
                return Ok(false);
            }
        }
        // The record stays, and with it the errand: the next sweep does it.
        Ok(false)
    }

    fn remembers(&self, id: &str) -> bool {
        let lasting = read_record(&self.record).and_then(|record| record.lasting);
        lasting.is_some_and(|lasting| lasting.id.as_str() == id)
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
        if let Some(locks) = &self.locks {
            let _ = set_lock(locks, self.number, libc::F_UNLCK);
        }
    }
}

/// Somebody may have died here since the sweep. Their record has to be worked off before it is overwritten.
fn is_worked_off(directory: &Path, record: &Path) -> bool {
    read_record(record).is_none_or(|found| remove(directory, record, &found))
}

/// Removes what killed engines left, and counts it. Never fails: it is nobody's errand, and it is tried again
/// next time.
pub fn sweep_all(state: &Path) -> usize {
    sweep(&run_directory(state))
}

/// Every lasting sandbox of this state directory, whole or half-made, live or not.
pub fn lasting(state: &Path) -> Result<Vec<(Record, Lasting)>> {
    let entries = match std::fs::read_dir(run_directory(state)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let paths = entries.flatten().map(|entry| entry.path());
    let records = paths.filter(|path| path.extension().is_some_and(|e| e == "json"));
    let owner = lasting::owner(state);
    let ours = records.filter_map(|path| read_record(&path)).filter_map(|mut record| {
        let lasting = record.lasting.take().filter(|lasting| lasting.state == owner)?;
        Some((record, lasting))
    });
    Ok(ours.collect())
}

fn sweep(directory: &Path) -> usize {
    let mut swept = 0;
    let Ok(entries) = std::fs::read_dir(directory) else { return swept };
    // A file of its own: on the one that holds our slots, every probe would succeed.
    let Ok(probe) = open_locks(directory) else { return swept };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some((number, extension)) = name.to_str().and_then(|name| name.split_once('.')) else { continue };
        let Some(number) = number.parse::<u32>().ok().filter(|n| *n < SLOTS) else { continue };
        if !lock(&probe, number).unwrap_or(false) {
            continue;
        }
        let path = entry.path();
        if extension == "new" {
            // Never came to be a record.
            let _ = std::fs::remove_file(&path);
            let _ = set_lock(&probe, number, libc::F_UNLCK);
            continue;
        }
        swept += usize::from(is_worked_off(directory, &path));
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

fn remove_unheld(placeholders: &[Placeholder], held: &BTreeSet<PathBuf>) {
    let mut ours: Vec<_> = placeholders.iter().filter(|p| !held.contains(&p.path)).collect();
    // What lies in another goes before it.
    ours.sort_by(|one, other| other.path.cmp(&one.path));
    ours.into_iter().for_each(Placeholder::remove);
}

/// The placeholders that any other record names, of a live sandbox or of one that crashed.
fn named_by_others(directory: &Path, own: &Path) -> BTreeSet<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let others = entries.map(|entry| entry.path()).filter(|path| path != own);
    let records = others.filter(|path| path.extension().is_some_and(|e| e == "json"));
    records.filter_map(|path| read_record(&path)).flat_map(|r| r.placeholders).map(|p| p.path).collect()
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
    if let Some(kept) = &record.lasting
        && lasting::remove(&directory.join(kept.id.as_str())).is_err()
    {
        return false;
    }
    // Another sandbox may be about to rely on the same names.
    let Ok(_guard) = lock_placeholders_in(directory) else { return false };
    if !record.placeholders.is_empty() {
        let held = named_by_others(directory, own);
        remove_unheld(&record.placeholders, &held);
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

/// The kernel's mark of a process that has begun to end. PID 1 of a namespace has it before any other process in there ends.
const ENDING: u64 = 0x4;

/// Whether this very process runs, and is not just being ended.
pub fn is_running(pid: u32, started: u64) -> bool {
    let marks = || -> Option<u64> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        text.rsplit_once(')')?.1.split_whitespace().nth(6)?.parse().ok()
    };
    start_time(pid) == Some(started) && marks().is_some_and(|marks| marks & ENDING == 0)
}

fn record_of(directory: &Path, number: u32) -> PathBuf {
    directory.join(format!("{number}.json"))
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
