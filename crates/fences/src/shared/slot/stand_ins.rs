//! Stand-ins in workspaces are shared: the last sandbox that relies on one removes it.
//!
//! Few sandboxes have any, so those have a mark of their own. Otherwise each would have to read the records of all.

use super::group::Groups;
use super::record::Record;
use crate::shared::placeholder::Placeholder;
use crate::shared::run_directory::run_directory;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{ErrorKind, Result};
use std::path::{Path, PathBuf};

/// Held while placeholders are made or removed, so that no engine removes a placeholder that another has just come to
/// rely on.
pub fn lock_placeholders(state: &Path) -> Result<File> {
    lock_in(&run_directory(state))
}

pub fn lock_in(run_directory: &Path) -> Result<File> {
    let file = File::create(run_directory.join("placeholders.lock"))?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)?;
    Ok(file)
}

/// To be called before a record that names stand-ins is written.
pub fn mark(run_directory: &Path, slot: u32) -> Result<()> {
    let path = mark_of(run_directory, slot);
    match File::create(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            std::fs::create_dir_all(run_directory.join("stand-ins"))?;
            File::create(path).map(drop)
        }
        made => made.map(drop),
    }
}

/// To be called when the record has gone. A mark without a record is skipped by its readers.
pub fn unmark(run_directory: &Path, slot: u32) {
    let _ = std::fs::remove_file(mark_of(run_directory, slot));
}

/// The placeholders that the record of any other slot names, of a live sandbox or of one that crashed.
pub fn named_by_others(run_directory: &Path, own: u32) -> BTreeSet<PathBuf> {
    let groups = Groups::of(run_directory);
    let marks = std::fs::read_dir(run_directory.join("stand-ins")).into_iter().flatten().flatten();
    let slots = marks.filter_map(|mark| mark.file_name().to_str()?.parse::<u32>().ok());
    let others = slots.filter(|slot| *slot != own).map(|slot| groups.group_of(slot).record(slot));
    let records = others.filter_map(|path| Record::read(&path));
    records.flat_map(|record| record.placeholders).map(|placeholder| placeholder.path).collect()
}

/// To be called before the lock is taken: the work decides how long this takes. Returns those that can be removed.
pub fn disarm(placeholders: &[Placeholder]) -> Vec<Placeholder> {
    placeholders.iter().filter(|placeholder| placeholder.disarm()).cloned().collect()
}

pub fn remove_unheld(placeholders: &[Placeholder], held: &BTreeSet<PathBuf>) {
    let mut ours: Vec<_> = placeholders.iter().filter(|p| !held.contains(&p.path)).collect();
    // A stand-in inside another one is removed first.
    ours.sort_by(|one, other| other.path.cmp(&one.path));
    ours.into_iter().for_each(Placeholder::remove);
}

fn mark_of(run_directory: &Path, slot: u32) -> PathBuf {
    run_directory.join("stand-ins").join(slot.to_string())
}
