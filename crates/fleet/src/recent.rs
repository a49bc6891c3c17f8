//! The creates of the last hour, counted by minute, for people who look at the server.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

const MINUTE_MS: u64 = 60_000;
const KEPT_MINUTES: u64 = 60;

#[derive(Default)]
pub struct Recent(Mutex<VecDeque<CreatesInMinute>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreatesInMinute {
    /// The minute's beginning.
    pub at_ms: u64,
    pub created: u32,
    pub failed: u32,
}

impl Recent {
    pub fn count(&self, now_ms: u64, succeeded: bool) {
        let at_ms = now_ms - now_ms % MINUTE_MS;
        let mut minutes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A clock that was set back counts for the newest minute.
        if minutes.back().is_none_or(|last| last.at_ms < at_ms) {
            minutes.push_back(CreatesInMinute { at_ms, created: 0, failed: 0 });
        }
        while minutes.front().is_some_and(|first| first.at_ms + KEPT_MINUTES * MINUTE_MS <= at_ms) {
            minutes.pop_front();
        }
        if let Some(minute) = minutes.back_mut() {
            let counter = if succeeded { &mut minute.created } else { &mut minute.failed };
            *counter = counter.saturating_add(1);
        }
    }

    /// The oldest first; minutes without a create are left out.
    pub fn read(&self, now_ms: u64) -> Vec<CreatesInMinute> {
        let minutes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = now_ms.saturating_sub(KEPT_MINUTES * MINUTE_MS);
        minutes.iter().filter(|minute| minute.at_ms > begin).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_of_minutes_is_kept() {
        let recent = Recent::default();
        for minute in 0..100 {
            recent.count(minute * MINUTE_MS + 5, true);
            recent.count(minute * MINUTE_MS + 9, minute % 2 == 0);
        }
        let now = 99 * MINUTE_MS + 30_000;
        let read = recent.read(now);
        assert_eq!(read.len(), 60);
        assert_eq!(read[59], CreatesInMinute { at_ms: 99 * MINUTE_MS, created: 1, failed: 1 });
        assert_eq!(read[58], CreatesInMinute { at_ms: 98 * MINUTE_MS, created: 2, failed: 0 });
        assert_eq!(recent.read(now + 60 * MINUTE_MS), []);
        // The clock is set back.
        recent.count(3, true);
        assert_eq!(recent.read(now)[59].created, 2);
    }
}
