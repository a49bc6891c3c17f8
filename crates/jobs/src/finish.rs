//! The end of an attempt, of a task, and of a job: stored first, then acted upon.

use crate::attempt::Finished;
use crate::best_of::{beats, decides};
use crate::ending::{is_retried, state_after};
use crate::inner::Inner;
use crate::live::LiveJob;
use crate::outputs::task_directory;
use crate::record::{TaskRecord, now_ms};
use crate::terms::{backoff, keep_ms};
use paddock_model::api::{JobOnFailure, JobState};
use paddock_records::store::JobChange;
use std::sync::Arc;
use std::time::Duration;

/// While the store takes nothing.
const AGAIN: Duration = Duration::from_secs(1);

pub async fn task(inner: &Arc<Inner>, job: &Arc<LiveJob>, index: u32, mut finished: Finished) {
    let ended = finished.attempt.attempt;
    let end = finished.ending.end;
    let again = is_retried(end, &job.spec.retries, ended) && !job.stop.is_cancelled();
    let state = if again { JobState::Queued } else { state_after(end) };
    // A volume is written by the end of its sandbox, and the result belongs to the attempt.
    if finished.writes {
        end_sandbox(inner, job, &mut finished).await;
    }
    let mut record = previous(inner, job, index, ended).await;
    let replaced = std::mem::take(&mut record.artifacts);
    let last = record.attempts.last().map(|attempt| attempt.attempt);
    let not_before_ms = again.then(|| now_ms() + backoff(&job.spec.retries, ended).as_millis() as u64);
    finished.attempt.end = Some(end);
    finished.attempt.detail = finished.ending.detail.clone();
    finished.attempt.exit_code = finished.ending.exit_code;
    record.attempts.push(finished.attempt.clone());
    let record = TaskRecord {
        state,
        reason: finished.ending.detail.clone(),
        exit_code: finished.ending.exit_code,
        result: finished.result.take(),
        score: finished.score,
        stdout: std::mem::take(&mut finished.stdout),
        stderr: std::mem::take(&mut finished.stderr),
        not_before_ms,
        attempts: record.attempts,
        artifacts: std::mem::take(&mut finished.artifacts),
    };
    store(inner, job, index, &record, &finished).await;
    if let Some(last) = last.filter(|_| !replaced.is_empty()) {
        let _ = std::fs::remove_dir_all(task_directory(&inner.fleet, &job.id, index, last));
        inner.room.give_back(&job.actor.tenant, replaced.iter().map(|artifact| artifact.bytes).sum());
    }
    {
        let mut progress = job.progress();
        progress.running.remove(&index);
        progress.set(index, state);
        progress.add_cost(&finished.attempt);
        if state == JobState::Failed && progress.failure.is_none() {
            progress.failure = Some((index, record.reason.clone().unwrap_or_default()));
        }
        if let Some(mark) = progress.tasks.get_mut(index as usize) {
            (mark.attempts, mark.refusals, mark.note) = (ended, 0, record.reason.clone());
        }
    }
    end_sandbox(inner, job, &mut finished).await;
    if let Some(at) = not_before_ms {
        inner.queue().put_later(&job.id, index, at);
    }
    if let Some(why) = ends_all(job, state, finished.score) {
        stop_rest(inner, job, why);
    } else if job.stop.is_cancelled() {
        // The caller that stopped it may have looked at the queue before this task was back in it.
        stop_rest(inner, job, "it was stopped");
    }
    job.tell();
    close_if_over(inner, job);
}

/// The record of earlier attempts.
async fn previous(inner: &Inner, job: &LiveJob, index: u32, ended: u32) -> TaskRecord {
    let new = TaskRecord::new(JobState::Queued);
    if ended <= 1 {
        return new;
    }
    let row = inner.fleet.records().job_task(&job.id, index).ok().flatten();
    row.and_then(|row| TaskRecord::parse(&row).ok()).unwrap_or(new)
}

