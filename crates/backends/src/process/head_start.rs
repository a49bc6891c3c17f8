//! A child that is already making its namespaces while the caller still finds out what it is for.
//!
//! A network namespace takes the kernel half a millisecond, and nothing in it depends on the spec. So whoever is about
//! to create a sandbox, and knows it, may say so first. The child waits at its gate, where it has run nothing but
//! system calls of ours; if nobody comes for it, it is killed.

use super::launch::{Launched, launch};
use super::{cgroups, guest_executable};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

static WAITING: Mutex<Option<Launched>> = Mutex::new(None);

/// While it lives, a child may be waiting; one that nobody took ends with it.
pub struct HeadStart(());

impl HeadStart {
    /// Precondition: `state` is a directory that nobody else can write to. Never fails: what goes wrong here goes
    /// wrong again when the sandbox is created, and is told there.
    pub fn begin(state: &Path) -> HeadStart {
        // Unless this is v1 for sure: on v2 this process may have to leave its cgroup first, which a child in it would
        // keep busy.
        if !Path::new("/sys/fs/cgroup/memory/tasks").exists() {
            cgroups::detect();
        }
        if let Ok(guest) = guest_executable::open(state)
            && let Ok(launched) = launch(&guest, true)
        {
            *waiting() = Some(launched);
        }
        HeadStart(())
    }
}

impl Drop for HeadStart {
    fn drop(&mut self) {
        drop(take());
    }
}

/// The waiting child, which has a network namespace of its own.
pub fn take() -> Option<Launched> {
    waiting().take()
}

fn waiting() -> MutexGuard<'static, Option<Launched>> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}
