//! The time since the last request, which `--idle-exit` looks at.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

#[derive(Clone)]
pub struct Activity(Arc<Mutex<State>>);

struct State {
    requests: usize,
    last: Instant,
}

/// One request, until the last byte of its answer is out.
pub struct Active(Activity);

impl Activity {
    pub fn new() -> Activity {
        Activity(Arc::new(Mutex::new(State { requests: 0, last: Instant::now() })))
    }

    pub fn begin(&self) -> Active {
        self.change(|state| state.requests += 1);
        Active(self.clone())
    }

    /// Something else than a request keeps the server needed: a sandbox that lives.
    pub fn touch(&self) {
        self.change(|_| {});
    }

    /// How long there has been no request at all.
    pub fn quiet_for(&self) -> Duration {
        self.quiet_at(Instant::now())
    }

    fn quiet_at(&self, now: Instant) -> Duration {
        let state = self.lock();
        match state.requests {
            0 => now.saturating_duration_since(state.last),
            _ => Duration::ZERO,
        }
    }

    pub fn requests(&self) -> usize {
        self.lock().requests
    }

    fn change(&self, with: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        with(&mut state);
        state.last = Instant::now();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.0.change(|state| state.requests -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_quiet_only_without_requests() {
        const SECOND: Duration = Duration::from_secs(1);
        let activity = Activity::new();
        let request = activity.begin();
        assert_eq!((activity.quiet_at(Instant::now() + SECOND), activity.requests()), (Duration::ZERO, 1));
        drop(request);
        let ended = activity.lock().last;
        assert_eq!(activity.quiet_at(ended + 2 * SECOND), 2 * SECOND);
        activity.touch();
        let touched = activity.lock().last;
        assert!(touched >= ended);
        assert_eq!(activity.quiet_at(touched + SECOND), SECOND);
        assert_eq!(activity.quiet_at(ended), Duration::ZERO, "it is not quiet before the touch");
    }
}
