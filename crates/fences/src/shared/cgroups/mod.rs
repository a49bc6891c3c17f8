//! Limits that the kernel holds. Written by hand, for v1 and v2: the maintained crate brings a D-Bus client
//! and an async runtime with it, and cannot hand out descriptors by which the guest moves its own children
//! (docs/decisions/0003-cgroups-by-hand.md).
//!
//! One cgroup per sandbox and hierarchy, for the work alone. The guest stays in the engine's, so that no
//! shortage inside can ever kill it.

mod freeze;
mod headroom;
mod hierarchy;
mod spares;

pub use headroom::{MemoryRoom, memory_room};
pub use hierarchy::{Hierarchies, detect};
pub use spares::{Keeping, sweep as sweep_spares};

use crate::backend::FenceUsage;
use paddock_model::Limits;
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The cgroups of one sandbox.
pub struct WorkGroup {
    hierarchies: Hierarchies,
    directories: Vec<PathBuf>,
    /// The limits that it was made with, as long as another sandbox could have it as it is.
    unchanged: Mutex<Option<Limits>>,
}

impl WorkGroup {
    pub fn directories(hierarchies: &Hierarchies, name: &str) -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> = hierarchies.parents().iter().map(|parent| parent.join(name)).collect();
        // Controllers that share a hierarchy share the directory.
        all.sort();
        all.dedup();
        all
    }

    /// The cgroups of a sandbox that another engine made.
    pub fn found(hierarchies: &Hierarchies, name: &str) -> WorkGroup {
        WorkGroup {
            hierarchies: hierarchies.clone(),
            directories: WorkGroup::directories(hierarchies, name),
            unchanged: Mutex::new(None),
        }
    }

    /// True if it is there in every hierarchy.
    pub fn is_whole(&self) -> bool {
        self.directories.iter().all(|directory| directory.exists())
    }

    pub fn create(hierarchies: &Hierarchies, name: &str, limits: &Limits) -> Result<WorkGroup> {
        let group = WorkGroup::found(hierarchies, name);
        if !spares::take(hierarchies, name, limits)
            && let Err(error) = group.fill(name, limits)
        {
            let _ = group.remove();
            return Err(error);
        }
        *group.unchanged() = Some(limits.clone());
        Ok(group)
    }

    fn unchanged(&self) -> MutexGuard<'_, Option<Limits>> {
        self.unchanged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fill(&self, name: &str, limits: &Limits) -> Result<()> {
        for directory in &self.directories {
            match std::fs::create_dir(directory) {
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                    return Err(with_path(directory, error));
                }
                _ => {}
            }
        }
        for setting in self.hierarchies.settings(name, limits) {
            match std::fs::write(&setting.file, &setting.value) {
                Err(error) if !setting.optional => return Err(with_path(&setting.file, error)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Sets all limits from now on, or none. Memory in use is not taken away: a limit below it is refused.
    pub fn change(&self, name: &str, old: &Limits, new: &Limits) -> Result<()> {
        *self.unchanged() = None;
        self.hierarchies.check_held(old, new)?;
        let used = self.hierarchies.usage(name).memory.unwrap_or(0);
        if new.memory < old.memory && used > new.memory {
            return Err(in_use(used));
        }
        self.write_anew(name, new).inspect_err(|_| {
            let _ = self.write_anew(name, old);
        })
    }

    fn write_anew(&self, name: &str, limits: &Limits) -> Result<()> {
        let mut settings = self.hierarchies.changes(name, limits);
        // A new server writes the limits of every sandbox again. A write of the same takes locks over all cgroups; a read takes none.
        settings.retain(|setting| !has(&setting.file, &setting.value));
        // Two limits may bound each other (v1's memory, with swap and without). The order in which they can be written
        // depends on their old values: a write that fails in the first round succeeds in the second.
        for setting in &settings {
            let _ = std::fs::write(&setting.file, &setting.value);
        }
        for setting in &settings {
            match std::fs::write(&setting.file, &setting.value) {
                Err(error) if error.kind() == ErrorKind::ResourceBusy => {
                    return Err(in_use(self.hierarchies.usage(name).memory.unwrap_or(0)));
                }
                Err(error) if !setting.optional => return Err(with_path(&setting.file, error)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Files that move the process that writes `0` to them, opened with the engine's rights.
    pub fn entrances(&self) -> Result<Vec<File>> {
        let file = self.hierarchies.entrance();
        let open = |directory: &PathBuf| OpenOptions::new().write(true).open(directory.join(file));
        self.directories.iter().map(open).collect()
    }

    pub fn usage(&self, name: &str) -> FenceUsage {
        self.hierarchies.usage(name)
    }

    pub fn page_cache(&self, name: &str) -> Option<u64> {
        self.hierarchies.page_cache(name)
    }

    pub fn memory_kills(&self, name: &str) -> u64 {
        self.hierarchies.memory_kills(name)
    }

    /// Keeps it for another sandbox, or removes it.
    ///
    /// Precondition: nothing runs in it any more.
    pub fn give_back(&self, name: &str) -> Result<()> {
        let limits = self.unchanged().clone();
        if limits.is_some_and(|limits| spares::keep(&self.hierarchies, name, limits)) {
            return Ok(());
        }
        self.remove()
    }

    /// Precondition: nothing runs in it any more.
    pub fn remove(&self) -> Result<()> {
        self.directories.iter().try_for_each(|directory| remove(directory))
    }
}

pub fn remove(directory: &Path) -> Result<()> {
    match std::fs::remove_dir(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(with_path(directory, error)),
        _ => Ok(()),
    }
}

fn has(file: &Path, value: &str) -> bool {
    std::fs::read_to_string(file).is_ok_and(|found| found.trim_end() == value)
}

fn in_use(bytes: u64) -> Error {
    let why = format!("{} are in use", paddock_model::format_bytes(bytes));
    Error::new(ErrorKind::ResourceBusy, why)
}

fn with_path(path: &Path, error: Error) -> Error {
    Error::new(error.kind(), format!("{}: {error}", path.display()))
}
