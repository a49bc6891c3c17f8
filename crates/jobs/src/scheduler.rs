//! Starts tasks: as many attempts at one time as the server allows, each task in its turn.

use crate::attempt::{Adopted, Attempt, Step};
use crate::inner::Inner;
use crate::live::LiveJob;
use crate::record::now_ms;
use crate::{finish, script};
use paddock_fleet::FleetError;
use paddock_model::api::JobState;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Without room the next try waits so long, then twice as long, up to the longest.
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// How long it sleeps where nothing is known to come.
const IDLE: Duration = Duration::from_secs(60);

pub async fn run(inner: Arc<Inner>) {
    loop {
        while inner.running.load(Ordering::Relaxed) < inner.options.running {
            let Some((id, index)) = inner.queue().take(now_ms()) else { break };
            match inner.live(&id) {
                Some(job) => begin(&inner, &job, index, None),
                None => inner.queue().done(&id),
            }
        }
        let next = inner.queue().next_at();
        let pause = next.map_or(IDLE, |at| Duration::from_millis(at.saturating_sub(now_ms())).min(IDLE));
        // While there is no room, only an end wakes it.
        let full = inner.running.load(Ordering::Relaxed) >= inner.options.running;
        tokio::select! {
            () = inner.closing.cancelled() => return,
            () = inner.wake.notified() => {}
            () = tokio::time::sleep(pause), if !full => {}
        }
    }
}

/// `adopted`: the sandbox that an earlier server began it with.
pub fn begin(inner: &Arc<Inner>, job: &Arc<LiveJob>, index: u32, adopted: Option<Adopted>) {
    inner.running.fetch_add(1, Ordering::Relaxed);
    let first = {
        let mut progress = job.progress();
        progress.set(index, JobState::Running);
        let first = progress.record.state == JobState::Queued;
        if first {
            progress.record.state = JobState::Running;
            progress.record.started_at_ms.get_or_insert_with(now_ms);
        }
        first.then(|| progress.record.clone())
    };
    let (inner, job) = (inner.clone(), job.clone());
    inner.clone().tasks.spawn(async move {
        if let Some(record) = first
            && let Ok(change) = record.change(&job.id)
            && let Err(error) = inner.writer.write(vec![change]).await
        {
            tracing::warn!(job = %job.id, %error, "that it runs could not be stored");
        }
        tokio::select! {
            biased;
            // The sandbox runs on, for the next server.
            () = inner.closing.cancelled() => {}
            () = work(&inner, &job, index, adopted) => {
                inner.running.fetch_sub(1, Ordering::Relaxed);
                inner.queue().done(&job.id);
                inner.wake.notify_one();
            }
        }
    });
}

async fn work(inner: &Arc<Inner>, job: &Arc<LiveJob>, index: u32, adopted: Option<Adopted>) {
    let number = job.progress().tasks.get(index as usize).map_or(1, |mark| mark.attempts + 1);
    let plan = script::plan(&inner.fleet, &job.spec, &job.actor, index);
    let refused = plan.as_ref().err().cloned();
    let attempt =
        Attempt { inner: inner.clone(), job: job.clone(), index, number, plan: plan.ok().flatten() };
    if let Some(error) = refused {
        return finish::task(inner, job, index, attempt.refused(&error)).await;
    }
    match attempt.run(adopted).await {
        Step::Later(error) => wait_for_room(inner, job, index, &error),
        Step::Done(finished) => finish::task(inner, job, index, *finished).await,
    }
}

fn wait_for_room(inner: &Inner, job: &LiveJob, index: u32, error: &FleetError) {
    let at = {
        let mut progress = job.progress();
        progress.running.remove(&index);
        let state = if job.stop.is_cancelled() { JobState::Cancelled } else { JobState::Queued };
        progress.set(index, state);
        let Some(mark) = progress.tasks.get_mut(index as usize) else { return };
        mark.refusals += 1;
        mark.note = Some(error.message.clone());
        let wait = FIRST_WAIT.saturating_mul(1 << mark.refusals.min(8)).min(LONGEST_WAIT);
        (state == JobState::Queued).then(|| now_ms() + wait.as_millis() as u64)
    };
    if let Some(at) = at {
        inner.queue().put_later(&job.id, index, at);
    }
    if job.stop.is_cancelled() {
        // The caller that stopped it may have looked at the queue before this task was back in it.
        finish::stop_rest(inner, job, "it was stopped");
        finish::close_if_over(inner, job);
    }
    job.tell();
}
