//! Readers that follow an exec's output. A follower that keeps reading misses nothing: the exec waits for it, as it
//! would for a pipe. A follower that stops reading loses that right, and then sees a gap if more was printed than is
//! kept.
//!
//! An exec waits ten seconds for followers that stand still, however many they are: all of them are given up together,
//! and the spent patience comes back slowly. Followers with a read-only token are never waited for.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How far the slowest follower may be behind before the exec waits.
const LEASH: u64 = 1 << 20;
/// How long an exec waits for followers that stand still.
const FOLLOWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The patience of an exec that has just given a follower up.
const LEAST_PATIENCE: Duration = Duration::from_millis(250);
/// After this many seconds one second of patience has come back.
const SECONDS_PER_SECOND_OF_PATIENCE: u32 = 60;

/// Tells if an exec waits for a follower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    ForThem,
    Never,
}

#[derive(Default)]
pub struct Followers {
    all: Mutex<Vec<Weak<Follower>>>,
    progress: Arc<Notify>,
    /// The time at which a follower was given up last.
    gave_up: Mutex<Option<Instant>>,
}

pub struct Follower {
    /// Bytes of both streams that it has passed.
    position: AtomicU64,
    /// The time at which it passed them.
    moved: Mutex<Instant>,
    abandoned: AtomicBool,
    progress: Arc<Notify>,
}

impl Followers {
    pub fn join(&self, position: u64, wait: Wait) -> Arc<Follower> {
        let follower = Arc::new(Follower {
            position: position.into(),
            moved: Mutex::new(Instant::now()),
            abandoned: (wait == Wait::Never).into(),
            progress: self.progress.clone(),
        });
        if wait == Wait::ForThem {
            lock(&self.all).push(Arc::downgrade(&follower));
        }
        follower
    }

    /// Waits until no follower that still reads is too far behind `length` bytes of output, within the room that is
    /// kept for the tail.
    pub async fn keep_up(&self, length: u64, room: u64) {
        let needed = length.saturating_sub(LEASH.min(room / 2));
        if self.behind(needed).is_empty() {
            return;
        }
        let began = Instant::now();
        let patience = self.patience(began);
        loop {
            // The notification is set up before the look, so that no progress in between is missed.
            let progress = self.progress.notified();
            let gives_up_at = |follower: &Follower| began.max(*lock(&follower.moved)) + patience;
            // The list is not held while waiting: a reader that leaves is dropped, and notifies.
            let Some(first) = self.behind(needed).iter().map(|follower| gives_up_at(follower)).min() else {
                return;
            };
            if tokio::time::timeout_at(first, progress).await.is_ok() {
                continue;
            }
            let now = Instant::now();
            // Nothing is printed meanwhile, so a follower that has not read all of it stands still as well.
            for follower in self.behind(length).iter().filter(|follower| gives_up_at(follower) <= now) {
                follower.abandoned.store(true, Ordering::Relaxed);
                *lock(&self.gave_up) = Some(now);
            }
        }
    }

    /// The patience that is left.
    fn patience(&self, now: Instant) -> Duration {
        match *lock(&self.gave_up) {
            None => FOLLOWER_TIMEOUT,
            Some(then) => {
                let back = now.saturating_duration_since(then) / SECONDS_PER_SECOND_OF_PATIENCE;
                back.clamp(LEAST_PATIENCE, FOLLOWER_TIMEOUT)
            }
        }
    }

    /// The followers that the exec waits for and that have not passed this many bytes.
    fn behind(&self, needed: u64) -> Vec<Arc<Follower>> {
        let mut all = lock(&self.all);
        if all.is_empty() {
            return Vec::new();
        }
        all.retain(|weak| weak.upgrade().is_some_and(|follower| !follower.abandoned.load(Ordering::Relaxed)));
        let reading = all.iter().filter_map(Weak::upgrade);
        reading.filter(|follower| follower.position.load(Ordering::Relaxed) < needed).collect()
    }
}

impl Follower {
    pub fn passed(&self, position: u64) {
        if self.position.swap(position, Ordering::Relaxed) != position {
            *lock(&self.moved) = Instant::now();
            self.progress.notify_waiters();
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.progress.notify_waiters();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[tokio::test(start_paused = true)]
    async fn a_command_waits_for_a_reader_but_not_for_ever() {
        let followers = Followers::default();
        followers.keep_up(1 << 30, 8 * MIB).await;
        let slow = followers.join(0, Wait::ForThem);
        let waiting = followers.keep_up(4 * MIB, 8 * MIB);
        tokio::pin!(waiting);
        assert!(tokio::time::timeout(Duration::from_secs(1), &mut waiting).await.is_err());
        slow.passed(4 * MIB);
        waiting.await;
        // The follower stops reading: the exec goes on after a while.
        followers.keep_up(8 * MIB, 8 * MIB).await;
        followers.keep_up(1 << 30, 8 * MIB).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_leaves_holds_nobody() {
        let followers = Followers::default();
        let reader = followers.join(0, Wait::ForThem);
        let waiting = followers.keep_up(4 * MIB, 8 * MIB);
        tokio::pin!(waiting);
        assert!(tokio::time::timeout(Duration::from_millis(10), &mut waiting).await.is_err());
        drop(reader);
        tokio::time::timeout(Duration::from_secs(1), waiting).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn many_that_stand_still_cost_no_more_than_one() {
        let followers = Followers::default();
        // Each has taken in a little more than the one before.
        let stalled: Vec<_> =
            (0..20).map(|number| followers.join(number * MIB / 10, Wait::ForThem)).collect();
        let began = Instant::now();
        for printed in 1..=64 {
            followers.keep_up(printed * MIB, 8 * MIB).await;
        }
        assert!(began.elapsed() <= FOLLOWER_TIMEOUT + Duration::from_millis(10), "{:?}", began.elapsed());
        drop(stalled);
    }

    #[tokio::test(start_paused = true)]
    async fn one_after_the_other_they_cost_little_more() {
        let followers = Followers::default();
        let began = Instant::now();
        let mut stalled = Vec::new();
        for printed in 2..=22 {
            stalled.push(followers.join(0, Wait::ForThem));
            followers.keep_up(printed * MIB, 8 * MIB).await;
        }
        assert!(began.elapsed() < FOLLOWER_TIMEOUT + 21 * LEAST_PATIENCE + Duration::from_secs(1));
        // Long after that a new follower is waited for again.
        tokio::time::advance(FOLLOWER_TIMEOUT * SECONDS_PER_SECOND_OF_PATIENCE).await;
        assert_eq!(followers.patience(Instant::now()), FOLLOWER_TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_beside_one_that_stands_still_is_not_left_behind() {
        let followers = Followers::default();
        let (stalled, slow) = (followers.join(0, Wait::ForThem), followers.join(0, Wait::ForThem));
        let waiting = followers.keep_up(8 * MIB, 64 * MIB);
        tokio::pin!(waiting);
        for passed in 1..=16 {
            assert!(tokio::time::timeout(Duration::from_secs(4), &mut waiting).await.is_err(), "{passed}");
            slow.passed(passed * MIB / 8);
        }
        assert!(stalled.abandoned.load(Ordering::Relaxed) && !slow.abandoned.load(Ordering::Relaxed));
        slow.passed(8 * MIB);
        waiting.await;
    }

    #[tokio::test(start_paused = true)]
    async fn who_only_looks_is_not_waited_for() {
        let followers = Followers::default();
        let _looks = followers.join(0, Wait::Never);
        let began = Instant::now();
        followers.keep_up(1 << 30, 8 * MIB).await;
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}
