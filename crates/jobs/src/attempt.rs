//! One attempt of one task: a sandbox of its own, from its creation to its end.

use crate::best_of;
use crate::ending::{Ending, chain, may_begin_later, of_error, of_exec, tail, value_of};
use crate::inner::Inner;
use crate::live::LiveJob;
use crate::outputs::{Collect, make_directory, task_directory};
use crate::record::now_ms;
use crate::refusals::invalid;
use crate::request::request_of;
use crate::terms::timeout;
use crate::work::{Task, Work, environment, of_task, start};
use crate::{inputs, script};
use paddock_fleet::{FleetError, Kind};
use paddock_model::api::{
    AttemptEnd, CreateSandbox, Exec, JobArtifact, JobAttempt, JobBest, Sandbox, SandboxUsage, VolumeMode,
};
use paddock_scripts::Plan;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Times that the server may fail to make a sandbox before that counts as an attempt.
const MOST_REFUSALS: u32 = 10;

pub struct Attempt {
    pub inner: Arc<Inner>,
    pub job: Arc<LiveJob>,
    pub index: u32,
    /// From 1.
    pub number: u32,
    /// The plan of a script job.
    pub plan: Option<Plan>,
}

/// A sandbox that an earlier server began the attempt with.
pub struct Adopted {
    pub sandbox: String,
    pub exec: Option<u32>,
    pub started_at_ms: u64,
}

pub enum Step {
    Done(Box<Finished>),
    /// There was no room: nothing has begun.
    Later(FleetError),
}

/// All that is known of an attempt when its sandbox may go.
pub struct Finished {
    pub attempt: JobAttempt,
    pub ending: Ending,
    pub stdout: String,
    pub stderr: String,
    pub result: Option<serde_json::Value>,
    pub score: Option<f64>,
    pub best: Option<JobBest>,
    pub artifacts: Vec<JobArtifact>,
    /// It is still to be ended.
    pub lives: bool,
    /// The end of its sandbox writes volumes.
    pub writes: bool,
}

impl Attempt {
    /// The attempt cannot begin at all.
    pub fn refused(&self, error: &FleetError) -> Finished {
        Finished::failed(self.blank(now_ms()), of_error(error))
    }

    fn blank(&self, started_at_ms: u64) -> JobAttempt {
        JobAttempt {
            attempt: self.number,
            sandbox: None,
            exec: None,
            started_at_ms,
            ended_at_ms: None,
            end: None,
            detail: None,
            exit_code: None,
            cpu_ms: None,
            peak_memory_bytes: None,
        }
    }

    pub async fn run(&self, adopted: Option<Adopted>) -> Step {
        let mut attempt = self.blank(adopted.as_ref().map_or_else(now_ms, |adopted| adopted.started_at_ms));
        self.show(&attempt);
        let (sandbox, exec) = match adopted {
            Some(adopted) => (adopted.sandbox, adopted.exec),
            None => match self.create().await {
                Ok(Some(sandbox)) => (sandbox.id, None),
                Ok(None) => return Step::Done(Box::new(Finished::cancelled(attempt))),
                Err(error) if self.may_wait(&error) => return Step::Later(error),
                Err(error) => return Step::Done(Box::new(Finished::failed(attempt, of_error(&error)))),
            },
        };
        attempt.sandbox = Some(sandbox.clone());
        self.show(&attempt);
        let exec = match exec {
            Some(exec) => Ok(exec),
            None => self.begin(&sandbox).await,
        };
        let mut finished = match exec {
            Ok(exec) => {
                attempt.exec = Some(exec);
                self.show(&attempt);
                self.see_through(&sandbox, exec, attempt).await
            }
            Err(error) => Finished { lives: true, ..Finished::failed(attempt, of_error(&error)) },
        };
        finished.writes = self.writes();
        self.measure(&mut finished, &sandbox).await;
        Step::Done(Box::new(finished))
    }

    /// An error that repeats, without a lack of room, is a failure.
    fn may_wait(&self, error: &FleetError) -> bool {
        let refusals = self.job.progress().tasks.get(self.index as usize).map_or(0, |mark| mark.refusals);
        may_begin_later(error) && (error.kind != Kind::Unavailable || refusals < MOST_REFUSALS)
    }

    /// `None` where it was cancelled meanwhile.
    async fn create(&self) -> Result<Option<Sandbox>, FleetError> {
        let (request, labels) = (self.request(), self.labels());
        let (fleet, actor) = (self.inner.fleet.clone(), self.job.actor.clone());
        let mut create =
            tokio::spawn(async move { fleet.create_labelled(&actor, request, labels, None).await });
        tokio::select! {
            biased;
            () = self.job.stop.cancelled() => {
                // The fleet finishes the create that was begun, and then the sandbox is ended.
                let (fleet, actor) = (self.inner.fleet.clone(), self.job.actor.clone());
                self.inner.tasks.spawn(async move {
                    if let Ok(Ok(sandbox)) = create.await {
                        let _ = fleet.kill(&actor, &sandbox.id).await;
                    }
                });
                Ok(None)
            }
            created = &mut create => match created {
                Ok(created) => created.map(Some),
                Err(error) => Err(FleetError::internal(&error)),
            },
        }
    }

