//! Jobs: work that is described once, queued, and outlives the client that sent it.

use crate::app::App;
use crate::auth::Caller;
use crate::errors::Failure;
use crate::extract::{Json, NoQuery, Query, Target, idempotency_key};
use crate::sandboxes::page_limit;
use crate::stream;
use axum::Json as Answer;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use paddock_jobs::{ListJobs, LogsOf};
use paddock_model::api::{Job, JobArtifacts, JobPage, JobSpec, JobState, JobTask, JobTaskPage, OutputEvent};
use serde::Deserialize;
use std::time::Duration;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Longest that one request waits for the end of a job.
const LONGEST_WAIT: f64 = 60.0;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(submit_job, list_jobs))
        .routes(routes!(get_job, remove_job))
        .routes(routes!(cancel_job))
        .routes(routes!(list_job_tasks))
        .routes(routes!(get_job_task))
        .routes(routes!(job_logs))
        .routes(routes!(list_job_artifacts))
        .routes(routes!(read_job_artifact))
}

/// Submit a job
///
/// Answers when it is stored: from then on it runs, whatever becomes of the caller and of the server.
#[utoipa::path(post, path = "/v1/jobs", tag = "jobs",
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key gives the same job again")),
    request_body = JobSpec,
    responses((status = 201, body = Job), (status = 409, body = paddock_model::api::ApiError)))]
async fn submit_job(
    State(app): State<App>,
    Caller(actor): Caller,
    headers: HeaderMap,
    _: NoQuery,
    Json(spec): Json<JobSpec>,
) -> Result<(StatusCode, Answer<Job>), Failure> {
    let key = idempotency_key(&headers)?;
    Ok((StatusCode::CREATED, Answer(app.jobs().submit(&actor, spec, key).await?)))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Listing {
    /// Only in this state.
    #[serde(default)]
    state: Option<JobState>,
    /// 1 to 1000; default 100.
    #[serde(default)]
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// `next_cursor` of the page before.
    #[serde(default)]
    cursor: Option<String>,
}

/// List jobs, newest first
#[utoipa::path(get, path = "/v1/jobs", tag = "jobs", params(Listing), responses((status = 200, body = JobPage)))]
async fn list_jobs(
    State(app): State<App>,
    Caller(actor): Caller,
    Query(listing): Query<Listing>,
) -> Result<Answer<JobPage>, Failure> {
    let limit = page_limit(listing.limit)?;
    let wanted = ListJobs { state: listing.state, limit, cursor: listing.cursor };
    Ok(Answer(app.jobs().list(&actor, &wanted).await?))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Waiting {
    /// Answer when it has ended, or after so long.
    #[serde(default)]
    #[param(minimum = 0.0, maximum = 60.0)]
    wait_seconds: Option<f64>,
}

/// One job
#[utoipa::path(get, path = "/v1/jobs/{job}", tag = "jobs",
    params(("job" = String, Path, description = "Id"), Waiting), responses((status = 200, body = Job)))]
async fn get_job(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(job): Target,
    Query(waiting): Query<Waiting>,
) -> Result<Answer<Job>, Failure> {
    let patience = match waiting.wait_seconds {
        Some(seconds) if !(0.0..=LONGEST_WAIT).contains(&seconds) => {
            let message = format!("parameter `wait_seconds`: {seconds} is not 0 to {LONGEST_WAIT}");
            return Err(Failure::invalid(message));
        }
        seconds => seconds.map(Duration::from_secs_f64),
    };
    tokio::select! {
        biased;
        () = app.ending().cancelled(), if patience.is_some() => Err(Failure::shutting_down()),
        found = app.jobs().get(&actor, &job, patience) => Ok(Answer(found?)),
    }
}

/// Remove a job that has ended, with its artifacts
#[utoipa::path(delete, path = "/v1/jobs/{job}", tag = "jobs",
    params(("job" = String, Path, description = "Id")), responses((status = 200, body = Job)))]
async fn remove_job(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(job): Target,
    _: NoQuery,
) -> Result<Answer<Job>, Failure> {
    Ok(Answer(app.jobs().remove(&actor, &job).await?))
}

