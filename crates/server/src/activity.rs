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
        let state = self.lock();
        match state.requests {
            0 => state.last.elapsed(),
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
        let activity = Activity::new();
        let request = activity.begin();
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!((activity.quiet_for(), activity.requests()), (Duration::ZERO, 1));
        drop(request);
        std::thread::sleep(Duration::from_millis(5));
        assert!(activity.quiet_for() >= Duration::from_millis(5));
        activity.touch();
        assert!(activity.quiet_for() < Duration::from_millis(5));
    }
}
