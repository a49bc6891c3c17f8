//! The output of a task, as it comes; and its artifacts.

use crate::inner::Jobs;
use crate::live::LiveJob;
use crate::outputs::task_directory;
use crate::refusals::shown;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use paddock_fleet::{Actor, Download, FleetError, Kind, OutputFrom, OutputReader};
use paddock_model::api::{JobArtifact, JobArtifacts, JobAttempt, JobTask, OutputEvent, StreamName};
use std::collections::VecDeque;
use std::sync::Arc;

const MOST_ARTIFACTS: usize = 10_000;

/// Which logs are wanted.
#[derive(Debug, Clone, Default)]
pub struct LogsOf {
    pub task: u32,
    /// Without it the last one there is; and with `follow` all that follow it.
    pub attempt: Option<u32>,
    /// Wait for output that is still to come.
    pub follow: bool,
}

/// The output of a task, from its first byte. The last event says how its command ended.
pub struct LogReader {
    jobs: Jobs,
    actor: Actor,
    job: String,
    wanted: LogsOf,
    /// The attempt that is read, or was read last.
    at: Option<u32>,
    reader: Option<OutputReader>,
    /// The end of an attempt, until it is known to be the last one or not.
    ended: Option<OutputEvent>,
    /// The kept rest of an attempt whose whole output is not stored any more.
    kept: VecDeque<OutputEvent>,
    finished: bool,
}

impl Jobs {
    pub async fn logs(&self, actor: &Actor, id: &str, wanted: LogsOf) -> Result<LogReader, FleetError> {
        let task = self.task(actor, id, wanted.task).await?;
        let has = |number: u32| task.attempts.iter().any(|attempt| attempt.attempt == number);
        if let Some(number) = wanted.attempt.filter(|number| !has(*number)) {
            let message = format!("task {} of job {id} has no attempt {number}", wanted.task);
            return Err(FleetError::new(Kind::NotFound, "attempt_not_found", message)
                .hint(format!("it has had {}", task.attempts.len())));
        }
        Ok(LogReader {
            jobs: self.clone(),
            actor: actor.clone(),
            job: id.into(),
            wanted,
            at: None,
            reader: None,
            ended: None,
            kept: VecDeque::new(),
            finished: false,
        })
    }

    pub async fn artifacts(
        &self,
        actor: &Actor,
        id: &str,
        task: Option<u32>,
    ) -> Result<JobArtifacts, FleetError> {
        if let Some(index) = task {
            let artifacts = self.task(actor, id, index).await?.artifacts;
            return Ok(JobArtifacts { artifacts, truncated: false });
        }
        let (mut artifacts, mut from) = (Vec::new(), 0);
        loop {
            let page = self.tasks(actor, id, from, 1000, None).await?;
            artifacts.extend(page.tasks.into_iter().flat_map(|task| task.artifacts));
            match page.next {
                Some(next) if artifacts.len() <= MOST_ARTIFACTS => from = next,
                _ => break,
            }
        }
        let truncated = artifacts.len() > MOST_ARTIFACTS;
        artifacts.truncate(MOST_ARTIFACTS);
        Ok(JobArtifacts { artifacts, truncated })
    }

    pub async fn artifact(
        &self,
        actor: &Actor,
        id: &str,
        task: u32,
        path: &str,
    ) -> Result<(JobArtifact, Download), FleetError> {
        let JobTask { artifacts, attempts, .. } = self.task(actor, id, task).await?;
        let place = artifacts.iter().position(|artifact| artifact.path == path);
        let last = attempts.iter().rev().find(|attempt| attempt.end.is_some());
        let (Some(place), Some(JobAttempt { attempt, .. })) = (place, last) else {
            let message = format!("task {task} of job {id} has no artifact `{}`", shown(path));
            return Err(FleetError::new(Kind::NotFound, "artifact_not_found", message)
                .hint("`paddock job artifacts` lists those there are"));
        };
        // The caller's words are only compared with the stored names; numbers lead to the file.
        let file = task_directory(&self.0.fleet, id, task, *attempt).join(place.to_string());
        let file = tokio::fs::File::open(file).await.map_err(|error| FleetError::storage(&error))?;
        let artifact = artifacts[place].clone();
        Ok((artifact.clone(), Download::from_file(file, artifact.bytes)))
    }
}

