//! How many bytes a sandbox has moved, and how fast it may.

use paddock_model::net::NetRules;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

#[derive(Default)]
pub struct Meter {
    sent: AtomicU64,
    received: AtomicU64,
    bucket: Mutex<Option<Bucket>>,
}

struct Bucket {
    rate: u64,
    /// Below zero after a piece that was larger than the rest of the tokens.
    tokens: f64,
    filled: Instant,
}

/// Both directions of one sandbox, or of one connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moved {
    pub sent: u64,
    pub received: u64,
}

impl Meter {
    /// Starts from the counts of an engine before this one.
    pub fn starting_at(moved: Moved) -> Meter {
        Meter {
            sent: AtomicU64::new(moved.sent),
            received: AtomicU64::new(moved.received),
            bucket: Mutex::new(None),
        }
    }

    pub fn moved(&self) -> Moved {
        Moved { sent: self.sent.load(Ordering::Relaxed), received: self.received.load(Ordering::Relaxed) }
    }

    /// True if the bytes that the sandbox may move in its life are used up.
    pub fn is_spent(&self, rules: &NetRules) -> bool {
        let moved = self.moved();
        rules.bytes.is_some_and(|most| moved.sent.saturating_add(moved.received) >= most)
    }

    pub fn count(&self, sent: u64, received: u64) {
        self.sent.fetch_add(sent, Ordering::Relaxed);
        self.received.fetch_add(received, Ordering::Relaxed);
    }

    /// How long to wait before the next piece. Nothing to wait for where there is no rate.
    pub fn delay(&self, rules: &NetRules) -> Option<Duration> {
        self.delay_at(rules.rate?, Instant::now())
    }

    fn delay_at(&self, rate: u64, now: Instant) -> Option<Duration> {
        let mut held = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let full = Bucket { rate, tokens: burst(rate), filled: now };
        let bucket = match held.as_mut() {
            Some(bucket) if bucket.rate == rate => bucket,
            _ => held.insert(full),
        };
        let since = now.saturating_duration_since(bucket.filled).as_secs_f64();
        bucket.tokens = (bucket.tokens + since * rate as f64).min(burst(rate));
        bucket.filled = now;
        (bucket.tokens <= 0.0).then(|| {
            let missing = Duration::from_secs_f64((1.0 - bucket.tokens) / rate as f64);
            missing.clamp(Duration::from_millis(1), Duration::from_secs(3600))
        })
    }

    pub fn spend(&self, bytes: u64) {
        let mut held = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = held.as_mut() {
            bucket.tokens -= bytes as f64;
        }
    }
}

/// A tenth of a second's worth at once.
fn burst(rate: u64) -> f64 {
    (rate as f64 / 10.0).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_held_over_time() {
        let meter = Meter::default();
        let start = Instant::now();
        let mut now = start;
        let mut moved = 0u64;
        while moved < 10_000_000 {
            match meter.delay_at(1_000_000, now) {
                Some(delay) => now += delay,
                None => {
                    meter.spend(65_536);
                    moved += 65_536;
                }
            }
        }
        let seconds = now.duration_since(start).as_secs_f64();
        assert!((9.7..=10.3).contains(&seconds), "{seconds}");
    }

    #[test]
    fn a_change_of_the_rate_holds_at_once() {
        let meter = Meter::default();
        let now = Instant::now();
        assert_eq!(meter.delay_at(1000, now), None);
        meter.spend(1_000_000);
        assert!(meter.delay_at(1000, now).is_some());
        assert_eq!(meter.delay_at(2000, now), None);
    }

    #[test]
    fn bytes_of_a_life_count_both_ways() {
        let meter = Meter::starting_at(Moved { sent: 40, received: 50 });
        let rules = NetRules { bytes: Some(100), ..NetRules::default() };
        assert!(!meter.is_spent(&rules));
        meter.count(5, 5);
        assert!(meter.is_spent(&rules));
        assert!(!meter.is_spent(&NetRules::default()));
    }
}
