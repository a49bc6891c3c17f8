//! `paddock job`: work that is described once and runs behind any fence.

use super::remote::{each, with_client};
use super::{CommandError, print, print_json};
use crate::args::job::{JobAction, JobRunArgs};
use crate::caller::Caller;
use crate::client::{self, Call, Client, ClientError, Target};
use crate::copy::{CopyError, download};
use crate::job::{self, LocalServer, Wanted};
use crate::render;
use crate::render::time::now_ms;
use paddock_client::Method;
use paddock_model::api::{Job, JobArtifact, JobArtifacts, JobPage, JobState};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

pub fn execute(action: JobAction, caller: &mut Caller) -> Result<i32, CommandError> {
    let action = match action {
        JobAction::Run(args) => return run(args, caller),
        other => other,
    };
    with_client(caller, async |client, caller| {
        let colour = caller.colour_on_stdout();
        match action {
            JobAction::Run(_) => {}
            JobAction::Ls { state, json } => {
                let jobs = all(&client, state.map(JobState::from)).await?;
                match json {
                    true => print_json(&jobs, caller)?,
                    false => print(&render::jobs::list(&jobs, now_ms(), colour), caller)?,
                }
            }
            JobAction::Show { id, state, json } => {
                let job: Job = client.json(Call::get(target(&id))).await?;
                let mut tasks = job::all_tasks(&client, &id).await?;
                tasks.retain(|task| state.is_none_or(|state| JobState::from(state) == task.state));
                match json {
                    true => print_json(&serde_json::json!({ "job": job, "tasks": tasks }), caller)?,
                    false => print(&render::jobs::show(&job, &tasks, now_ms(), colour), caller)?,
                }
            }
            JobAction::Logs { id, task, attempt, follow } => {
                let attempt = attempt.map(|attempt| attempt.to_string());
                let target = target(&id).part("logs").query("task", &task.to_string());
                let target = target.query_if("attempt", attempt.as_deref());
                let target = target.query("follow", if follow { "true" } else { "false" });
                job::follow(&client, &target, follow, caller).await?;
            }
            JobAction::Artifacts { id, task, to, json } => {
                let task = task.map(|task| task.to_string());
                let listed = Call::get(target(&id).part("artifacts").query_if("task", task.as_deref()));
                let listed: JobArtifacts = client.json(listed).await?;
                if listed.truncated {
                    let _ = writeln!(caller.stderr, "paddock: there are more: name a task");
                }
                if let Some(to) = &to {
                    for artifact in &listed.artifacts {
                        fetch(&client, &id, artifact, to).await?;
                    }
                }
                match json {
                    true => print_json(&listed.artifacts, caller)?,
                    false => print(&render::jobs::artifacts(&listed.artifacts, colour), caller)?,
                }
            }
            JobAction::Cancel { ids } => {
                return each(&ids, caller, async |id, caller| {
                    let call = Call::new(Method::POST, target(id).part("cancel"));
                    let job: Job = client.json(call).await?;
                    print(&format!("{}\n", job.id), caller)
                })
                .await;
            }
            JobAction::Rm { ids } => {
                return each(&ids, caller, async |id, caller| {
                    let job: Job = client.json(Call::new(Method::DELETE, target(id))).await?;
                    print(&format!("{}\n", job.id), caller)
                })
                .await;
            }
        }
        Ok(0)
    })
}

fn run(args: JobRunArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    let wanted = Wanted::read(args, caller)?;
    let local = if wanted.detach { None } else { job::is_needed(&caller.environment)? };
    let Some((state_dir, socket)) = local else {
        return with_client(caller, async |client, caller| job::run(&client, wanted, caller).await);
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(ClientError::Runtime)?;
    let result = runtime.block_on(async {
        let server = LocalServer::start(state_dir, socket, caller.backends).await?;
        let client = client::find(&caller.environment)?;
        let code = job::run(&client, wanted, caller).await;
        // The server waits for connected clients.
        drop(client);
        if let Some(server) = server {
            server.end().await?;
        }
        code
    });
    runtime.shutdown_background();
    result
}

async fn all(client: &Client, state: Option<JobState>) -> Result<Vec<Job>, ClientError> {
    let (mut all, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let target =
            Target::new("/v1/jobs").query("limit", "200").query_if("state", state.map(JobState::word));
        let page: JobPage = client.json(Call::get(target.query_if("cursor", cursor.as_deref()))).await?;
        all.extend(page.jobs);
        match page.next_cursor {
            Some(next) if cursor.as_ref() != Some(&next) => cursor = Some(next),
            _ => return Ok(all),
        }
    }
}

/// The artifact's name came from inside: it must never lead out of the directory that was asked for.
async fn fetch(client: &Client, id: &str, artifact: &JobArtifact, to: &Path) -> Result<(), CommandError> {
    let parts: Vec<&str> = artifact.path.split('/').filter(|part| !part.is_empty()).collect();
    if parts.is_empty() || parts.iter().any(|part| matches!(*part, "." | "..") || part.contains('\0')) {
        return Err(CommandError::ArtifactPath(artifact.path.clone()));
    }
    let place = parts.iter().fold(to.join(artifact.task.to_string()), |place, part| place.join(part));
    let directory = place.parent().unwrap_or(to);
    let failed = |source| CopyError::Local { path: directory.to_path_buf(), source };
    std::fs::DirBuilder::new().recursive(true).mode(0o755).create(directory).map_err(failed)?;
    let target = target(id).part("artifacts").part("content").query("path", &artifact.path);
    let answer = client.send(Call::get(target.query("task", &artifact.task.to_string()))).await?;
    Ok(download::whole(answer, &place, 0o644).await?)
}

fn target(id: &str) -> Target {
    Target::new("/v1/jobs").part(id)
}
