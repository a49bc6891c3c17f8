//! Takes over the jobs of an earlier server. Every sandbox of a job names its attempt:
//!
//! - it lives, and its command runs or has ended: the attempt goes on from there
//! - it lives, and no command was started in it: it is ended, and the attempt begins anew
//! - it has ended: so has the attempt, as its command did, or `lost`
//! - there is none: the attempt never began

use crate::attempt::{ATTEMPT, Adopted, JOB, TASK};
use crate::finish::{close_if_over, ends_all, stop_rest};
use crate::inner::Inner;
use crate::live::LiveJob;
use crate::record::{TaskRecord, parse_row};
use crate::submit::take_base;
use crate::{retention, scheduler};
use paddock_fleet::{Actor, Fleet, FleetError, ListFilter};
use paddock_model::api::{Exec, ExecCause, JobState, Sandbox, SandboxState};
use paddock_records::store::JobRow;
use std::collections::HashMap;
use std::sync::Arc;

const PAGE: usize = 1000;

/// Tenant, job, task and attempt: a label is no proof, and says nothing of another tenant's job.
type Whose = (String, String, u32, u32);

pub async fn all(inner: &Arc<Inner>) -> Result<(), FleetError> {
    let rows = inner.fleet.records().living_jobs()?;
    let oldest = rows.iter().map(|row| row.created_ms).min();
    let mut found = sandboxes(&inner.fleet, oldest).await?;
    for row in rows {
        let id = row.id.clone();
        if let Err(error) = restore(inner, row, &mut found).await {
            tracing::error!(job = %id, %error, "it cannot be gone on with");
        }
    }
    for sandbox in found.into_values().filter(|sandbox| sandbox.end.is_none()) {
        // The end of its task or job was stored, and the server was killed before it could end the sandbox.
        if let Err(error) = inner.fleet.kill(&Actor::owner(), &sandbox.id).await {
            tracing::warn!(sandbox = %sandbox.id, %error, "it was left by a job, and ends with its time to live");
        }
    }
    retention::sweep(inner)
}

/// The sandboxes of jobs: all live ones, and those that ended since the oldest job that has not. Of two for one
/// attempt, the live one, then the newer.
async fn sandboxes(fleet: &Fleet, since_ms: Option<u64>) -> Result<HashMap<Whose, Sandbox>, FleetError> {
    use SandboxState::{Creating, Ended, Hibernated, Paused, Running};
    let owner = Actor::owner();
    let mut found: HashMap<Whose, Sandbox> = HashMap::new();
    let living = ListFilter { limit: PAGE, ..ListFilter::default() };
    let states = vec![Creating, Running, Paused, Hibernated, Ended];
    let ended = ListFilter { limit: PAGE, states, ..ListFilter::default() };
    for (mut filter, since) in [(living, Some(0)), (ended, since_ms)] {
        let Some(since) = since else { continue };
        loop {
            let page = fleet.list(&owner, &filter).await?;
            let over = page.sandboxes.last().is_none_or(|last| last.created_at_ms < since);
            for sandbox in page.sandboxes {
                if let Some(whose) = whose(&sandbox) {
                    // Live sandboxes were looked at first, and the list begins with the newest.
                    found.entry(whose).or_insert(sandbox);
                }
            }
            match page.next_cursor {
                Some(next) if !over => filter.cursor = Some(next),
                _ => break,
            }
        }
    }
    Ok(found)
}

fn whose(sandbox: &Sandbox) -> Option<Whose> {
    let number = |key: &str| sandbox.metadata.get(key)?.parse().ok();
    Some((sandbox.tenant.clone(), sandbox.metadata.get(JOB)?.clone(), number(TASK)?, number(ATTEMPT)?))
}

