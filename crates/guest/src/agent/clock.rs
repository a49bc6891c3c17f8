//! When the guest ends by itself. The host ends a sandbox in time; where no host does, its guest does.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// How much longer a host that is there may take.
const GRACE: Duration = Duration::from_secs(2);
/// The clock of poll stops while the host sleeps; this one does not.
const LONGEST_LOOK: Duration = Duration::from_secs(60);

#[derive(Default)]
pub struct Lifetime {
    /// By the clock that also counts sleep.
    end: Option<Duration>,
}

impl Lifetime {
    pub fn set(&mut self, ms: Option<u64>) {
        self.end = ms.map(|ms| now().saturating_add(Duration::from_millis(ms)));
    }

    fn left(&self, connected: bool) -> Option<Duration> {
        let grace = if connected { GRACE } else { Duration::ZERO };
        self.end.map(|end| end.saturating_add(grace).saturating_sub(now()))
    }

    pub fn next_look(&self, connected: bool) -> Option<Duration> {
        self.left(connected).map(|left| left.min(LONGEST_LOOK))
    }

    pub fn is_over(&self, connected: bool) -> bool {
        self.left(connected) == Some(Duration::ZERO)
    }
}

fn now() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_is_there_gets_a_little_longer() {
        let mut lifetime = Lifetime::default();
        assert!(!lifetime.is_over(false) && lifetime.next_look(false).is_none());
        lifetime.set(Some(0));
        assert!(lifetime.is_over(false) && !lifetime.is_over(true));
        lifetime.set(Some(u64::MAX));
        assert_eq!(lifetime.next_look(true), Some(LONGEST_LOOK));
        lifetime.set(None);
        assert!(!lifetime.is_over(false));
    }
}
