//! Calls that were answered long ago: a conversation may have any number of them, and what is kept has a bound.

use super::records::Part;
use crate::fleet::Inner;
use crate::fleet::live::Live;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

/// So many calls of a sandbox are remembered for certain.
const KEPT: usize = 1000;
/// How many more there may be before the oldest are forgotten, all at once.
const SLACK: u32 = 200;

/// To be called when a call has ended.
pub fn forget_old_calls(inner: &Inner, live: &Live) {
    let answered = live.answered_calls.fetch_add(1, Ordering::Relaxed) + 1;
    if answered < KEPT as u32 + SLACK {
        return;
    }
    let old = old_calls(live);
    live.answered_calls.fetch_sub(old.len() as u32, Ordering::Relaxed);
    for number in old {
        live.remove_job(number);
        if let Err(error) = inner.store.delete_exec(&live.id, number) {
            tracing::warn!(sandbox = %live.id, exec = number, %error, "an old call could not be forgotten");
        }
        // One that said and printed nothing has no files.
        let _ = std::fs::remove_dir_all(live.directory.join("execs").join(number.to_string()));
    }
}

/// All that have ended but the newest, and but the last of each interpreter, from which a new server tells how far its
/// streams were taken.
fn old_calls(live: &Live) -> Vec<u32> {
    let mut runners = BTreeSet::new();
    let mut newest = 0;
    let mut old = Vec::new();
    for job in live.jobs().iter().rev() {
        let record = job.record();
        let Part::Call(call) = &record.part else { continue };
        let is_last = call.turn.as_ref().is_some_and(|turn| runners.insert(turn.runner));
        newest += 1;
        if newest > KEPT && !is_last && record.cause.is_some() {
            old.push(record.number);
        }
    }
    old
}
