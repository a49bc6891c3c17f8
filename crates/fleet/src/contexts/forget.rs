//! Calls that were answered long ago: a conversation may have any number of them. The newest are in memory. Older ones
//! are in the store and on disk for a day, up to a bound for each sandbox.

use super::records::Part;
use crate::live::Live;
use crate::{Fleet, Inner};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::Ordering;

/// The calls of a sandbox that are kept in memory.
const IN_MEMORY: usize = 1000;
/// The surplus at which the oldest calls leave memory, all at once.
const SLACK: u32 = 200;
/// The most past calls of a sandbox in the store.
const PAST_CALLS: u32 = 20_000;
/// The calls that are removed at a time.
const AT_ONCE: u32 = 1000;

/// Moves the oldest calls out of memory. To be called when a call has ended.
pub fn forget_old_calls(inner: &Inner, live: &Live) {
    let answered = live.answered_calls.fetch_add(1, Ordering::Relaxed) + 1;
    if answered < IN_MEMORY as u32 + SLACK {
        return;
    }
    let old = old_calls(live);
    for (number, ended_ms) in old {
        match inner.store.put_past_call(&live.id, number, ended_ms) {
            Ok(()) => {
                live.remove_exec(number);
                live.answered_calls.fetch_sub(1, Ordering::Relaxed);
            }
            Err(error) => {
                tracing::warn!(sandbox = %live.id, exec = number, %error, "an old call could not be put aside");
                // The others count until a later attempt.
                break;
            }
        }
    }
    match inner.store.delete_past_calls(&live.id, PAST_CALLS, AT_ONCE) {
        Ok(numbers) => numbers.into_iter().for_each(|number| remove_files(&live.directory, number)),
        Err(error) => tracing::warn!(sandbox = %live.id, %error, "old calls could not be forgotten"),
    }
}

/// Forgets calls of all sandboxes that ended before that time. Blocks for as long as there are files to remove.
pub fn forget_calls_before(fleet: &Fleet, ms: u64) {
    let sandboxes = fleet.0.options.state.join("sandboxes");
    while !fleet.is_closing() {
        let calls = match fleet.0.store.delete_past_calls_before(ms, AT_ONCE) {
            Ok(calls) => calls,
            Err(error) => return tracing::warn!(%error, "old calls could not be forgotten"),
        };
        calls.iter().for_each(|(sandbox, number)| remove_files(&sandboxes.join(sandbox), *number));
        if calls.len() < AT_ONCE as usize {
            return;
        }
    }
}

/// A call without any output has no files.
fn remove_files(sandbox: &Path, number: u32) {
    let _ = std::fs::remove_dir_all(sandbox.join("execs").join(number.to_string()));
}

/// All ended calls, with the time of their end, except the newest ones and the last of each interpreter. A new server
/// reads from that last one how far the interpreter's streams were taken.
fn old_calls(live: &Live) -> Vec<(u32, u64)> {
    let mut runners = BTreeSet::new();
    let mut newest = 0;
    let mut old = Vec::new();
    for tracked in live.execs().iter().rev() {
        let record = tracked.record();
        let Part::Call(call) = &record.part else { continue };
        let is_last = call.turn.as_ref().is_some_and(|turn| runners.insert(turn.runner));
        newest += 1;
        if newest > IN_MEMORY && !is_last && tracked.is_stored() {
            old.push((record.number, record.ended_at_ms.unwrap_or(record.started_at_ms)));
        }
    }
    old
}
