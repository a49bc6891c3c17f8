//! Which requests are repeated, when, and how often.

use crate::client::{Client, Request};
use crate::error::ModelError;
use crate::event::Event;
use crate::reply::Whole;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::Duration;

#[derive(Debug, Clone)]
pub struct Patience {
    /// The number of attempts, with the first.
    pub attempts: u32,
    /// The wait before the second attempt; doubled for each that follows.
    pub first: Duration,
    /// A provider that asks for a longer wait than this is not waited for.
    pub longest: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience { attempts: 5, first: Duration::from_secs(1), longest: Duration::from_secs(60) }
    }
}

impl Patience {
    /// The wait before the attempt after `attempt`. Half of it is chance, so that clients that failed together do not
    /// come back together.
    fn wait(&self, attempt: u32, error: &ModelError, chance: f64) -> Option<Duration> {
        if attempt >= self.attempts || !error.is_passing() {
            return None;
        }
        if let Some(asked) = error.retry_after() {
            return (asked <= self.longest).then_some(asked);
        }
        let whole = self.first.saturating_mul(1 << (attempt - 1).min(16)).min(self.longest);
        Some(whole.mul_f64(0.5 + chance / 2.0))
    }
}

/// `tell` hears the text as it comes, and of each failure.
pub async fn ask(
    client: &Client,
    request: &Request<'_>,
    patience: &Patience,
    tell: &mut dyn FnMut(Event),
) -> Result<Whole, ModelError> {
    let mut attempt = 1;
    loop {
        let mut heard = |piece: &str| tell(Event::Text { text: piece.to_string() });
        let error = match client.ask(request, &mut heard).await {
            Ok(whole) => return Ok(whole),
            Err(error) => error,
        };
        let Some(wait) = patience.wait(attempt, &error, chance()) else {
            return Err(match attempt {
                1 => error,
                attempts => ModelError::GaveUp { attempts, source: Box::new(error) },
            });
        };
        let wait_ms = wait.as_millis() as u64;
        tell(Event::Retry { attempt, error: error.to_string(), wait_ms });
        tokio::time::sleep(wait).await;
        attempt += 1;
    }
}

/// From 0 to 1; the standard library's seed of hash tables is the system's randomness.
fn chance() -> f64 {
    (RandomState::new().hash_one(0) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16, retry_after: Option<u64>) -> ModelError {
        let retry_after = retry_after.map(Duration::from_secs);
        ModelError::Status { host: "h".into(), status, message: String::new(), retry_after }
    }

    #[test]
    fn waits_grow_and_end() {
        let patience = Patience::default();
        assert_eq!(patience.wait(1, &ModelError::Cut, 0.0), Some(Duration::from_millis(500)));
        assert_eq!(patience.wait(3, &ModelError::Cut, 1.0), Some(Duration::from_secs(4)));
        assert_eq!(patience.wait(5, &ModelError::Cut, 1.0), None);
        let endless = Patience { attempts: u32::MAX, ..patience };
        assert_eq!(endless.wait(1_000, &ModelError::Cut, 1.0), Some(Duration::from_secs(60)));
    }

    #[test]
    fn what_the_provider_asks_for_is_waited_and_no_more_than_is_bearable() {
        let patience = Patience::default();
        assert_eq!(patience.wait(1, &status(429, Some(7)), 0.0), Some(Duration::from_secs(7)));
        assert_eq!(patience.wait(1, &status(429, Some(3600)), 0.0), None);
    }

    #[test]
    fn what_will_not_change_is_not_asked_again() {
        let again = |code| Patience::default().wait(1, &status(code, None), 0.0).is_some();
        assert!([408, 429, 500, 502, 503, 529].into_iter().all(again));
        assert!(![400, 401, 403, 404, 413, 422].into_iter().any(again));
        assert!((0.0..=1.0).contains(&chance()));
    }
}
