//! Who reads along while a command prints. A follower that keeps reading is never left behind: the command
//! waits for it, as it would for a pipe. One that stops reading loses that right after a while, and then sees
//! a gap where more was printed than is kept.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::Notify;

/// How far the slowest may be behind before the command waits.
const LEASH: u64 = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Default)]
pub struct Followers {
    all: Mutex<Vec<Weak<Follower>>>,
    progress: Arc<Notify>,
}

pub struct Follower {
    /// Bytes of both streams that it has passed.
    position: AtomicU64,
    abandoned: AtomicBool,
    progress: Arc<Notify>,
}

impl Followers {
    pub fn join(&self, position: u64) -> Arc<Follower> {
        let follower = Arc::new(Follower {
            position: position.into(),
            abandoned: false.into(),
            progress: self.progress.clone(),
        });
        self.lock().push(Arc::downgrade(&follower));
        follower
    }

    /// Waits until nobody who still reads is too far behind `length` bytes of output, within the room that is
    /// kept for the tail.
    pub async fn keep_up(&self, length: u64, room: u64) {
        let leash = LEASH.min(room / 2);
        while let Some((slowest, before)) = self.slowest(length.saturating_sub(leash)) {
            // Not held while waiting: a reader that leaves is dropped, and says so.
            let stands = || slowest.upgrade().is_some_and(|f| f.position.load(Ordering::Relaxed) == before);
            let moved = tokio::time::timeout(PATIENCE, async {
                loop {
                    let progress = self.progress.notified();
                    if !stands() {
                        return;
                    }
                    progress.await;
                }
            });
            if moved.await.is_err()
                && let Some(slowest) = slowest.upgrade()
            {
                slowest.abandoned.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Who is furthest behind `needed`, and where it stands.
    fn slowest(&self, needed: u64) -> Option<(Weak<Follower>, u64)> {
        let mut all = self.lock();
        if all.is_empty() {
            return None;
        }
        all.retain(|follower| follower.strong_count() > 0);
        let reading = all.iter().filter_map(|weak| Some((weak, weak.upgrade()?)));
        let behind = reading.filter(|(_, follower)| !follower.abandoned.load(Ordering::Relaxed));
        let behind = behind.map(|(weak, follower)| (weak.clone(), follower.position.load(Ordering::Relaxed)));
        behind.filter(|(_, position)| *position < needed).min_by_key(|(_, position)| *position)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Weak<Follower>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Follower {
    pub fn passed(&self, position: u64) {
        self.position.store(position, Ordering::Relaxed);
        self.progress.notify_waiters();
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.progress.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_command_waits_for_a_reader_but_not_for_ever() {
        let followers = Followers::default();
        followers.keep_up(1 << 30, 8 << 20).await;
        let slow = followers.join(0);
        let waiting = followers.keep_up(4 << 20, 8 << 20);
        tokio::pin!(waiting);
        assert!(tokio::time::timeout(Duration::from_secs(1), &mut waiting).await.is_err());
        slow.passed(4 << 20);
        waiting.await;
        // It stops reading: the command goes on after a while.
        followers.keep_up(8 << 20, 8 << 20).await;
        followers.keep_up(1 << 30, 8 << 20).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_leaves_holds_nobody() {
        let followers = Followers::default();
        let reader = followers.join(0);
        let waiting = followers.keep_up(4 << 20, 8 << 20);
        tokio::pin!(waiting);
        assert!(tokio::time::timeout(Duration::from_millis(10), &mut waiting).await.is_err());
        drop(reader);
        tokio::time::timeout(Duration::from_secs(1), waiting).await.unwrap();
    }
}
