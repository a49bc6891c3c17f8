//! The callers' operations on jobs: look, cancel, remove.

use crate::inner::Inner;
use crate::live::LiveJob;
use crate::outputs::Room;
use crate::record::{JobRecord, TaskRecord, parse_row};
use crate::refusals::shown;
use crate::writer::Writer;
use crate::{finish, recover, retention, scheduler};
use paddock_fleet::{Actor, Fleet, FleetError, Kind};
use paddock_model::api::{Job, JobPage, JobSpec, JobState, JobTask, JobTaskPage};
use paddock_records::store::TaskRow;
use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use crate::inner::{Jobs, JobsOptions};

const LARGEST_PAGE: usize = 1000;
const LARGEST_TASK_PAGE: usize = 1000;
/// How long the end of the server waits for attempts that it cut off; they leave nothing half done.
const CLOSING: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Default)]
pub struct ListJobs {
    pub state: Option<JobState>,
    /// 0: as many as one page holds.
    pub limit: usize,
    pub cursor: Option<String>,
}

impl Jobs {
    /// Finds the jobs of an earlier server, and goes on with them.
    pub async fn open(fleet: Fleet, options: JobsOptions) -> Result<Jobs, FleetError> {
        let used = fleet.records().job_artifact_bytes()?;
        let writer = Writer::start(fleet.clone()).map_err(|error| FleetError::internal(&error))?;
        let inner = Arc::new_cyclic(|me| Inner {
            room: Room::new(options.artifact_bytes, used),
            fleet,
            options,
            writer,
            wake: Notify::new(),
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
            running: AtomicUsize::new(0),
            me: me.clone(),
            queue: Mutex::default(),
            live: RwLock::default(),
        });
        let jobs = Jobs(inner.clone());
        if let Err(error) = recover::all(&inner).await {
            jobs.close().await;
            return Err(error);
        }
        inner.tasks.spawn(scheduler::run(inner.clone()));
        inner.tasks.spawn(retention::run(inner.clone()));
        Ok(jobs)
    }

