//! The sandboxes of a session, and the task that prolongs their lives while the session is there.

use paddock_tools::{Facts, Host};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How long a sandbox outlives a session that was killed.
pub const LEASE: Duration = Duration::from_secs(180);
const RENEWAL: Duration = Duration::from_secs(45);

#[derive(Debug, Default)]
pub struct State {
    /// The one that calls use which name none.
    pub own: Option<String>,
    pub facts: Option<Facts>,
    pub owned: BTreeSet<String>,
    pub snapshots: BTreeSet<String>,
    pub born: Option<Instant>,
    /// The session has ended; a late sandbox ends at once.
    pub over: bool,
    pub last_call: Option<Instant>,
    /// Something happened to the sandbox that the model has to hear.
    pub news: Option<&'static str>,
}

pub async fn end_all<H: Host>(host: &H, state: &Mutex<State>) {
    let (owned, snapshots) = {
        let mut state = locked(state);
        state.own = None;
        state.over = true;
        (std::mem::take(&mut state.owned), std::mem::take(&mut state.snapshots))
    };
    // Snapshots first, which have no time to live: the process that ends us may not wait for long.
    for id in snapshots {
        let _ = host.delete_snapshot(&id).await;
    }
    for id in owned {
        if let Err(error) = host.kill(&id).await {
            tracing::debug!(
                code = error.code,
                "a sandbox of a session was not ended; its time to live does it"
            );
        }
    }
}

pub fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Prolongs the lives of a session's sandboxes while it is there.
pub struct Renewal<H: Host> {
    pub host: H,
    pub state: Arc<Mutex<State>>,
    pub calls: Arc<AtomicUsize>,
    pub over: Arc<Notify>,
    pub longest_life: Option<Duration>,
    pub idle: Option<Duration>,
    pub born: Instant,
}

impl<H: Host> Renewal<H> {
    pub async fn run(self) {
        loop {
            tokio::select! {
                () = self.over.notified() => return,
                () = tokio::time::sleep(RENEWAL) => {}
            }
            if self.is_idle() {
                let owned = {
                    let mut state = locked(&self.state);
                    state.own = None;
                    state.news =
                        Some("[nothing was asked for long, and the sandbox was ended: this is a new one]");
                    std::mem::take(&mut state.owned)
                };
                for id in owned {
                    let _ = self.host.kill(&id).await;
                }
            }
            let left = self.longest_life.map_or(LEASE, |longest| longest.saturating_sub(self.born.elapsed()));
            let owned: Vec<String> = locked(&self.state).owned.iter().cloned().collect();
            for id in owned.iter().filter(|_| !left.is_zero()) {
                let _ = self.host.extend(id, left.min(LEASE).as_secs_f64()).await;
            }
        }
    }

    fn is_idle(&self) -> bool {
        let last = locked(&self.state).last_call;
        let quiet = self.calls.load(Ordering::Relaxed) == 0 && !locked(&self.state).owned.is_empty();
        self.idle.is_some_and(|idle| quiet && last.is_some_and(|last| last.elapsed() >= idle))
    }
}
