//! A job is sent and waited for, and its end becomes an exit code for the caller.

use super::{file, logs, progress::Progress};
use crate::args::job::JobRunArgs;
use crate::caller::Caller;
use crate::client::{Call, Client, ClientError, Target};
use crate::commands::{CommandError, print, print_json};
use crate::layers::LayerError;
use crate::live::Retry;
use crate::render;
use crate::session::signals::Signals;
use paddock_client::Method;
use paddock_model::api::{AttemptEnd, Job, JobSpec, JobState, JobTask, JobTaskPage};
use std::time::Duration;

const LOOK: Duration = Duration::from_millis(200);
const WAIT: &str = "20";
const CANCELLED: i32 = 130;
const TIMED_OUT: i32 = 124;
const KILLED: i32 = 137;
const PADDOCK_FAILED: i32 = 125;

/// The settings of this run.
pub struct Wanted {
    pub spec: JobSpec,
    pub watch: bool,
    pub detach: bool,
    pub json: bool,
}

impl Wanted {
    pub fn read(args: JobRunArgs, caller: &mut Caller) -> Result<Wanted, CommandError> {
        let mut spec = file::read(&args.file, caller)?;
        spec.backend = args.backend.or(spec.backend);
        let host_certs = args.certificates.chosen(&caller.environment).map_err(LayerError::from)?;
        spec.policy.host_certs = host_certs.or(spec.policy.host_certs);
        Ok(Wanted { spec, watch: args.watch, detach: args.detach, json: args.json })
    }
}

/// Returns the exit code.
pub async fn run(client: &Client, wanted: Wanted, caller: &mut Caller<'_>) -> Result<i32, CommandError> {
    let sent: Job = client.post_once(Target::new("/v1/jobs"), &wanted.spec).await?;
    if wanted.detach {
        match wanted.json {
            true => print_json(&sent, caller)?,
            false => print(&format!("{}\n", sent.id), caller)?,
        }
        return Ok(0);
    }
    let mut signals = Signals::listen().map_err(CommandError::Signals)?;
    let job = tokio::select! {
        job = wait(client, &sent, &wanted, caller) => Some(job?),
        _ = signals.next_ending() => None,
    };
    let job = match job {
        Some(job) => job,
        None => {
            let cancel = Target::new("/v1/jobs").part(&sent.id).part("cancel");
            client.json(Call::new(Method::POST, cancel)).await?
        }
    };
    tell(client, &job, &wanted, caller).await
}

async fn wait(
    client: &Client,
    sent: &Job,
    wanted: &Wanted,
    caller: &mut Caller<'_>,
) -> Result<Job, CommandError> {
    let target = Target::new("/v1/jobs").part(&sent.id);
    let only = sent.tasks.total == 1 && sent.spec.best_of.is_none();
    if only && !wanted.watch && !wanted.json {
        let logs = target.clone().part("logs").query("task", "0").query("follow", "true");
        logs::follow(client, &logs, true, caller).await?;
    }
    let (mut retry, mut progress) = (Retry::new(), Progress::new());
    loop {
        let target = if wanted.watch { target.clone() } else { target.clone().query("wait_seconds", WAIT) };
        let job: Job = match client.json(Call::get(target)).await {
            Ok(job) => job,
            Err(error) => {
                // The job is the state directory's: the next server goes on with it.
                retry.after(error).await?;
                client.revive().await?;
                continue;
            }
        };
        retry.succeeded();
        if wanted.watch {
            progress.show(&job, caller);
        }
        if job.state.has_ended() {
            return Ok(job);
        }
        if wanted.watch {
            tokio::time::sleep(LOOK).await;
        }
    }
}

async fn tell(
    client: &Client,
    job: &Job,
    wanted: &Wanted,
    caller: &mut Caller<'_>,
) -> Result<i32, CommandError> {
    let only = job.tasks.total == 1 && job.spec.best_of.is_none();
    let tasks = if wanted.json || only { all_tasks(client, &job.id).await? } else { Vec::new() };
    let code = code(job, tasks.first().filter(|_| only));
    if wanted.json {
        print_json(&serde_json::json!({ "job": job, "tasks": tasks }), caller)?;
        return Ok(code);
    }
    match tasks.first().filter(|_| only) {
        Some(task) => {
            if wanted.watch {
                let logs = Target::new("/v1/jobs").part(&job.id).part("logs");
                logs::follow(client, &logs, false, caller).await?;
            }
            if let Some(result) = &task.result {
                print(&render::json::line(result)?, caller)?;
            }
        }
        None => {
            print(&render::jobs::summary(job, caller.colour_on_stdout()), caller)?;
            if let Some(task) = first_failed(client, job).await? {
                let _ = caller.stderr.write_all(render::jobs::last_words(&task).as_bytes());
            }
        }
    }
    if job.state != JobState::Succeeded {
        let why = job.reason.as_deref().unwrap_or(job.state.word());
        let _ = writeln!(
            caller.stderr,
            "paddock: job {} {}: {}",
            job.id,
            job.state.word(),
            render::escape::line(why)
        );
    }
    Ok(code)
}

/// One of the tasks that failed: its output says more than its exit code.
async fn first_failed(client: &Client, job: &Job) -> Result<Option<JobTask>, ClientError> {
    if job.tasks.failed == 0 {
        return Ok(None);
    }
    let target =
        Target::new("/v1/jobs").part(&job.id).part("tasks").query("state", "failed").query("limit", "1");
    let page: JobTaskPage = client.json(Call::get(target)).await?;
    Ok(page.tasks.into_iter().next())
}

pub async fn all_tasks(client: &Client, id: &str) -> Result<Vec<JobTask>, ClientError> {
    let (mut all, mut from) = (Vec::new(), 0);
    loop {
        let target = Target::new("/v1/jobs").part(id).part("tasks").query("limit", "1000");
        let page: JobTaskPage = client.json(Call::get(target.query("from", &from.to_string()))).await?;
        all.extend(page.tasks);
        match page.next {
            Some(next) if next > from => from = next,
            _ => return Ok(all),
        }
    }
}

fn code(job: &Job, only: Option<&JobTask>) -> i32 {
    let end = only.and_then(|task| task.attempts.last()?.end);
    match (job.state, end) {
        (JobState::Succeeded, _) => 0,
        (JobState::Cancelled, _) => CANCELLED,
        (_, Some(AttemptEnd::Timeout)) => TIMED_OUT,
        (_, Some(AttemptEnd::OutOfMemory)) => KILLED,
        (_, Some(AttemptEnd::Exit)) => {
            only.and_then(|task| task.exit_code).filter(|code| *code != 0).unwrap_or(1)
        }
        (_, Some(_)) => PADDOCK_FAILED,
        (_, None) => 1,
    }
}
