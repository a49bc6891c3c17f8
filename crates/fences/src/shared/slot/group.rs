//! Slots lie in groups of 64, each with a directory and a lock file of its own.
//!
//! The kernel keeps the locks of a file in one list and walks it at every call, and a sweep asks for the lock of every record.
//! With one file for all slots, a create with 4,000 live sandboxes took a second. A group bounds both, however many live.
//!
//! Few sandboxes share few groups, so that the next create finds the remains of a killed engine. The level says how
//! many groups are in use: four times as many with each step. It goes up when a group is crowded and down when one is
//! nearly empty.

use rustix::rand::{GetRandomFlags, getrandom};
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Sandboxes of one host at one time. Each of root's has 65,536 host ids, from 0x70000000 on; an id has 32 bits.
pub const SLOTS: u32 = 36_863;
const SLOTS_PER_GROUP: u32 = 64;
const GROUPS: u32 = SLOTS.div_ceil(SLOTS_PER_GROUP);
/// A group with so many live sandboxes sends the next ones elsewhere.
const CROWDED: usize = 48;
/// Fewer live sandboxes than this in a group need fewer groups.
const NEARLY_EMPTY: usize = 4;
const GROUPS_PER_LEVEL: u32 = 4;
const HIGHEST_LEVEL: u32 = 5;

/// All groups of a run directory.
pub struct Groups {
    directory: PathBuf,
}

/// A group of slots that can be locked.
pub struct Group {
    directory: PathBuf,
    pub number: u32,
}

impl Groups {
    pub fn of(run_directory: &Path) -> Groups {
        Groups { directory: run_directory.join("slots") }
    }

    /// A group to take a slot from; `level` is how many are in use.
    pub fn choose(&self, level: u32) -> Result<Group> {
        Ok(self.group(random()? % groups_in_use(level)))
    }

    pub fn group(&self, number: u32) -> Group {
        Group { directory: self.directory.join(number.to_string()), number }
    }

    pub fn group_of(&self, slot: u32) -> Group {
        self.group(slot / SLOTS_PER_GROUP)
    }

    /// Every one that there is.
    pub fn existing(&self) -> Vec<Group> {
        let entries = std::fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        numbers.filter(|number| *number < GROUPS).map(|number| self.group(number)).collect()
    }

    /// Every one, from a random one on.
    pub fn all(&self) -> Result<impl Iterator<Item = Group>> {
        let first = random()? % GROUPS;
        Ok((0..GROUPS).map(move |offset| self.group((first + offset) % GROUPS)))
    }

    /// A damaged or absent level is the lowest, and rises by itself.
    pub fn level(&self) -> u32 {
        let text = std::fs::read_to_string(self.directory.join("level")).unwrap_or_default();
        text.parse().unwrap_or(0).min(HIGHEST_LEVEL)
    }

    /// The level after a look at a group with `live` sandboxes, where another one fits better.
    pub fn adjust(&self, level: u32, live: usize) -> Option<u32> {
        let better = match live {
            CROWDED.. if level < HIGHEST_LEVEL => level + 1,
            0..NEARLY_EMPTY if level > 0 => level - 1,
            _ => return None,
        };
        // Only a hint: an engine that finds another level better adjusts it again.
        let _ = std::fs::write(self.directory.join("level"), better.to_string());
        Some(better)
    }
}

impl Group {
    /// Its slots, from a random one on.
    pub fn slots(&self) -> Result<impl Iterator<Item = u32>> {
        let first = self.number * SLOTS_PER_GROUP;
        let count = SLOTS_PER_GROUP.min(SLOTS - first);
        let start = random()? % count;
        Ok((0..count).map(move |offset| first + (start + offset) % count))
    }

    pub fn record(&self, slot: u32) -> PathBuf {
        self.directory.join(format!("{slot}.json"))
    }

