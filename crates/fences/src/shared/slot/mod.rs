//! One number for each live sandbox of this user on this host. To hold it is to hold a lock that the kernel lets
//! go when the engine dies, so that the next engine can tell a live sandbox from the rest of a crash.
//!
//! - here: taking a slot and giving it back
//! - [`group`]: which slots share a directory and a file of locks
//! - [`record`]: the record of a slot
//! - [`sweep`]: removal of the remains of killed engines
//! - [`stand_ins`]: names in workspaces that several sandboxes rely on
//! - [`process_age`]: telling a process from a later one of the same number

mod group;
mod process_age;
mod record;
mod stand_ins;
mod sweep;

pub use group::SLOTS;
pub use process_age::{is_running, start_time};
pub use record::{Lasting, Record};
pub use stand_ins::lock_placeholders;
pub use sweep::{sweep_all, sweep_slot};

use super::placeholder::Placeholder;
use super::run_directory::{self, run_directory};
use group::{Group, Groups, Locks};
use std::collections::BTreeSet;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The slots that have a record now. A killed engine leaves some, until the next sweep.
pub fn taken(run_directory: &Path) -> usize {
    let records =
        |group: &Group| group.files().iter().filter(|(slot, path)| *path == group.record(*slot)).count();
    Groups::of(run_directory).existing().iter().map(records).sum()
}

/// Why there is no slot to be had, inside an [`Error`].
#[derive(Debug, thiserror::Error)]
#[error("all {SLOTS} places for sandboxes are taken")]
pub struct AllTaken;

pub struct Slot {
    pub number: u32,
    /// Absent where the guest of a lasting sandbox holds the lock.
    locks: Option<Locks>,
    run_directory: PathBuf,
    record: PathBuf,
}

impl Slot {
    pub fn take(state: &Path) -> Result<Slot> {
        Slot::take_in(&run_directory(state))
    }

    fn take_in(directory: &Path) -> Result<Slot> {
        let groups = Groups::of(directory);
        let mut level = groups.level();
        loop {
            let group = groups.choose(level)?;
            let locks = group.locks()?;
            let live = sweep::sweep_group(directory, &group, &locks).live;
            match groups.adjust(level, live) {
                Some(higher) if higher > level => level = higher,
                _ => match Slot::take_from(directory, &group, locks)? {
                    Some(slot) => return Ok(slot),
                    None => return Slot::take_anywhere(directory, &groups),
                },
            }
        }
    }

    /// Takes a slot of any group, when even those of the highest level are full.
    fn take_anywhere(directory: &Path, groups: &Groups) -> Result<Slot> {
        for group in groups.all()? {
            if let Some(slot) = Slot::take_from(directory, &group, group.locks()?)? {
                return Ok(slot);
            }
        }
        Err(Error::new(ErrorKind::ResourceBusy, AllTaken))
    }

    fn take_from(directory: &Path, group: &Group, locks: Locks) -> Result<Option<Slot>> {
        for number in group.slots()? {
            if !locks.take(number)? {
                continue;
            }
            let record = group.record(number);
            if sweep::is_worked_off(directory, number, &record) {
                let run_directory = directory.to_path_buf();
                return Ok(Some(Slot { number, locks: Some(locks), run_directory, record }));
            }
            // The sandbox that had it is still ending: there is room elsewhere.
            locks.let_go(number)?;
        }
        Ok(None)
    }

    /// The slot of a sandbox that holds it by itself.
    pub fn held_by_guest(state: &Path, number: u32) -> Slot {
        let run_directory = run_directory(state);
        let record = Groups::of(&run_directory).group_of(number).record(number);
        Slot { number, locks: None, run_directory, record }
    }

    /// A descriptor that holds the slot too, for as long as it is open anywhere.
    pub fn share(&self) -> Result<OwnedFd> {
        match &self.locks {
            Some(Locks(file)) => Ok(file.try_clone()?.into()),
            None => Err(Error::other("the slot is held by its guest already")),
        }
    }

    /// From now on only the processes with a share hold it.
    pub fn hand_over(&mut self) {
        self.locks = None;
    }

    /// The record of the sandbox while it lives.
    pub fn record(&self) -> &Path {
        &self.record
    }

    /// Written before the things that it names are made, and never half.
    pub fn remember(&self, record: &Record) -> Result<()> {
        if !record.placeholders.is_empty() {
            stand_ins::mark(&self.run_directory, self.number)?;
        }
        let new = self.record.with_extension("new");
        std::fs::write(&new, serde_json::to_vec(record)?)?;
        std::fs::rename(&new, &self.record)
    }

