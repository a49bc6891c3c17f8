//! Calls that change one volume take turns: each takes the volume's lease for a moment, which a second call would be refused.

use super::super::{FleetError, Kind};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;

/// A call that has waited for so long is refused.
const TURN_TIMEOUT: Duration = Duration::from_secs(30);
/// Entries that no call holds any more are looked for when there are twice as many as after the last look, and at least so many.
const FEWEST_SWEPT: usize = 64;

#[derive(Default)]
pub struct Turns(Mutex<Table>);

#[derive(Default)]
struct Table {
    locks: HashMap<String, Weak<tokio::sync::Mutex<()>>>,
    sweep_at: usize,
}

impl Turns {
    /// The turn of a call that changes the volume of this id; it ends when the guard is dropped.
    pub async fn take(&self, volume: &str) -> Result<OwnedMutexGuard<()>, FleetError> {
        let lock = self.lock_of(volume);
        tokio::time::timeout(TURN_TIMEOUT, lock.lock_owned()).await.map_err(|_| {
            let seconds = TURN_TIMEOUT.as_secs();
            let message = format!("other calls have been changing this volume for {seconds} s");
            FleetError::new(Kind::Conflict, "volume_busy", message).hint("try again in a moment")
        })
    }

    fn lock_of(&self, volume: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = table.locks.get(volume).and_then(Weak::upgrade) {
            return lock;
        }
        if table.locks.len() >= table.sweep_at.max(FEWEST_SWEPT) {
            table.locks.retain(|_, lock| lock.strong_count() > 0);
            table.sweep_at = table.locks.len() * 2;
        }
        let lock = Arc::default();
        table.locks.insert(volume.into(), Arc::downgrade(&lock));
        lock
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_volume_has_one_turn_and_no_volume_is_remembered_for_good() {
        let turns = Turns::default();
        let first = turns.take("a").await.unwrap();
        assert!(turns.lock_of("a").try_lock().is_err(), "the second waits");
        turns.take("b").await.unwrap();
        drop(first);
        assert!(turns.lock_of("a").try_lock().is_ok());
        for number in 0..10 * FEWEST_SWEPT {
            turns.take(&number.to_string()).await.unwrap();
        }
        assert!(turns.0.lock().unwrap().locks.len() <= FEWEST_SWEPT);
    }
}
