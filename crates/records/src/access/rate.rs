//! A rate per minute: a bucket that fills evenly and holds a minute's worth.

use std::time::Duration;
use tokio::time::Instant;

#[derive(Debug)]
pub struct Bucket {
    /// The tokens in the bucket, at `counted`.
    tokens: f64,
    counted: Option<Instant>,
}

const MINUTE: f64 = 60.0;

impl Bucket {
    /// The bucket is full at the beginning.
    pub fn new() -> Bucket {
        Bucket { tokens: 0.0, counted: None }
    }

    /// The time until `count` tokens can be taken one after another; zero if they can be taken now.
    pub fn wait(&mut self, count: usize, per_minute: u32, now: Instant) -> Duration {
        self.fill(per_minute, now);
        let lacking = count as f64 - self.tokens;
        // Sums of fractions are a little off; without this a waiter would wake up just too early, again and again.
        if lacking <= 1e-9 {
            return Duration::ZERO;
        }
        Duration::from_secs_f64(lacking * MINUTE / f64::from(per_minute.max(1)))
    }

    /// Precondition: `wait(1, ..)` is zero.
    pub fn take(&mut self) {
        self.tokens -= 1.0;
    }

    fn fill(&mut self, per_minute: u32, now: Instant) {
        let most = f64::from(per_minute);
        self.tokens = match self.counted {
            None => most,
            Some(counted) => {
                let passed = now.saturating_duration_since(counted).as_secs_f64();
                (self.tokens + passed * most / MINUTE).min(most)
            }
        };
        self.counted = Some(now);
    }
}