    /// Puts its files in, and starts its command.
    async fn begin(&self, sandbox: &str) -> Result<u32, FleetError> {
        let (fleet, actor, spec) = (&self.inner.fleet, &self.job.actor, &self.job.spec);
        inputs::put(fleet, actor, sandbox, spec).await?;
        let task = Task { job: &self.job.id, index: self.index, attempt: self.number };
        if let Some(plan) = &self.plan {
            let own = start(
                Vec::new(),
                environment(spec, &task),
                spec.cwd.clone(),
                Some(timeout(spec).as_secs_f64()),
            );
            let request = script::prepare(fleet, actor, sandbox, plan, own, spec).await?;
            return Ok(fleet.start_exec(actor, sandbox, request, None).await?.exec);
        }
        let started = match of_task(spec, &task) {
            Some(Work::Command(request)) => fleet.start_exec(actor, sandbox, request, None).await?,
            Some(Work::Code(request)) => fleet.run_code(actor, sandbox, request, None).await?,
            None => return Err(invalid("the job has nothing to run")),
        };
        Ok(started.exec)
    }

    /// Follows a running command to its end, and collects everything that the job wants of it.
    async fn see_through(&self, sandbox: &str, exec: u32, attempt: JobAttempt) -> Finished {
        let (fleet, actor) = (&self.inner.fleet, &self.job.actor);
        let exec = match self.wait(sandbox, exec).await {
            Ok(Some(exec)) => exec,
            Ok(None) => return Finished { lives: true, ..Finished::cancelled(attempt) },
            Err(error) => return Finished { lives: true, ..Finished::failed(attempt, of_error(&error)) },
        };
        let ended_at = exec.ended_at_ms;
        let gone = fleet.get(actor, sandbox).await.ok().filter(|sandbox| sandbox.end.is_some());
        let mut ending = of_exec(&exec, gone.as_ref());
        let lives = gone.is_none();
        if !lives
            && ending.succeeded()
            && (!self.job.spec.outputs.is_empty() || self.job.spec.best_of.is_some())
        {
            ending = Ending::new(AttemptEnd::Lost, "its sandbox ended before what it left was kept");
        }
        let mut result = value_of(&exec.results);
        let decided = matches!(ending.end, AttemptEnd::Succeeded | AttemptEnd::Exit);
        if let Some(plan) = self.plan.as_ref().filter(|_| lives && decided) {
            match script::conclude(fleet, actor, sandbox, plan, &exec).await {
                Ok(value) => result = Some(value),
                Err(failed) => ending = failed,
            }
        }
        let (mut score, mut best, mut patch) = (None, None, None);
        if lives && ending.succeeded() && self.job.spec.best_of.is_some() {
            match self.compete(sandbox).await {
                Ok((reached, won)) => {
                    score = Some(reached);
                    (best, patch) = won.unzip();
                }
                Err(failed) => ending = failed,
            }
        }
        let artifacts = match self.keep_outputs(sandbox, &ending, lives, patch).await {
            Ok(artifacts) => artifacts,
            Err(failed) => {
                (ending, best) = (failed, None);
                Vec::new()
            }
        };
        Finished {
            attempt: JobAttempt { ended_at_ms: ended_at.or_else(|| Some(now_ms())), ..attempt },
            stdout: tail(&exec.stdout),
            stderr: tail(&exec.stderr),
            result,
            ending,
            score,
            best,
            artifacts,
            lives,
            writes: false,
        }
    }

    /// Waits for its end; `None` if the job was stopped.
    async fn wait(&self, sandbox: &str, exec: u32) -> Result<Option<Exec>, FleetError> {
        tokio::select! {
            biased;
            exec = self.inner.fleet.wait_exec(&self.job.actor, sandbox, exec, None) => exec.map(Some),
            () = self.job.stop.cancelled() => Ok(None),
        }
    }