    /// The slots that have a file here, and the files.
    pub fn files(&self) -> Vec<(u32, PathBuf)> {
        let entries = std::fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let of_a_slot = entries.filter_map(|entry| {
            let name = entry.file_name();
            let slot: u32 = name.to_str()?.split_once('.')?.0.parse().ok()?;
            (slot < SLOTS && slot / SLOTS_PER_GROUP == self.number).then(|| (slot, entry.path()))
        });
        of_a_slot.collect()
    }

    /// The file that the locks of its slots are on, made where there is none.
    pub fn locks(&self) -> Result<Locks> {
        match open(&self.directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
                open(&self.directory).map(Locks)
            }
            Err(error) if error.kind() == ErrorKind::NotADirectory => {
                remove_older(self.directory.parent().unwrap_or(&self.directory))?;
                std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
                open(&self.directory).map(Locks)
            }
            opened => opened.map(Locks),
        }
    }
}

/// Locks of the open file, not of the process: they hold between threads and survive forks correctly.
pub struct Locks(pub File);

impl Locks {
    /// True if no other process has the slot.
    pub fn take(&self, slot: u32) -> Result<bool> {
        match self.set(slot, libc::F_WRLCK) {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub fn let_go(&self, slot: u32) -> Result<()> {
        self.set(slot, libc::F_UNLCK)
    }

    fn set(&self, slot: u32, kind: i32) -> Result<()> {
        self.set_range(i64::from(slot), 1, kind)
    }

    /// A length of 0 reaches to the end, however far that is.
    fn set_range(&self, start: i64, length: i64, kind: i32) -> Result<()> {
        // SAFETY: flock is plain data for which all zeroes is valid.
        let mut request: libc::flock = unsafe { std::mem::zeroed() };
        request.l_type = kind as libc::c_short;
        request.l_whence = libc::SEEK_SET as libc::c_short;
        request.l_start = start;
        request.l_len = length;
        // SAFETY: F_OFD_SETLK reads one flock structure, which lives across the call.
        let result = unsafe { libc::fcntl(self.0.as_raw_fd(), libc::F_OFD_SETLK, &raw const request) };
        if result == 0 { Ok(()) } else { Err(Error::last_os_error()) }
    }
}

/// An older Paddock had one file for all slots. While a sandbox of it lives, its lock would not be seen here, and two sandboxes
/// could have the same ids.
fn remove_older(path: &Path) -> Result<()> {
    let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
    Locks(file).set_range(0, 0, libc::F_WRLCK).map_err(|_| {
        let wrong = format!("a sandbox of an older Paddock holds {}: end it first", path.display());
        Error::new(ErrorKind::ResourceBusy, wrong)
    })?;
    std::fs::remove_file(path)
}

fn groups_in_use(level: u32) -> u32 {
    GROUPS_PER_LEVEL.pow(level).min(GROUPS)
}

fn random() -> Result<u32> {
    let mut bytes = [0; 4];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(u32::from_ne_bytes(bytes))
}

fn open(directory: &Path) -> Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(directory.join("locks"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_slot_is_in_one_group_and_every_group_is_in_use_at_the_highest_level() {
        let directory = tempfile::tempdir().unwrap();
        let groups = Groups::of(directory.path());
        let mut seen = BTreeSet::new();
        for group in groups.all().unwrap() {
            for slot in group.slots().unwrap() {
                assert_eq!(groups.group_of(slot).number, group.number);
                assert!(seen.insert(slot));
            }
        }
        assert_eq!(seen.len() as u32, SLOTS);
        assert_eq!(groups_in_use(HIGHEST_LEVEL), GROUPS);
    }

    #[test]
    fn an_older_paddocks_file_of_locks_goes_when_its_last_sandbox_has_gone() {
        let directory = tempfile::tempdir().unwrap();
        let older = directory.path().join("slots");
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&older).unwrap();
        let sandbox = Locks(file);
        assert!(sandbox.take(7).unwrap());
        let group = Groups::of(directory.path()).group(0);
        let error = group.locks().err().unwrap();
        assert!(error.to_string().contains("older Paddock"), "{error}");
        drop(sandbox);
        group.locks().unwrap();
        assert!(older.is_dir());
    }
}
