//! A child that is already making its namespaces while the caller still prepares the spec.
//!
//! A network namespace takes the kernel half a millisecond, and nothing in it depends on the spec. So a caller that is
//! about to create a sandbox may say so first. The child waits at its gate, where it has run nothing but system calls
//! of ours. Root's ids do not depend on the spec either, so root's child goes on to be a guest, which waits for its
//! plan. If no sandbox takes it, it is killed.

use super::launch::{Launched, launch};
use super::slot::Slot;
use super::{cgroups, guest_executable, identity};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

static WAITING: Mutex<Option<Waiting>> = Mutex::new(None);

/// A child with a network namespace of its own.
pub struct Waiting {
    pub launched: Launched,
    /// The slot whose ids it has already, if it has any.
    pub slot: Option<Slot>,
}

impl Waiting {
    fn new(mut launched: Launched, state: &Path) -> Option<Waiting> {
        let slot = match identity::method() {
            identity::Method::Range => {
                let slot = Slot::take(state).ok()?;
                identity::write_range(slot.number, launched.pid).ok()?;
                launched.gate.open().ok()?;
                Some(slot)
            }
            identity::Method::Helpers | identity::Method::Single => None,
        };
        Some(Waiting { launched, slot })
    }
}

/// While this lives, a child may be waiting. A child that no sandbox took ends with it.
pub struct HeadStart(());

impl HeadStart {
    /// Precondition: `state` is a directory that no other user can write to. Never fails: an error here occurs again
    /// when the sandbox is created, and is told there.
    pub fn begin(state: &Path) -> HeadStart {
        // Unless this is v1 for sure: on v2 this process may have to leave its cgroup first, which a child in it would
        // keep busy.
        if !Path::new("/sys/fs/cgroup/memory/tasks").exists() {
            cgroups::detect();
        }
        if let Ok(guest) = guest_executable::open(state)
            && let Ok(launched) = launch(&guest, true)
        {
            *waiting() = Waiting::new(launched, state);
        }
        HeadStart(())
    }
}

impl Drop for HeadStart {
    fn drop(&mut self) {
        drop(take());
    }
}

pub fn take() -> Option<Waiting> {
    waiting().take()
}

fn waiting() -> MutexGuard<'static, Option<Waiting>> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}