    /// Nothing new begins. Running work goes on in its sandboxes, for the next server to find.
    pub async fn close(&self) {
        self.0.closing.cancel();
        self.0.tasks.close();
        if tokio::time::timeout(CLOSING, self.0.tasks.wait()).await.is_err() {
            tracing::warn!("some attempts did not let go in time");
        }
        let inner = self.0.clone();
        let _ = tokio::task::spawn_blocking(move || inner.writer.close()).await;
        // Each may have a pool, which is the fleet's.
        self.0.live.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Jobs that have not ended.
    pub fn living(&self) -> usize {
        self.0.live.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// With `patience`, returns the job when it has ended or after that time.
    pub async fn get(&self, actor: &Actor, id: &str, patience: Option<Duration>) -> Result<Job, FleetError> {
        if let Some(job) = self.live(actor, id) {
            let mut changes = job.follow();
            let ended = async { while !job.progress().ended && changes.changed().await.is_ok() {} };
            match patience {
                None => return Ok(job.to_api()),
                Some(patience) => {
                    let ended = tokio::time::timeout(patience, ended).await;
                    if ended.is_err() {
                        return Ok(job.to_api());
                    }
                }
            }
        }
        let (spec, record) = self.stored(actor, id)?;
        Ok(record.to_api(id, &spec, record.counts))
    }

    pub async fn list(&self, actor: &Actor, wanted: &ListJobs) -> Result<JobPage, FleetError> {
        let tenant = (!actor.owner).then_some(actor.tenant.as_str());
        let limit = if wanted.limit == 0 { 100 } else { wanted.limit.min(LARGEST_PAGE) };
        let state = wanted.state.map(JobState::word);
        let page = self.0.fleet.records().list_jobs(tenant, state, limit, wanted.cursor.as_deref())?;
        let shown = page.rows.iter().filter_map(|row| match self.0.live(&row.id) {
            Some(job) => Some(job.to_api()),
            None => {
                let (spec, record) = parse_row(row).ok()?;
                Some(record.to_api(&row.id, &spec, record.counts))
            }
        });
        Ok(JobPage { jobs: shown.collect(), next_cursor: page.next_cursor })
    }

    pub async fn task(&self, actor: &Actor, id: &str, index: u32) -> Result<JobTask, FleetError> {
        let total = self.get(actor, id, None).await?.tasks.total;
        if index >= total {
            return Err(no_task(id, index, total));
        }
        let mut tasks = self.tasks(actor, id, index, 1, None).await?.tasks;
        tasks.pop().ok_or_else(|| no_task(id, index, total))
    }

    /// From this number on; with a state, only those that are in it.
    pub async fn tasks(
        &self,
        actor: &Actor,
        id: &str,
        from: u32,
        limit: usize,
        state: Option<JobState>,
    ) -> Result<JobTaskPage, FleetError> {
        let total = self.get(actor, id, None).await?.tasks.total;
        let live = self.live(actor, id);
        let limit = if limit == 0 { 100 } else { limit.min(LARGEST_TASK_PAGE) };
        let mut tasks = Vec::new();
        let mut at = from;
        while at < total && tasks.len() < limit {
            let rows = self.0.fleet.records().job_tasks(id, at, LARGEST_TASK_PAGE)?;
            let rows: HashMap<u32, TaskRow> = rows.into_iter().map(|row| (row.number, row)).collect();
            let until = total.min(at.saturating_add(LARGEST_TASK_PAGE as u32));
            while at < until && tasks.len() < limit {
                let task = show_task(live.as_deref(), id, at, rows.get(&at))?;
                if state.is_none_or(|state| task.state == state) {
                    tasks.push(task);
                }
                at += 1;
            }
        }
        Ok(JobTaskPage { tasks, next: (at < total).then_some(at) })
    }

    /// Waiting tasks are not begun, running ones are stopped. A job that has ended stays as it is.
    pub async fn cancel(&self, actor: &Actor, id: &str) -> Result<Job, FleetError> {
        let Some(job) = self.live(actor, id) else { return self.get(actor, id, None).await };
        let record = {
            let mut progress = job.progress();
            let asked = progress.closed || progress.record.cancelled.is_some();
            (!asked).then(|| {
                progress.record.cancelled = Some("cancelled by a call".into());
                progress.record.clone()
            })
        };
        if let Some(record) = record {
            let change = record.change(&job.id).map_err(|error| FleetError::internal(&error))?;
            self.0.writer.write(vec![change]).await?;
        }
        finish::stop_rest(&self.0, &job, "cancelled by a call");
        finish::close_if_over(&self.0, &job);
        job.tell();
        self.get(actor, id, Some(Duration::from_secs(10))).await
    }

    /// Removes an ended job, with its logs' ends and artifacts.
    pub async fn remove(&self, actor: &Actor, id: &str) -> Result<Job, FleetError> {
        // A job whose end is just being stored counts as ended.
        let closed = self.live(actor, id).is_some_and(|job| job.progress().closed);
        let job = self.get(actor, id, closed.then_some(CLOSING)).await?;
        if self.live(actor, id).is_some() {
            let message = format!("job {id} has not ended");
            return Err(FleetError::new(Kind::Conflict, "wrong_state", message).hint("cancel it first"));
        }
        retention::forget(&self.0, &job.tenant, id)?;
        Ok(job)
    }

    pub(crate) fn live(&self, actor: &Actor, id: &str) -> Option<Arc<LiveJob>> {
        self.0.live(id).filter(|job| actor.owner || job.actor.tenant == actor.tenant)
    }

    pub(crate) fn stored(&self, actor: &Actor, id: &str) -> Result<(JobSpec, JobRecord), FleetError> {
        let row = self.0.fleet.records().job(id)?.filter(|row| actor.owner || row.tenant == actor.tenant);
        let row = row.ok_or_else(|| {
            let message = format!("there is no job `{}`", shown(id));
            FleetError::new(Kind::NotFound, "job_not_found", message)
                .hint("`paddock job ls` lists those there are")
        })?;
        parse_row(&row).map_err(|error| FleetError::internal(&error))
    }
}

/// A task without a record has never ended an attempt.
fn show_task(
    live: Option<&LiveJob>,
    id: &str,
    index: u32,
    row: Option<&TaskRow>,
) -> Result<JobTask, FleetError> {
    let record = match row {
        Some(row) => TaskRecord::parse(row).map_err(|error| FleetError::internal(&error))?,
        // The task of an ended job without a record: it never came to its turn.
        None => TaskRecord::new(if live.is_some() { JobState::Queued } else { JobState::Cancelled }),
    };
    let mut task = record.to_api(id, index);
    let Some(job) = live else { return Ok(task) };
    let progress = job.progress();
    if let Some(mark) = progress.tasks.get(index as usize) {
        task.state = mark.state;
        task.reason = task.reason.or_else(|| mark.note.clone());
    }
    // An attempt that has just ended may be in both.
    let known = task.attempts.last().map_or(0, |attempt| attempt.attempt);
    if let Some(running) = progress.running.get(&index).filter(|running| running.attempt > known) {
        task.not_before_ms = None;
        task.attempts.push(running.clone());
    }
    Ok(task)
}

fn no_task(id: &str, index: u32, total: u32) -> FleetError {
    let message = format!("job {id} has no task {index}");
    FleetError::new(Kind::NotFound, "task_not_found", message)
        .hint(format!("it has 0 to {}", total.saturating_sub(1)))
}