/// Cancel a job
///
/// A task that waits is not begun, one that runs is stopped. One that has ended stays as it is.
#[utoipa::path(post, path = "/v1/jobs/{job}/cancel", tag = "jobs",
    params(("job" = String, Path, description = "Id")), responses((status = 200, body = Job)))]
async fn cancel_job(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(job): Target,
    _: NoQuery,
) -> Result<Answer<Job>, Failure> {
    Ok(Answer(app.jobs().cancel(&actor, &job).await?))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct TaskListing {
    /// Only in this state.
    #[serde(default)]
    state: Option<JobState>,
    /// From this number on: `next` of the page before.
    #[serde(default)]
    from: u32,
    /// 1 to 1000; default 100.
    #[serde(default)]
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// The tasks of a job, in their order
#[utoipa::path(get, path = "/v1/jobs/{job}/tasks", tag = "jobs",
    params(("job" = String, Path, description = "Id"), TaskListing),
    responses((status = 200, body = JobTaskPage)))]
async fn list_job_tasks(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(job): Target,
    Query(listing): Query<TaskListing>,
) -> Result<Answer<JobTaskPage>, Failure> {
    let limit = page_limit(listing.limit)?;
    Ok(Answer(app.jobs().tasks(&actor, &job, listing.from, limit, listing.state).await?))
}

/// One task, with its attempts
#[utoipa::path(get, path = "/v1/jobs/{job}/tasks/{index}", tag = "jobs",
    params(("job" = String, Path, description = "Id"), ("index" = u32, Path, description = "From 0")),
    responses((status = 200, body = JobTask)))]
async fn get_job_task(
    State(app): State<App>,
    Caller(actor): Caller,
    Target((job, index)): Target<(String, u32)>,
    _: NoQuery,
) -> Result<Answer<JobTask>, Failure> {
    Ok(Answer(app.jobs().task(&actor, &job, index).await?))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Logs {
    /// Default 0.
    #[serde(default)]
    task: u32,
    /// Default: the last one there is; with `follow` those that come after it too.
    #[serde(default)]
    attempt: Option<u32>,
    /// Wait for what is still to be printed, and for a task that has not begun.
    #[serde(default)]
    follow: bool,
}

/// Output of a task, as lines of JSON
#[utoipa::path(get, path = "/v1/jobs/{job}/logs", tag = "jobs",
    params(("job" = String, Path, description = "Id"), Logs),
    responses((status = 200, content_type = "application/x-ndjson", body = OutputEvent)))]
async fn job_logs(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(job): Target,
    Query(logs): Query<Logs>,
) -> Result<Response, Failure> {
    let wanted = LogsOf { task: logs.task, attempt: logs.attempt, follow: logs.follow };
    let reader = app.jobs().logs(&actor, &job, wanted).await?;
    Ok(stream::job_logs(&app, reader, logs.follow))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Artifacts {
    /// Only this one's; default: all.
    #[serde(default)]
    task: Option<u32>,
}

/// The files that a job's tasks left
#[utoipa::path(get, path = "/v1/jobs/{job}/artifacts", tag = "jobs",
    params(("job" = String, Path, description = "Id"), Artifacts),
    responses((status = 200, body = JobArtifacts)))]
async fn list_job_artifacts(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(job): Target,
    Query(artifacts): Query<Artifacts>,
) -> Result<Answer<JobArtifacts>, Failure> {
    Ok(Answer(app.jobs().artifacts(&actor, &job, artifacts.task).await?))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Artifact {
    /// As the list has it.
    path: String,
    /// Default 0.
    #[serde(default)]
    task: u32,
}

/// One of those files
#[utoipa::path(get, path = "/v1/jobs/{job}/artifacts/content", tag = "jobs",
    params(("job" = String, Path, description = "Id"), Artifact),
    responses((status = 200, content_type = "application/octet-stream", body = [u8])))]
async fn read_job_artifact(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(job): Target,
    Query(artifact): Query<Artifact>,
) -> Result<Response, Failure> {
    let (_, file) = app.jobs().artifact(&actor, &job, artifact.task, &artifact.path).await?;
    Ok(stream::download(&app, file, stream::OCTETS))
}
