//! Removes the remains of killed engines. Never fails: the next sweep tries again.

use super::group::{Group, Groups, Locks};
use super::process_age::start_time;
use super::record::Record;
use super::stand_ins;
use crate::shared::cgroups;
use crate::shared::run_directory::{remove_of_sandbox, run_directory};
use std::path::Path;

/// The result of a sweep of one group.
pub struct Swept {
    pub removed: usize,
    pub live: usize,
}

/// Looks at every record, and counts the removed ones. Too slow for a request.
pub fn sweep_all(state: &Path) -> usize {
    let directory = run_directory(state);
    let mut removed = 0;
    for group in Groups::of(&directory).existing() {
        if let Ok(locks) = group.locks() {
            removed += sweep_group(&directory, &group, &locks).removed;
        }
    }
    removed
}

/// Sweeps one slot only.
pub fn sweep_slot(state: &Path, slot: u32) {
    let directory = run_directory(state);
    let group = Groups::of(&directory).group_of(slot);
    if let Ok(locks) = group.locks()
        && locks.take(slot).unwrap_or(false)
    {
        is_worked_off(&directory, slot, &group.record(slot));
        let _ = locks.let_go(slot);
    }
}

/// Precondition: `locks` holds none of the group's: a lock that it holds looks free to it.
pub fn sweep_group(run_directory: &Path, group: &Group, locks: &Locks) -> Swept {
    let mut swept = Swept { removed: 0, live: 0 };
    for (slot, path) in group.files() {
        if !locks.take(slot).unwrap_or(false) {
            swept.live += 1;
            continue;
        }
        if path.extension().is_some_and(|extension| extension == "new") {
            // Never came to be a record.
            let _ = std::fs::remove_file(&path);
        } else {
            swept.removed += usize::from(is_worked_off(run_directory, slot, &path));
        }
        let _ = locks.let_go(slot);
    }
    swept
}

/// True if there is no record, or none any more. A slot's record has to be worked off before it is overwritten.
///
/// Precondition: the caller holds the lock of the slot.
pub fn is_worked_off(run_directory: &Path, slot: u32, path: &Path) -> bool {
    Record::read(path).is_none_or(|record| remove(run_directory, slot, path, &record))
}

/// Returns true if everything is gone, the record included. While the sandbox still dies, nothing is touched: a
/// stand-in that went before it would take its protection away.
fn remove(run_directory: &Path, slot: u32, path: &Path, record: &Record) -> bool {
    if record.guest.is_some_and(|(pid, started)| start_time(pid) == Some(started)) {
        return false;
    }
    if !record.cgroups.iter().all(|path| cgroups::remove(path).is_ok()) {
        return false;
    }
    if let Some(kept) = &record.lasting
        && remove_of_sandbox(&run_directory.join(kept.id.as_str())).is_err()
    {
        return false;
    }
    let ready = stand_ins::disarm(&record.placeholders);
    // Another sandbox may be about to rely on the same names.
    let Ok(_guard) = stand_ins::lock_in(run_directory) else { return false };
    if !record.placeholders.is_empty() {
        let held = stand_ins::named_by_others(run_directory, slot);
        stand_ins::remove_unheld(&ready, &held);
    }
    let removed = std::fs::remove_file(path).is_ok();
    if removed && !record.placeholders.is_empty() {
        stand_ins::unmark(run_directory, slot);
    }
    removed
}