async fn restore(
    inner: &Arc<Inner>,
    row: JobRow,
    found: &mut HashMap<Whose, Sandbox>,
) -> Result<(), FleetError> {
    let (mut spec, record) = parse_row(&row).map_err(|error| FleetError::internal(&error))?;
    if let Some(sealed) = &record.sealed {
        let plain = inner.fleet.unseal(&row.id, sealed)?;
        spec.policy.secrets = serde_json::from_slice(&plain).map_err(|error| FleetError::internal(&error))?;
    }
    let cancelled = record.cancelled.clone();
    let job = Arc::new(LiveJob::new(row.id, spec, record));
    let mut stop = cancelled;
    let mut later = Vec::new();
    for (index, record) in stored_tasks(inner, &job)? {
        let mut progress = job.progress();
        record.attempts.iter().for_each(|attempt| progress.add_cost(attempt));
        progress.set(index, record.state);
        if let Some(mark) = progress.tasks.get_mut(index as usize) {
            mark.attempts = record.attempts.last().map_or(0, |attempt| attempt.attempt);
            mark.note = record.reason.clone();
        }
        if record.state == JobState::Failed && progress.failure.is_none() {
            progress.failure = Some((index, record.reason.clone().unwrap_or_default()));
        }
        drop(progress);
        later.extend(record.not_before_ms.map(|at| (index, at)));
        stop = stop.or_else(|| ends_all(&job, record.state, record.score).map(str::to_string));
    }
    if job.progress().record.base.is_none()
        && let Err(error) = take_base(inner, &job).await
    {
        let why = format!("the state that its candidates begin with has gone: {}", error.message);
        stop = Some(job.progress().record.cancelled.get_or_insert(why).clone());
    }
    go_on(inner, &job, later, found).await;
    if let Some(why) = stop {
        stop_rest(inner, &job, &why);
    }
    close_if_over(inner, &job);
    Ok(())
}

fn stored_tasks(inner: &Inner, job: &LiveJob) -> Result<Vec<(u32, TaskRecord)>, FleetError> {
    let mut tasks = Vec::new();
    loop {
        let from = tasks.last().map_or(0, |(index, _)| index + 1);
        let rows = inner.fleet.records().job_tasks(&job.id, from, PAGE)?;
        let last = rows.len() < PAGE;
        for row in rows {
            let record = TaskRecord::parse(&row).map_err(|error| FleetError::internal(&error))?;
            tasks.push((row.number, record));
        }
        if last {
            return Ok(tasks);
        }
    }
}

/// Its tasks have their turns again, and those that had begun are taken over.
async fn go_on(
    inner: &Arc<Inner>,
    job: &Arc<LiveJob>,
    later: Vec<(u32, u64)>,
    found: &mut HashMap<Whose, Sandbox>,
) {
    let open: Vec<(u32, u32)> = {
        let progress = job.progress();
        let marks = progress.tasks.iter().enumerate();
        let open = marks.filter(|(_, mark)| !mark.state.has_ended());
        open.map(|(index, mark)| (index as u32, mark.attempts + 1)).collect()
    };
    let (mut waiting, mut adopted) = (Vec::new(), Vec::new());
    for (index, attempt) in open {
        let whose = (job.actor.tenant.clone(), job.id.clone(), index, attempt);
        let sandbox = found.get(&whose);
        let exec = match sandbox {
            Some(sandbox) => first_exec(&inner.fleet, &job.actor, &sandbox.id).await,
            None => None,
        };
        match (sandbox.cloned(), exec) {
            (Some(sandbox), Some(exec)) => {
                found.remove(&whose);
                let started_at_ms = exec.started_at_ms;
                adopted.push((index, Adopted { sandbox: sandbox.id, exec: Some(exec.exec), started_at_ms }));
            }
            // Nothing ran in it: it is ended with the other remains.
            _ => waiting.push(index),
        }
    }
    let times: HashMap<u32, u64> = later.into_iter().collect();
    let now: Vec<u32> = waiting.iter().copied().filter(|index| !times.contains_key(index)).collect();
    inner.add(job.clone(), now);
    for index in waiting {
        if let Some(at) = times.get(&index) {
            inner.queue().put_later(&job.id, index, *at);
        }
    }
    for (index, adopted) in adopted {
        inner.queue().runs(&job.id);
        scheduler::begin(inner, job, index, Some(adopted));
    }
}

/// The command or the code itself; not the interpreter that the code runs in.
async fn first_exec(fleet: &Fleet, actor: &Actor, sandbox: &str) -> Option<Exec> {
    let execs = fleet.execs(actor, sandbox).await.ok()?;
    let work = |exec: &Exec| exec.context.is_none() || exec.command.starts_with("run_code ");
    let first = execs.into_iter().filter(work).min_by_key(|exec| exec.exec);
    // The server was killed before the guest was told: nothing ran.
    first.filter(|exec| !matches!(exec.cause, Some(ExecCause::NotStarted { .. })))
}
