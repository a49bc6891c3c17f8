//! Waiting for something to become true, without guessing how long it takes.

use anyhow::{Result, bail};
use std::time::{Duration, Instant};

/// Only a hang takes longer, even behind an emulated processor on a busy host.
pub const PATIENCE: Duration = Duration::from_secs(90);

const STEP: Duration = Duration::from_millis(5);

/// Asks again and again until there is an answer.
pub fn until<T>(limit: Duration, what: &str, mut ask: impl FnMut() -> Option<T>) -> Result<T> {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return Ok(answer);
        }
        if start.elapsed() > limit {
            bail!("not within {limit:?}: {what}");
        }
        std::thread::sleep(STEP);
    }
}
