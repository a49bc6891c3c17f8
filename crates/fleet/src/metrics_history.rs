//! The use of the host by sandboxes over the last minutes: a bounded ring of samples for each that is at work.
//!
//! One task looks every [`EVERY`]. It reads the counts of sandboxes that were used within [`BUSY_UNTIL_QUIET_FOR`], and of at most [`MOST_AT_ONCE`]
//! in one round: where more are at work, each is looked at less often. So 20,000 idle sandboxes cost a look at their clocks,
//! 20,000 busy ones the same as 1,000 do (six files of cgroups each, about 50 ms of one processor every five seconds), and
//! the rings of 20,000 that were busy for twenty minutes take 96 MB. No request reads the counts of more than its own sandbox. A new server begins
//! without samples.

use super::live::Live;
use super::record::now_ms;
use super::request::invalid;
use super::{Actor, Fleet, FleetError};
use paddock_model::api::{SandboxMetrics, SandboxSample, SandboxState};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const EVERY: Duration = Duration::from_secs(5);
/// A sandbox that nobody used for so long has no new samples.
const BUSY_UNTIL_QUIET_FOR: Duration = Duration::from_secs(30);
const MOST_AT_ONCE: usize = 1000;
/// Samples of one sandbox: twenty minutes at work.
const MOST_SAMPLES: usize = 240;
/// A sample that is younger is new enough for a caller that asks.
const FRESH_MS: u64 = 1000;
/// Between two looks at the processor time, where there was none before.
const APART: Duration = Duration::from_millis(100);
const KIB: u64 = 1024;

/// The samples of one sandbox, the oldest first.
#[derive(Default)]
pub struct History(Mutex<Ring>);

#[derive(Default)]
struct Ring {
    samples: VecDeque<Sample>,
    /// The time and the processor time of the last look.
    last: Option<(u64, f64)>,
}

/// Small, for there are many.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Sample {
    at_ms: u64,
    /// Of one processor: two that are busy are 200.
    cpu_percent: f32,
    memory_kib: u32,
    cache_kib: u32,
    disk_kib: u32,
}

/// Bytes that are held at one moment.
#[derive(Debug, Clone, Copy, Default)]
struct Held {
    memory: u64,
    /// A part of the memory.
    cache: u64,
    disk: u64,
}

impl History {
    /// The first look has nothing to compare with, and gives no sample.
    fn add(&self, at_ms: u64, cpu_ms: f64, held: Held) {
        let mut ring = self.ring();
        let before = ring.last.replace((at_ms, cpu_ms));
        let Some((then_ms, then_cpu)) = before.filter(|(then_ms, _)| *then_ms < at_ms) else { return };
        let percent = (cpu_ms - then_cpu).max(0.0) / (at_ms - then_ms) as f64 * 100.0;
        if ring.samples.len() == MOST_SAMPLES {
            ring.samples.pop_front();
        }
        let kib = |bytes: u64| u32::try_from(bytes / KIB).unwrap_or(u32::MAX);
        ring.samples.push_back(Sample {
            at_ms,
            cpu_percent: percent as f32,
            memory_kib: kib(held.memory),
            cache_kib: kib(held.cache.min(held.memory)),
            disk_kib: kib(held.disk),
        });
    }

    fn newest_ms(&self) -> Option<u64> {
        self.ring().samples.back().map(|sample| sample.at_ms)
    }

    fn between(&self, from_ms: u64, to_ms: u64) -> Vec<SandboxSample> {
        let ring = self.ring();
        let within = ring.samples.iter().filter(|sample| (from_ms..=to_ms).contains(&sample.at_ms));
        within
            .map(|sample| SandboxSample {
                at_ms: sample.at_ms,
                cpu_percent: (f64::from(sample.cpu_percent) * 100.0).round() / 100.0,
                memory_bytes: u64::from(sample.memory_kib) * KIB,
                cache_bytes: u64::from(sample.cache_kib) * KIB,
                disk_bytes: u64::from(sample.disk_kib) * KIB,
            })
            .collect()
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub fn start(fleet: &Fleet) {
    let weak = Arc::downgrade(&fleet.0);
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut next = 0;
        loop {
            ticks.tick().await;
            let Some(inner) = weak.upgrade() else { return };
            if inner.closing.load(Ordering::Relaxed) {
                return;
            }
            let fleet = Fleet(inner);
            let looked = tokio::task::spawn_blocking(move || look(&fleet, next));
            next = looked.await.unwrap_or(0);
        }
    });
}