impl LogReader {
    /// Safe to cancel. `None` after the last event.
    pub async fn next(&mut self) -> Option<Result<OutputEvent, FleetError>> {
        loop {
            if self.finished {
                return None;
            }
            if let Some(event) = self.kept.pop_front() {
                return Some(Ok(event));
            }
            if let Some(reader) = &mut self.reader {
                match reader.next().await {
                    Some(Ok(ended @ OutputEvent::Ended { .. })) => {
                        (self.reader, self.ended) = (None, Some(ended))
                    }
                    Some(event) => return Some(event),
                    None => {
                        self.finished = true;
                        return None;
                    }
                }
            }
            if self.ended.is_some() {
                // Another attempt may follow: only the last one's end is the end.
                match self.is_last().await {
                    Ok(true) => {
                        self.finished = true;
                        return self.ended.take().map(Ok);
                    }
                    Ok(false) => self.ended = None,
                    Err(error) => return self.fail(error),
                }
            }
            match self.open_next().await {
                Ok(true) => {}
                Ok(false) => self.finished = self.kept.is_empty(),
                Err(error) => return self.fail(error),
            }
        }
    }

    fn fail(&mut self, error: FleetError) -> Option<Result<OutputEvent, FleetError>> {
        self.finished = true;
        Some(Err(error))
    }

    /// Waits until it is known if another attempt follows the ended one.
    async fn is_last(&self) -> Result<bool, FleetError> {
        if self.wanted.attempt.is_some() || !self.wanted.follow {
            return Ok(true);
        }
        loop {
            let (live, mut changes) = self.watched();
            let task = self.jobs.task(&self.actor, &self.job, self.wanted.task).await?;
            let read = task.attempts.iter().find(|attempt| Some(attempt.attempt) == self.at);
            match read.and_then(|attempt| attempt.end) {
                Some(_) => return Ok(task.state.has_ended()),
                None if live.is_none() => return Ok(true),
                None => drop(changes.changed().await),
            }
        }
    }

    fn watched(&self) -> (Option<Arc<LiveJob>>, tokio::sync::watch::Receiver<u64>) {
        let live = self.jobs.live(&self.actor, &self.job);
        let changes = live.as_ref().map_or_else(|| tokio::sync::watch::channel(0).1, |job| job.follow());
        (live, changes)
    }

    /// The next attempt's output; `false` where there is none to come.
    async fn open_next(&mut self) -> Result<bool, FleetError> {
        loop {
            let (live, mut changes) = self.watched();
            let task = self.jobs.task(&self.actor, &self.job, self.wanted.task).await?;
            let next = task.attempts.iter().rev().find(|attempt| match (self.wanted.attempt, self.at) {
                (Some(wanted), None) => attempt.attempt == wanted,
                (Some(_), Some(_)) => false,
                (None, at) => at.is_none_or(|at| attempt.attempt > at),
            });
            if let Some(attempt) = next
                && (attempt.exec.is_some() || attempt.end.is_some())
            {
                let attempt = attempt.clone();
                self.open(&task, &attempt).await;
                self.at = Some(attempt.attempt);
                return Ok(true);
            }
            if live.is_none()
                || task.state.has_ended()
                || !self.wanted.follow
                || self.wanted.attempt.is_some() && next.is_none()
            {
                return Ok(false);
            }
            let _ = changes.changed().await;
        }
    }

    async fn open(&mut self, task: &JobTask, attempt: &JobAttempt) {
        if let (Some(sandbox), Some(exec)) = (&attempt.sandbox, attempt.exec) {
            let from = OutputFrom { stdout: 0, stderr: 0, results: 0, follow: self.wanted.follow };
            if let Ok(reader) = self.jobs.0.fleet.output(&self.actor, sandbox, exec, from).await {
                self.reader = Some(reader);
                return;
            }
        }
        // A day later only the end of the last one's output is left.
        let last = task.attempts.last().is_some_and(|last| last.attempt == attempt.attempt);
        for (stream, text) in [(StreamName::Stdout, &task.stdout), (StreamName::Stderr, &task.stderr)] {
            if last && !text.is_empty() {
                let data = STANDARD.encode(text);
                self.kept.push_back(OutputEvent::Output { stream, offset: 0, data });
            }
        }
    }
}
