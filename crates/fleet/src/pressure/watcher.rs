//! One task that looks at the remaining memory. Below the mark it first takes down the ready sandboxes of pools, then
//! hibernates idle sandboxes until enough is free again.

use super::choice::{AT_ONCE, Consent, Contents, Seen, enough, in_order};
use super::gauge::Memory;
use crate::Fleet;
use crate::lifecycle::Sleep;
use crate::live::Live;
use paddock_model::api::SandboxState;
use paddock_model::{Access, format_bytes};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The time between two looks with enough memory, and with not much more than the mark.
const CALM: Duration = Duration::from_secs(1);
const NEAR: Duration = Duration::from_millis(200);
/// The time while nothing can be shed: looking at all sandboxes costs something too.
const NOTHING_TO_SHED: Duration = Duration::from_millis(500);
/// The time after something was shed; the kernel takes a moment to count the freed memory.
const AFTER_SHEDDING: Duration = Duration::from_millis(50);
/// The use of the processor is measured for this time. A sandbox that used no more than `QUIET_MS` is idle.
const PROCESSOR_LOOK: Duration = Duration::from_millis(100);
const QUIET_MS: f64 = 1.0;
/// A sandbox that could not be hibernated is not tried again within this time.
const AFTER_FAILURE: Duration = Duration::from_secs(60);
/// The sandboxes about which the kernel is asked at one time.
const ASKED_AT_ONCE: usize = 32;

pub fn start(fleet: &Fleet) {
    if fleet.0.options.keep_free == Some(0) {
        return;
    }
    let weak = Arc::downgrade(&fleet.0);
    tokio::spawn(async move {
        let mut watcher = Watcher::default();
        loop {
            let pause = {
                let Some(inner) = weak.upgrade() else { return };
                if inner.closing.load(Ordering::Relaxed) {
                    return;
                }
                watcher.look(&Fleet(inner)).await
            };
            tokio::time::sleep(pause).await;
        }
    });
}

#[derive(Default)]
struct Watcher {
    /// Sandboxes that could not be hibernated, and when; each is kept for a minute.
    failed: HashMap<String, Instant>,
}

impl Watcher {
    /// Returns the time until the next look.
    async fn look(&mut self, fleet: &Fleet) -> Duration {
        // With thousands of cgroups the kernel takes its time to add them up.
        let Ok(Some(memory)) = tokio::task::spawn_blocking(Memory::now).await else { return CALM };
        let (available, mark) = (memory.available, memory.mark(fleet.0.options.keep_free));
        let pressure = &fleet.0.pressure;
        pressure.note(available, mark);
        // Somewhat more than the mark: else the next request would be the next shortage.
        let enough = mark.saturating_add(mark / 4);
        if available >= enough || (available >= mark && !pressure.holds()) {
            if pressure.end() {
                tracing::info!(available = format_bytes(available), "there is enough memory again");
                fleet.fill_pools_again();
            }
            return if available < mark.saturating_mul(2) { NEAR } else { CALM };
        }
        if pressure.begin() {
            let (available, mark) = (format_bytes(available), format_bytes(mark));
            tracing::warn!(available, mark, "less memory is left than is to be kept free; load is shed");
        }
        if fleet.give_back_ready().await > 0 {
            return AFTER_SHEDDING;
        }
        let shed = self.hibernate_some(fleet, enough - available).await;
        pressure.is_short.store(shed == 0 && available < mark, Ordering::Relaxed);
        // The count comes last: a reader that sees it also sees that there may be room again.
        pressure.hibernated.fetch_add(shed as u64, Ordering::Release);
        if shed > 0 { AFTER_SHEDDING } else { NOTHING_TO_SHED }
    }

    /// Returns the number of sandboxes that sleep now.
    async fn hibernate_some(&mut self, fleet: &Fleet, missing: u64) -> usize {
        self.failed.retain(|_, at| at.elapsed() < AFTER_FAILURE);
        let is_tried = |live: &Arc<Live>| !self.failed.contains_key(&live.id);
        let all = fleet.0.all().into_iter().filter(is_tried);
        let may_sleep = in_order(all.filter_map(|live| seen(fleet, live)));
        let mut shed = 0;
        for asked in Chunks(may_sleep.into_iter()) {
            let idle = ask_kernel(asked).await;
            let chosen = enough(idle, missing);
            if chosen.is_empty() {
                continue;
            }
            let sleeping: Vec<_> = chosen.into_iter().map(|live| hibernate(fleet.clone(), live)).collect();
            for sleeping in sleeping {
                match sleeping.await {
                    Ok(Outcome::Sleeps) => shed += 1,
                    Ok(Outcome::Used) | Err(_) => {}
                    Ok(Outcome::Failed(id)) => drop(self.failed.insert(id, Instant::now())),
                }
            }
            if shed > 0 {
                break;
            }
        }
        shed
    }
}

