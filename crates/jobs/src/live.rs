//! A job that has not ended: the states of its tasks, and the followers that are told of changes.

use crate::record::JobRecord;
use paddock_fleet::{Actor, LentPool};
use paddock_model::api::{Job, JobAttempt, JobCost, JobCounts, JobSpec, JobState};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub struct LiveJob {
    pub id: String,
    /// With the values of its secrets.
    pub spec: JobSpec,
    pub actor: Actor,
    /// Ends all of its attempts.
    pub stop: CancellationToken,
    progress: Mutex<Progress>,
    changed: watch::Sender<u64>,
}

pub struct Progress {
    pub record: JobRecord,
    pub tasks: Vec<Mark>,
    pub counts: JobCounts,
    /// Attempts under way.
    pub running: HashMap<u32, JobAttempt>,
    /// Its end is being stored.
    pub closed: bool,
    /// Its end is stored.
    pub ended: bool,
    /// The first task that failed, and why.
    pub failure: Option<(u32, String)>,
    /// Ready sandboxes, if there is much to do.
    pub pool: Option<LentPool>,
}

#[derive(Debug, Clone)]
pub struct Mark {
    pub state: JobState,
    /// Attempts that have ended.
    pub attempts: u32,
    /// Times that an attempt could not begin, one after the other.
    pub refusals: u32,
    /// Why it waits.
    pub note: Option<String>,
}

impl LiveJob {
    pub fn new(id: String, spec: JobSpec, record: JobRecord) -> LiveJob {
        let total = spec.count();
        let mark = Mark { state: JobState::Queued, attempts: 0, refusals: 0, note: None };
        let progress = Progress {
            tasks: vec![mark; total as usize],
            counts: JobCounts { total, queued: total, ..JobCounts::default() },
            running: HashMap::new(),
            closed: false,
            ended: false,
            failure: None,
            pool: None,
            record,
        };
        LiveJob {
            actor: progress.record.owner.actor(),
            id,
            spec,
            stop: CancellationToken::new(),
            progress: Mutex::new(progress),
            changed: watch::channel(0).0,
        }
    }

    pub fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the followers, which look again.
    pub fn tell(&self) {
        self.changed.send_modify(|changes| *changes += 1);
    }

    pub fn follow(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub fn to_api(&self) -> Job {
        let progress = self.progress();
        progress.record.to_api(&self.id, &self.spec, progress.counts)
    }
}

impl Progress {
    pub fn set(&mut self, task: u32, state: JobState) {
        let Some(mark) = self.tasks.get_mut(task as usize) else { return };
        let before = std::mem::replace(&mut mark.state, state);
        *count(&mut self.counts, before) -= 1;
        *count(&mut self.counts, state) += 1;
    }

    /// Nothing waits and nothing runs.
    pub fn is_over(&self) -> bool {
        self.counts.queued == 0 && self.counts.running == 0
    }

    pub fn add_cost(&mut self, attempt: &JobAttempt) {
        add_cost(&mut self.record.cost, attempt);
    }
}

pub fn add_cost(cost: &mut JobCost, attempt: &JobAttempt) {
    cost.attempts += 1;
    let ended = attempt.ended_at_ms.unwrap_or(attempt.started_at_ms);
    cost.wall_ms += ended.saturating_sub(attempt.started_at_ms);
    if let Some(cpu) = attempt.cpu_ms {
        *cost.cpu_ms.get_or_insert(0.0) += cpu;
    }
    cost.peak_memory_bytes = cost.peak_memory_bytes.max(attempt.peak_memory_bytes);
}

fn count(counts: &mut JobCounts, state: JobState) -> &mut u32 {
    match state {
        JobState::Queued => &mut counts.queued,
        JobState::Running => &mut counts.running,
        JobState::Succeeded => &mut counts.succeeded,
        JobState::Failed => &mut counts.failed,
        JobState::Cancelled => &mut counts.cancelled,
    }
}
