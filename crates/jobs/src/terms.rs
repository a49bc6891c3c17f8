//! The times of a job: how long an attempt may take, how long a record is kept, when the next attempt begins.

use paddock_model::api::{JobRetries, JobSpec};
use std::time::Duration;

pub const DAY: f64 = 86_400.0;
pub const LONGEST_TIMEOUT: f64 = 7.0 * DAY;
pub const LONGEST_KEEP: f64 = 30.0 * DAY;
const DEFAULT_TIMEOUT: f64 = 3600.0;
const DEFAULT_KEEP: f64 = DAY;

pub fn timeout(spec: &JobSpec) -> Duration {
    Duration::from_secs_f64(spec.timeout_seconds.unwrap_or(DEFAULT_TIMEOUT).clamp(0.001, LONGEST_TIMEOUT))
}

pub fn keep_ms(spec: &JobSpec) -> u64 {
    (spec.keep_seconds.unwrap_or(DEFAULT_KEEP).clamp(0.0, LONGEST_KEEP) * 1000.0) as u64
}

/// Before the attempt that follows so many.
pub fn backoff(retries: &JobRetries, ended: u32) -> Duration {
    let doubled = retries.backoff_seconds * 2f64.powi(ended.saturating_sub(1).min(30) as i32);
    Duration::from_secs_f64(doubled.min(retries.longest_backoff_seconds).clamp(0.0, DAY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wait_is_twice_as_long_up_to_the_longest() {
        let retries =
            JobRetries { backoff_seconds: 1.5, longest_backoff_seconds: 5.0, ..JobRetries::default() };
        let waits: Vec<f64> = (1..5).map(|ended| backoff(&retries, ended).as_secs_f64()).collect();
        assert_eq!(waits, [1.5, 3.0, 5.0, 5.0]);
        assert_eq!(backoff(&JobRetries { backoff_seconds: 0.0, ..retries }, 99).as_secs_f64(), 0.0);
    }
}