/// An iterator of pieces of `ASKED_AT_ONCE`.
struct Chunks<I>(I);

impl<T, I: Iterator<Item = T>> Iterator for Chunks<I> {
    type Item = Vec<T>;

    fn next(&mut self) -> Option<Vec<T>> {
        let chunk: Vec<T> = self.0.by_ref().take(ASKED_AT_ONCE).collect();
        (!chunk.is_empty()).then_some(chunk)
    }
}

enum Outcome {
    Sleeps,
    /// The sandbox was used in the last moment.
    Used,
    Failed(String),
}

fn hibernate(fleet: Fleet, live: Arc<Live>) -> tokio::task::JoinHandle<Outcome> {
    tokio::spawn(async move {
        match fleet.hibernate_live(&live, Sleep::MemoryPressure, None).await {
            Ok(()) if live.record().state == SandboxState::Hibernated => {
                tracing::info!(sandbox = %live.id, "hibernated, because memory is short");
                Outcome::Sleeps
            }
            Ok(()) => Outcome::Used,
            Err(error) => {
                tracing::warn!(sandbox = %live.id, %error, "could not be hibernated, though memory is short");
                Outcome::Failed(live.id.clone())
            }
        }
    })
}

/// `None` for a sandbox without processes, one that its owner paused, or one that no caller sees.
fn seen(fleet: &Fleet, live: Arc<Live>) -> Option<Seen<Arc<Live>>> {
    let (word, is_persistent, keeps_memory, has_tmpfs) = {
        let record = live.record();
        let runs = match record.state {
            SandboxState::Running => true,
            SandboxState::Paused => record.paused_when_idle,
            _ => false,
        };
        if !runs || record.stands_for.is_some() {
            return None;
        }
        let has_tmpfs = record.spec.mounts.iter().any(|mount| mount.access == Access::Tmpfs);
        (record.under_pressure, record.persistent, record.keeps_memory(), has_tmpfs)
    };
    let would_lose = has_tmpfs || live.execs().iter().any(|tracked| tracked.runs());
    let consent = Consent::of(word, &Contents { is_persistent, keeps_memory, would_lose });
    Some(Seen {
        quiet: live.quiet_for(),
        is_busy: live.is_used_now() || live.is_silent() || live.transition.try_lock().is_err(),
        is_held: !keeps_memory && fleet.0.shelters(&live),
        since_woken: live.since_woken(),
        consent,
        sandbox: live,
    })
}

/// The sandboxes that use no processor and may sleep with their processes, and the bytes that each holds. In the same
/// order.
async fn ask_kernel(asked: Vec<Seen<Arc<Live>>>) -> Vec<(Arc<Live>, u64)> {
    let first = tokio::task::spawn_blocking(move || {
        let usage = |seen: Seen<Arc<Live>>| {
            let used = seen.sandbox.running()?.usage();
            let may = seen.consent == Consent::Given || used.processes == Some(0);
            may.then(|| (seen.sandbox, used.memory.unwrap_or(0), used.cpu_ms))
        };
        // More than can be hibernated at one time are useful, because some of them may turn out to be at work.
        asked.into_iter().filter_map(usage).take(AT_ONCE * 2).collect::<Vec<_>>()
    });
    let Ok(first) = first.await else { return Vec::new() };
    if first.is_empty() {
        return Vec::new();
    }
    tokio::time::sleep(PROCESSOR_LOOK).await;
    let second = tokio::task::spawn_blocking(move || {
        let is_idle = |(live, memory, before): (Arc<Live>, u64, Option<f64>)| {
            let now = live.running()?.usage().cpu_ms;
            let used = now.unwrap_or(0.0) - before.unwrap_or(0.0);
            (used <= QUIET_MS).then_some((live, memory))
        };
        first.into_iter().filter_map(is_idle).collect()
    });
    second.await.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_hold_everything_once() {
        let chunks: Vec<Vec<usize>> = Chunks(0..ASKED_AT_ONCE * 2 + 1).collect();
        assert_eq!(chunks.iter().map(Vec::len).collect::<Vec<_>>(), [ASKED_AT_ONCE, ASKED_AT_ONCE, 1]);
        assert!(chunks.into_iter().flatten().eq(0..ASKED_AT_ONCE * 2 + 1));
    }
}
