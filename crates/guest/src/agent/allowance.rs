//! A small share of one processor for work that code inside brings about. The guest's time is not counted against the sandbox's
//! limit, so that this bound takes the place of that one: [`SHARE`], and at once no more than [`AHEAD`] of it.

use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// One part in so many of one processor.
const SHARE: u32 = 20;
/// The time whose share may be used at once.
const AHEAD: Duration = Duration::from_secs(2);

#[derive(Default)]
pub struct Allowance {
    /// The share up to here pays for what was done.
    paid: Option<Instant>,
}

impl Allowance {
    pub fn spend(&mut self, time: Duration, now: Instant) {
        let from = self.paid.map_or(now, |paid| paid.max(now));
        self.paid = from.checked_add(time.saturating_mul(SHARE));
    }

    /// Nothing has been done for so long that all of it is paid for.
    pub fn is_unused(&self, now: Instant) -> bool {
        self.paid.is_none_or(|paid| paid <= now)
    }

    /// How long such work has to wait. Zero: it may go on.
    pub fn rest(&self, now: Instant) -> Duration {
        self.paid.map_or(Duration::ZERO, |paid| paid.saturating_duration_since(now).saturating_sub(AHEAD))
    }
}

/// The processor's time that this process has used.
pub fn used() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(used.tv_sec as u64, used.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_without_end_gets_its_share_and_no_more() {
        let (mut allowance, begin) = (Allowance::default(), Instant::now());
        let (mut now, mut spent) = (begin, Duration::ZERO);
        let of_one = Duration::from_micros(700);
        while now < begin + Duration::from_secs(60) {
            let rest = allowance.rest(now);
            if rest.is_zero() {
                allowance.spend(of_one, now);
                spent += of_one;
            }
            now += rest.max(of_one);
        }
        let most = (now - begin + AHEAD) / SHARE + of_one;
        assert!(spent <= most && spent > most * 9 / 10, "{spent:?} of {most:?}");
    }

    #[test]
    fn one_long_look_is_paid_for_before_the_next() {
        let (mut allowance, now) = (Allowance::default(), Instant::now());
        allowance.spend(Duration::from_millis(300), now);
        assert_eq!(allowance.rest(now), Duration::from_secs(4));
        assert_eq!(allowance.rest(now + Duration::from_secs(4)), Duration::ZERO);
        // An idle time is not saved up.
        let later = now + Duration::from_secs(3600);
        allowance.spend(Duration::from_millis(200), later);
        assert_eq!(allowance.rest(later), Duration::from_secs(2));
    }

    #[test]
    fn the_time_of_this_process_is_counted() {
        let before = used();
        while used() < before + Duration::from_millis(2) {}
    }
}