    /// The placeholders that other sandboxes rely on.
    pub fn held_by_others(&self) -> BTreeSet<PathBuf> {
        stand_ins::named_by_others(&self.run_directory, self.number)
    }

    /// Precondition: nothing runs in the sandbox any more.
    pub fn release(&self, id: &str, placeholders: &[Placeholder]) -> Result<()> {
        let probe = match self.locks {
            Some(_) => None,
            None => {
                let probe = Groups::of(&self.run_directory).group_of(self.number).locks()?;
                if !self.take_back(&probe, id)? {
                    return Ok(());
                }
                Some(probe)
            }
        };
        if placeholders.is_empty() {
            self.forget()?;
        } else {
            let ready = stand_ins::disarm(placeholders);
            let _guard = stand_ins::lock_in(&self.run_directory)?;
            stand_ins::remove_unheld(&ready, &self.held_by_others());
            self.forget()?;
            stand_ins::unmark(&self.run_directory, self.number);
        }
        drop(probe);
        Ok(())
    }

    /// Takes the lock that the guest held; not when another process has worked off the record of sandbox `id`.
    ///
    /// A sweep holds each lock for a moment and may let it go with nothing done, and a process that is
    /// being started elsewhere holds what it inherited until it executes.
    fn take_back(&self, probe: &Locks, id: &str) -> Result<bool> {
        for pause in [0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] {
            std::thread::sleep(Duration::from_millis(pause));
            if probe.take(self.number)? {
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
        let lasting = Record::read(&self.record).and_then(|record| record.lasting);
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
            let _ = locks.let_go(self.number);
        }
    }
}

/// Every lasting sandbox of this state directory, whole or half-made, live or not.
pub fn lasting(state: &Path) -> Vec<(Record, Lasting)> {
    let groups = Groups::of(&run_directory(state)).existing();
    let files = groups.iter().flat_map(Group::files).map(|(_, path)| path);
    let records = files.filter(|path| path.extension().is_some_and(|e| e == "json"));
    let owner = run_directory::owner(state);
    let ours = records.filter_map(|path| Record::read(&path)).filter_map(|mut record| {
        let lasting = record.lasting.take().filter(|lasting| lasting.state == owner)?;
        Some((record, lasting))
    });
    ours.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(directory: &Path) -> Slot {
        let slot = Slot::take_in(directory).unwrap();
        slot.remember(&Record::default()).unwrap();
        slot
    }

    #[test]
    fn each_sandbox_has_a_slot_of_its_own_and_a_crowd_spreads_over_more_groups() {
        let directory = tempfile::tempdir().unwrap();
        let groups = Groups::of(directory.path());
        let mut held: Vec<Slot> = (0..300).map(|_| taken(directory.path())).collect();
        let numbers: BTreeSet<u32> = held.iter().map(|slot| slot.number).collect();
        assert_eq!(numbers.len(), 300);
        let crowds: Vec<usize> = groups.existing().iter().map(|group| group.files().len()).collect();
        assert_eq!(crowds.iter().sum::<usize>(), 300);
        assert!(crowds.iter().all(|crowd| *crowd <= 64), "{crowds:?}");
        // With few left, the level falls again, and the next ones share a group.
        for slot in held.drain(1..) {
            slot.forget().unwrap();
        }
        for _ in 0..10 {
            taken(directory.path()).forget().unwrap();
        }
        assert_eq!(groups.level(), 0);
    }

    #[test]
    fn the_next_sandbox_sweeps_the_record_of_an_engine_that_died() {
        let directory = tempfile::tempdir().unwrap();
        let dead = taken(directory.path());
        let record = dead.record().to_path_buf();
        // The lock goes with the file, as it does when a process is killed.
        drop(dead);
        assert!(record.exists());
        let next = Slot::take_in(directory.path()).unwrap();
        assert!(!record.exists() || next.record() == record);
    }

    #[test]
    fn stand_ins_of_others_are_known_without_their_neighbours() {
        let directory = tempfile::tempdir().unwrap();
        let (one, other, plain) = (taken(directory.path()), taken(directory.path()), taken(directory.path()));
        let path = PathBuf::from("/workspace/.envrc");
        let placeholders = vec![Placeholder::made(path.clone(), 0, 0)];
        one.remember(&Record { placeholders, ..Record::default() }).unwrap();
        assert_eq!(other.held_by_others(), BTreeSet::from([path]));
        assert!(one.held_by_others().is_empty());
        let marks = std::fs::read_dir(directory.path().join("stand-ins")).unwrap().count();
        assert_eq!(marks, 1, "a sandbox without stand-ins has no mark");
        drop(plain);
    }
}
