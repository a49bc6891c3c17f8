//! The life of a sandbox: look, connect, prolong, pause, end.

use super::errors::{Refusal, Result};
use super::json::Json;
use super::labels::TEMPLATE_LABEL;
use super::timestamps::seconds;
use super::views;
use crate::app::App;
use crate::auth::Caller;
use axum::Json as Answer;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use paddock_fleet::{Actor, FleetError, Visit};
use paddock_model::api::{self, Extend, Hibernate, Resume, Sandbox, SandboxState};
use serde::Deserialize;
use serde_json::Value;
use std::time::{SystemTime, UNIX_EPOCH};

const TIMEOUT_SECONDS: f64 = 300.0;
/// A paused sandbox waits so long for somebody to resume it.
const PAUSED_SECONDS: f64 = 30.0 * 86_400.0;
const FILES_ALONE: Hibernate = Hibernate { memory: Some(false), ttl_seconds: Some(PAUSED_SECONDS) };

/// One that lives and is the caller's.
pub async fn find(app: &App, actor: &Actor, id: &str) -> Result<Sandbox> {
    match app.fleet().get(actor, id).await {
        Ok(sandbox) if sandbox.state != SandboxState::Ended => Ok(sandbox),
        Err(error) if error.code != "sandbox_not_found" => Err(error.into()),
        _ => Err(Refusal::no_sandbox(id)),
    }
}

pub async fn get(
    State(app): State<App>,
    Caller(actor): Caller,
    Path(id): Path<String>,
) -> Result<Answer<Value>> {
    let sandbox = find(&app, &actor, &id).await?;
    Ok(Answer(views::detail(&app, &actor, &sandbox)))
}

pub async fn kill(
    State(app): State<App>,
    Caller(actor): Caller,
    Path(id): Path<String>,
) -> Result<StatusCode> {
    let sandbox = find(&app, &actor, &id).await?;
    app.fleet().kill(&actor, &sandbox.id).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Deserialize)]
pub struct Connect {
    #[serde(default)]
    timeout: Option<f64>,
    /// False: to begin anew with the files alone.
    #[serde(default)]
    memory: Option<bool>,
}

/// Resumes one that is paused, which then lives as long as was asked; never shortens the life of one that runs.
pub async fn connect(
    State(app): State<App>,
    Caller(actor): Caller,
    Path(id): Path<String>,
    Json(wanted): Json<Connect>,
) -> Result<(StatusCode, Answer<Value>)> {
    let sandbox = find(&app, &actor, &id).await?;
    let timeout = seconds(wanted.timeout.unwrap_or(TIMEOUT_SECONDS));
    let was_paused = matches!(sandbox.state, SandboxState::Paused | SandboxState::Hibernated);
    if was_paused && wanted.memory == Some(false) {
        if sandbox.state == SandboxState::Paused {
            app.fleet().resume(&actor, &sandbox.id, Resume::default()).await?;
        }
        app.fleet().hibernate(&actor, &sandbox.id, FILES_ALONE).await?;
    }
    let ends = sandbox.expires_at_ms.map(|at| at as f64 / 1000.0);
    let sandbox = match ends {
        // In one step: a client that goes away leaves none that runs with the time of one that was paused.
        _ if was_paused => wake_up(&app, &actor, &id, Resume { ttl_seconds: ends.map(|_| timeout) }).await?,
        Some(ends) if ends < now_seconds() + timeout => {
            app.fleet().extend(&actor, &sandbox.id, Extend { ttl_seconds: timeout }).await?
        }
        _ => sandbox,
    };
    let status = if was_paused { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Answer(views::opened(&app, &actor, &sandbox))))
}

/// The sandbox as a request to its inside finds it: one that is paused is gone, unless it resumes by itself.
pub async fn running(app: &App, actor: &Actor, sandbox: Sandbox) -> Result<Sandbox> {
    match sandbox.state {
        SandboxState::Running => Ok(sandbox),
        SandboxState::Paused | SandboxState::Hibernated if views::auto_resumes(&sandbox) => {
            Ok(wake_up(app, actor, &sandbox.id, Resume::default()).await?)
        }
        _ => Err(Refusal::gone(&sandbox.id)),
    }
}

/// A visitor without a token at a public port: as any request to the inside of a sandbox of this dialect. `None`: another made the sandbox.
pub async fn let_in(app: &App, visit: &Visit) -> Option<Result<()>> {
    visit.sandbox.metadata.get(TEMPLATE_LABEL)?;
    Some(running(app, &visit.admitted.actor, visit.sandbox.clone()).await.map(drop))
}

async fn wake_up(
    app: &App,
    actor: &Actor,
    id: &str,
    how: Resume,
) -> std::result::Result<Sandbox, FleetError> {
    match app.fleet().get(actor, id).await?.state {
        SandboxState::Paused => app.fleet().resume(actor, id, how).await,
        _ => app.fleet().wake(actor, id, how).await,
    }
}

#[derive(Debug, Deserialize)]
pub struct SetTimeout {
    timeout: f64,
}

pub async fn set_timeout(
    State(app): State<App>,
    Caller(actor): Caller,
    Path(id): Path<String>,
    Json(wanted): Json<SetTimeout>,
) -> Result<StatusCode> {
    let sandbox = find(&app, &actor, &id).await?;
    app.fleet().extend(&actor, &sandbox.id, Extend { ttl_seconds: seconds(wanted.timeout) }).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pause {
    /// False: the files alone are kept.
    #[serde(default)]
    memory: Option<bool>,
    /// Not where nothing inside answers.
    #[serde(default)]
    require_healthy_guest: bool,
}

/// With its memory it is frozen as it stands; without, it is hibernated. Either waits longer than one that runs.
pub async fn pause(
    State(app): State<App>,
    Caller(actor): Caller,
    Path(id): Path<String>,
    Json(wanted): Json<Pause>,
) -> Result<StatusCode> {
    let sandbox = find(&app, &actor, &id).await?;
    if sandbox.state != SandboxState::Running {
        let message = format!("sandbox {} is paused already", sandbox.id);
        return Err(Refusal::new(StatusCode::CONFLICT, "wrong_state", message));
    }
    let fleet = app.fleet();
    if wanted.require_healthy_guest {
        let looked = fleet.stat(&actor, &sandbox.id, "/", None).await;
        looked.map_err(|_| {
            let message = format!("nothing inside sandbox {} answers, so it goes on as it is", sandbox.id);
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "guest_lost", message)
        })?;
    }
    match wanted.memory {
        Some(false) => fleet.hibernate(&actor, &sandbox.id, FILES_ALONE).await?,
        _ => {
            let how =
                api::Pause { ttl_seconds: Some(PAUSED_SECONDS), auto_resume: views::auto_resumes(&sandbox) };
            fleet.pause(&actor, &sandbox.id, how).await?
        }
    };
    Ok(StatusCode::NO_CONTENT)
}

fn now_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