/// Returns when it is stored; a disk that is full for a while loses nothing.
async fn store(inner: &Inner, job: &LiveJob, index: u32, record: &TaskRecord, finished: &Finished) {
    loop {
        let changes = {
            let mut progress = job.progress();
            let task = record.change(&job.id, index);
            let best =
                finished.best.as_ref().filter(|best| beats(progress.record.best.as_ref(), index, best.score));
            let decided = best.map(|best| {
                progress.record.best = Some(best.clone());
                progress.record.change(&job.id)
            });
            task.into_iter().chain(decided.into_iter().flatten()).collect::<Vec<JobChange>>()
        };
        match inner.writer.write(changes).await {
            Ok(()) => return,
            Err(error) => {
                tracing::error!(job = %job.id, task = index, %error, "its end could not be stored yet")
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn end_sandbox(inner: &Inner, job: &LiveJob, finished: &mut Finished) {
    if !std::mem::take(&mut finished.lives) {
        return;
    }
    let Some(sandbox) = finished.attempt.sandbox.clone() else { return };
    let failed = !finished.ending.succeeded() && finished.writes;
    let detail = finished.ending.detail.clone().unwrap_or_default();
    let ended = match failed {
        true => inner.fleet.end_failed(&job.actor, &sandbox, &detail).await,
        false => inner.fleet.kill(&job.actor, &sandbox).await,
    };
    match ended {
        Ok(ended) => {
            let told =
                ended.volumes.iter().filter_map(|volume| Some((&volume.name, volume.outcome.as_ref()?)));
            let told: Vec<String> = told.map(|(name, outcome)| format!("volume {name}: {outcome}")).collect();
            if !told.is_empty() {
                let before =
                    finished.ending.detail.take().map(|detail| format!("{detail}; ")).unwrap_or_default();
                finished.ending.detail = Some(format!("{before}{}", told.join("; ")));
            }
        }
        Err(error) => {
            tracing::warn!(job = %job.id, %sandbox, %error, "its sandbox ends with its time to live")
        }
    }
}

/// Why nothing else of the job is to run.
pub fn ends_all(job: &LiveJob, state: JobState, score: Option<f64>) -> Option<&'static str> {
    let decided =
        job.spec.best_of.as_ref().is_some_and(|best_of| score.is_some_and(|score| decides(best_of, score)));
    if decided && state == JobState::Succeeded {
        return Some("another candidate has won");
    }
    let stops = job.spec.on_failure == JobOnFailure::Stop && job.spec.best_of.is_none();
    (stops && state == JobState::Failed).then_some("another task failed, and `on_failure` is `stop`")
}

/// Cancels the waiting tasks, and stops the running ones.
pub fn stop_rest(inner: &Inner, job: &LiveJob, why: &str) {
    job.stop.cancel();
    let waiting = inner.queue().drain(&job.id);
    let mut progress = job.progress();
    for index in waiting {
        progress.set(index, JobState::Cancelled);
        if let Some(mark) = progress.tasks.get_mut(index as usize) {
            mark.note = Some(why.into());
        }
    }
}

pub fn close_if_over(inner: &Inner, job: &LiveJob) {
    let record = {
        let mut progress = job.progress();
        if !progress.is_over() || std::mem::replace(&mut progress.closed, true) {
            return;
        }
        let (state, reason) = verdict(job, &progress);
        let now = now_ms();
        progress.record.state = state;
        progress.record.reason = reason;
        progress.record.ended_at_ms = Some(now);
        progress.record.kept_until_ms = Some(now + keep_ms(&job.spec));
        progress.record.counts = progress.counts;
        progress.record.sealed = None;
        progress.pool = None;
        progress.record.clone()
    };
    let (Some(inner), id) = (inner.me.upgrade(), job.id.clone()) else { return };
    inner.clone().tasks.spawn(async move {
        let Some(job) = inner.live(&id) else { return };
        if let Some(base) = &record.base
            && let Err(error) = inner.fleet.delete_snapshot(&job.actor, base).await
        {
            tracing::warn!(job = %id, %error, "the state that its candidates began with could not be removed");
        }
        while let Ok(change) = record.change(&id) {
            match inner.writer.write(vec![change]).await {
                Ok(()) => break,
                Err(error) => tracing::error!(job = %id, %error, "its end could not be stored yet"),
            }
            tokio::select! {
                () = inner.closing.cancelled() => return,
                () = tokio::time::sleep(AGAIN) => {}
            }
        }
        inner.queue().remove(&id);
        inner.forget_live(&id);
        job.progress().ended = true;
        job.tell();
    });
}

fn verdict(job: &LiveJob, progress: &crate::live::Progress) -> (JobState, Option<String>) {
    if let Some(why) = &progress.record.cancelled {
        return (JobState::Cancelled, Some(why.clone()));
    }
    let failure = progress.failure.as_ref().map(|(index, why)| format!("task {index}: {why}"));
    if job.spec.best_of.is_some() {
        return match &progress.record.best {
            Some(_) => (JobState::Succeeded, None),
            None => {
                let first = failure.map(|failure| format!(": {failure}")).unwrap_or_default();
                (JobState::Failed, Some(format!("no candidate passed{first}")))
            }
        };
    }
    match progress.counts {
        counts if counts.failed == 0 => (JobState::Succeeded, None),
        counts if counts.total == 1 => {
            (JobState::Failed, progress.failure.as_ref().map(|(_, why)| why.clone()))
        }
        counts => {
            let first = failure.map(|failure| format!(": {failure}")).unwrap_or_default();
            (JobState::Failed, Some(format!("{} of {} tasks failed{first}", counts.failed, counts.total)))
        }
    }
}
