//! A server that is started before the one before it has gone waits for it.

use crate::caller::Caller;
use paddock_fleet::FleetError;
use paddock_records::store::{ServerHolder, ServerLock, ServerPhase, StoreError};
use std::path::Path;
use std::time::{Duration, Instant};

/// A server that was told to end finishes the requests under way first, and a server that starts may fail.
const LONGEST: Duration = Duration::from_secs(30);
/// A server that serves was perhaps told to end a moment ago, and has not noted it yet.
const SERVING: Duration = Duration::from_secs(3);
/// Most waits are shorter, and not worth a word.
const SILENT: Duration = Duration::from_millis(500);
const STEP: Duration = Duration::from_millis(50);

pub async fn take_lock(state_dir: &Path, caller: &mut Caller<'_>) -> Result<ServerLock, FleetError> {
    let began = Instant::now();
    let mut said = false;
    loop {
        let refused = match ServerLock::take(state_dir) {
            Err(error @ StoreError::Locked { .. }) => error,
            taken => return Ok(taken?),
        };
        let holder = ServerHolder::of(state_dir).unwrap_or_default();
        if began.elapsed() >= patience(holder.phase) {
            return Err(refused.into());
        }
        if !said && began.elapsed() >= SILENT {
            said = true;
            let process = holder.process.map(|process| format!(" (process {process})")).unwrap_or_default();
            let _ = writeln!(
                caller.stderr,
                "paddock: another server{process} has this state directory; waiting up to {} s for its end",
                patience(holder.phase).as_secs()
            );
        }
        tokio::time::sleep(STEP).await;
    }
}

fn patience(phase: Option<ServerPhase>) -> Duration {
    match phase {
        Some(ServerPhase::Serving) => SERVING,
        _ => LONGEST,
    }
}
