//! A sandbox that is in use does not fall asleep, and a sandbox that falls asleep is not in use: a call that comes
//! meanwhile waits, and wakes it.

use super::live::Live;
use paddock_engine::Sandbox as Inside;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// The longest wait for the calls that use a sandbox that is to sleep. A call that takes longer is cut off.
const UNTIL_UNUSED: Duration = Duration::from_secs(10);

/// Counts the calls that use the processes of a sandbox.
#[derive(Default)]
pub struct Uses {
    count: AtomicUsize,
    falls_asleep: AtomicBool,
    /// True if the sandbox falls asleep, and waits no longer for the calls that use it.
    cuts_off: AtomicBool,
    unused: Notify,
}

/// The processes of a sandbox, which stay for as long as this is kept.
pub struct Awake {
    inside: Arc<Inside>,
    used: Use,
}

/// Counts as one use.
struct Use(Arc<Live>);

/// No call can begin to use the sandbox while this is kept.
pub struct FallingAsleep<'a>(&'a Live);

impl Live {
    /// `None` while it has no processes, or is about to lose them.
    pub fn stay_awake(self: &Arc<Live>) -> Option<Awake> {
        // The use is counted before the flag is read; [`Live::fall_asleep`] sets the flag before it reads the count.
        self.uses.count.fetch_add(1, Ordering::SeqCst);
        let counted = Use(self.clone());
        if self.uses.falls_asleep.load(Ordering::SeqCst) {
            return None;
        }
        self.running().map(|inside| Awake { inside, used: counted })
    }

    pub fn has_uses(&self) -> bool {
        self.uses.count.load(Ordering::SeqCst) > 0
    }

    /// As [`Live::fall_asleep`], at once or not at all.
    ///
    /// Precondition: its transition is locked for as long as the answer is kept.
    pub fn fall_asleep_if_unused(&self) -> Option<FallingAsleep<'_>> {
        self.uses.falls_asleep.store(true, Ordering::SeqCst);
        let falling = FallingAsleep(self);
        (!self.has_uses()).then_some(falling)
    }

    /// Waits until no call uses the sandbox any more, and keeps new calls out.
    ///
    /// Precondition: its transition is locked for as long as the answer is kept.
    pub async fn fall_asleep(&self) -> FallingAsleep<'_> {
        self.uses.falls_asleep.store(true, Ordering::SeqCst);
        let falling = FallingAsleep(self);
        let unused = async {
            loop {
                let next = self.uses.unused.notified();
                if self.uses.count.load(Ordering::SeqCst) == 0 {
                    return;
                }
                next.await;
            }
        };
        if tokio::time::timeout(UNTIL_UNUSED, unused).await.is_err() {
            self.uses.cuts_off.store(true, Ordering::SeqCst);
            tracing::warn!(sandbox = %self.id, "it falls asleep although a call still uses it");
        }
        falling
    }
}

impl Awake {
    /// True if the sandbox falls asleep although this call uses it, because it waited too long. Changes to its files
    /// may be lost now.
    pub fn is_cut_off(&self) -> bool {
        let same = self.used.0.running().is_some_and(|now| Arc::ptr_eq(&now, &self.inside));
        self.used.0.uses.cuts_off.load(Ordering::SeqCst) || !same
    }
}

impl Deref for Awake {
    type Target = Arc<Inside>;

    fn deref(&self) -> &Arc<Inside> {
        &self.inside
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        if self.0.uses.count.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.uses.unused.notify_waiters();
        }
    }
}

impl Drop for FallingAsleep<'_> {
    fn drop(&mut self) {
        self.0.uses.cuts_off.store(false, Ordering::SeqCst);
        self.0.uses.falls_asleep.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::record;
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn one_that_is_used_does_not_fall_asleep_at_once_and_stays_open_to_calls() {
        let live = Live::new(record(None), "/nonexistent".into(), BTreeMap::new());
        live.uses.count.fetch_add(1, Ordering::SeqCst);
        let used = Use(live.clone());
        assert!(live.is_used_now() && live.fall_asleep_if_unused().is_none());
        assert!(!live.uses.falls_asleep.load(Ordering::SeqCst));
        drop(used);
        let falling = live.fall_asleep_if_unused();
        assert!(falling.is_some() && live.uses.falls_asleep.load(Ordering::SeqCst));
        drop(falling);
        assert!(!live.uses.falls_asleep.load(Ordering::SeqCst));
    }
}