    /// The score, and the changes where they are the best so far.
    async fn compete(&self, sandbox: &str) -> Result<(f64, Option<(JobBest, String)>), Ending> {
        let (fleet, actor, spec) = (&self.inner.fleet, &self.job.actor, &self.job.spec);
        let Some(candidates) = &spec.best_of else {
            return Err(Ending::new(AttemptEnd::Refused, "no candidates"));
        };
        let changed = best_of::changed(fleet, actor, sandbox).await.map_err(|error| of_error(&error))?;
        let task = Task { job: &self.job.id, index: self.index, attempt: self.number };
        let env = environment(spec, &task);
        let verifier = &candidates.verifier;
        let started = best_of::start_verifier(fleet, actor, sandbox, spec, verifier, env).await;
        let started = started.map_err(|error| of_error(&error))?;
        let judged = match self.wait(sandbox, started.exec).await.map_err(|error| of_error(&error))? {
            Some(exec) => best_of::judge(verifier, &exec)?,
            None => return Err(cancelled()),
        };
        let better = best_of::beats(self.job.progress().record.best.as_ref(), self.index, judged);
        let won = better.then(|| (best_of::winner(self.index, judged, changed.changes), changed.patch));
        Ok((judged, won))
    }

    async fn keep_outputs(
        &self,
        sandbox: &str,
        ending: &Ending,
        lives: bool,
        patch: Option<String>,
    ) -> Result<Vec<JobArtifact>, Ending> {
        if !lives || ending.end == AttemptEnd::Cancelled {
            return Ok(Vec::new());
        }
        let directory = task_directory(&self.inner.fleet, &self.job.id, self.index, self.number);
        let collect = Collect {
            fleet: &self.inner.fleet,
            actor: &self.job.actor,
            sandbox,
            spec: &self.job.spec,
            task: self.index,
            directory: directory.clone(),
            room: &self.inner.room,
            demand: ending.succeeded(),
        };
        let kept = collect.all().await;
        let mut artifacts = match kept {
            Ok(artifacts) => artifacts,
            // The attempt has failed for a better reason already.
            Err(_) if !ending.succeeded() => Vec::new(),
            Err(error) => return Err(Ending::new(AttemptEnd::Outputs, chain(&error))),
        };
        if let Some(patch) = patch {
            let store = || -> std::io::Result<()> {
                if artifacts.is_empty() {
                    make_directory(&directory)?;
                }
                std::fs::write(directory.join(artifacts.len().to_string()), &patch)
            };
            let room = self.inner.room.take(&self.job.actor.tenant, patch.len() as u64);
            room.map_err(|error| Ending::new(AttemptEnd::Outputs, chain(&error)))?;
            store().map_err(|error| Ending::new(AttemptEnd::Outputs, chain(&error)))?;
            artifacts.push(crate::outputs::of_text(self.index, best_of::PATCH, &patch));
        }
        Ok(artifacts)
    }

    async fn measure(&self, finished: &mut Finished, sandbox: &str) {
        let (fleet, actor) = (&self.inner.fleet, &self.job.actor);
        let used = match finished.lives {
            true => fleet.usage(actor, sandbox).await.unwrap_or_default(),
            false => match fleet.get(actor, sandbox).await {
                Ok(Sandbox { end: Some(end), .. }) => end.usage,
                _ => SandboxUsage::default(),
            },
        };
        finished.attempt.cpu_ms = used.cpu_ms;
        finished.attempt.peak_memory_bytes = used.peak_memory_bytes.or(used.memory_bytes);
    }

    /// The sandbox of this attempt.
    fn request(&self) -> CreateSandbox {
        let job = &self.job;
        let mut request = request_of(&job.spec, job.progress().record.base.clone());
        if let Some(plan) = &self.plan {
            request = script::overlay(plan.sandbox.clone(), request, &job.spec);
        }
        request
    }

    /// The labels name the attempt, so that every server that finds the sandbox knows.
    fn labels(&self) -> BTreeMap<String, String> {
        let labels =
            [(JOB, self.job.id.clone()), (TASK, self.index.to_string()), (ATTEMPT, self.number.to_string())];
        labels.into_iter().map(|(key, value)| (key.to_string(), value)).collect()
    }

    /// True if it writes to volumes, by the job's description or its script.
    fn writes(&self) -> bool {
        let planned = self.plan.iter().flat_map(|plan| &plan.sandbox.volumes);
        self.job.spec.volumes.iter().chain(planned).any(|volume| volume.mode == VolumeMode::Rw)
    }

    fn show(&self, attempt: &JobAttempt) {
        self.job.progress().running.insert(self.index, attempt.clone());
        self.job.tell();
    }
}

impl Finished {
    fn failed(attempt: JobAttempt, ending: Ending) -> Finished {
        Finished {
            attempt: JobAttempt { ended_at_ms: Some(now_ms()), ..attempt },
            ending,
            stdout: String::new(),
            stderr: String::new(),
            result: None,
            score: None,
            best: None,
            artifacts: Vec::new(),
            lives: false,
            writes: false,
        }
    }

    fn cancelled(attempt: JobAttempt) -> Finished {
        Finished::failed(attempt, cancelled())
    }
}

fn cancelled() -> Ending {
    Ending::new(AttemptEnd::Cancelled, "it was stopped")
}

pub const JOB: &str = "paddock.job";
pub const TASK: &str = "paddock.task";
pub const ATTEMPT: &str = "paddock.attempt";