/// Looks at those at work, from the place where the last round stopped; returns where the next begins.
fn look(fleet: &Fleet, from: usize) -> usize {
    let mut busy = fleet.0.all();
    busy.retain(|live| live.is_used_now() || live.quiet_for() < BUSY_UNTIL_QUIET_FOR);
    let from = if from < busy.len() { from } else { 0 };
    let round = busy.iter().skip(from).take(MOST_AT_ONCE);
    round.for_each(|live| fleet.sample(live));
    from + MOST_AT_ONCE
}

impl Fleet {
    /// The samples of these minutes, the oldest first; without bounds all that are kept. The newest is of now.
    pub async fn usage_history(
        &self,
        actor: &Actor,
        id: &str,
        from_ms: Option<u64>,
        to_ms: Option<u64>,
    ) -> Result<SandboxMetrics, FleetError> {
        let live = self.find(actor, id)?;
        let (from, to) = (from_ms.unwrap_or(0), to_ms.unwrap_or(u64::MAX));
        if from > to {
            return Err(invalid(format!("start {from} is after end {to}")));
        }
        let now = now_ms();
        if to >= now && live.history.newest_ms().is_none_or(|newest| newest + FRESH_MS < now) {
            self.sample_now(&live).await?;
        }
        Ok(SandboxMetrics { every_seconds: EVERY.as_secs(), samples: live.history.between(from, to) })
    }

    async fn sample_now(&self, live: &Arc<Live>) -> Result<(), FleetError> {
        for _ in 0..2 {
            let before = live.history.newest_ms();
            let (fleet, of) = (self.clone(), live.clone());
            let sampled = tokio::task::spawn_blocking(move || fleet.sample(&of)).await;
            sampled.map_err(|error| FleetError::internal(&error))?;
            if live.history.newest_ms() != before {
                return Ok(());
            }
            tokio::time::sleep(APART).await;
        }
        Ok(())
    }

    /// Nothing for one that does not run: it uses no processor, and its memory is not counted.
    fn sample(&self, live: &Live) {
        if live.record().state != SandboxState::Running {
            return;
        }
        let Some(inside) = live.running() else { return };
        let used = inside.usage();
        let Some(cpu_ms) = used.cpu_ms else { return };
        let held = Held {
            memory: used.memory.unwrap_or(0),
            cache: inside.page_cache().unwrap_or(0),
            disk: self.0.storage.usage(&live.id).unwrap_or(0),
        };
        live.history.add(now_ms(), cpu_ms, held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_bounded_and_found_by_their_time() {
        let history = History::default();
        history.add(1000, 10.0, Held::default());
        assert_eq!(history.newest_ms(), None, "one look tells no use of the processor");
        let held = Held { memory: 4096, cache: 1024, disk: 8192 };
        history.add(2000, 510.0, held);
        history.add(2000, 600.0, held);
        let found = history.between(0, u64::MAX);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].cpu_percent, found[0].memory_bytes, found[0].disk_bytes), (50.0, 4096, 8192));
        assert_eq!(found[0].cache_bytes, 1024);
        for number in 0..2 * MOST_SAMPLES as u64 {
            history.add(3000 + number, 600.0, Held::default());
        }
        assert_eq!(history.between(0, u64::MAX).len(), MOST_SAMPLES);
        assert_eq!(history.between(3000 + MOST_SAMPLES as u64, 3004 + MOST_SAMPLES as u64).len(), 5);
        assert!(history.between(0, 2000).is_empty(), "the oldest leave first");
    }
}
