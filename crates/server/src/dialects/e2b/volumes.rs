//! Volumes as E2B's SDKs make, find and remove them. A volume's id is its name, which is unique within a tenant.

use super::errors::{Refusal, Result};
use super::grants;
use super::json::Json;
use crate::app::App;
use crate::auth::Caller;
use crate::errors::shorten;
use axum::Json as Answer;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use paddock_fleet::{Actor, FleetError};
use paddock_model::api::{OnFailure, Volume, VolumeMode, VolumeMount};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Debug, Deserialize)]
pub struct NewVolume {
    name: String,
}

/// A volume in a new sandbox.
#[derive(Debug, Clone, Deserialize)]
pub struct Mount {
    name: String,
    path: String,
}

pub async fn create(
    State(app): State<App>,
    Caller(actor): Caller,
    Json(wanted): Json<NewVolume>,
) -> Result<(StatusCode, Answer<Value>)> {
    let volume = app.fleet().create_volume(&actor, &wanted.name).await?;
    Ok((StatusCode::CREATED, Answer(opened(&app, &actor, &volume))))
}

/// All at once: E2B's SDKs ask for no pages here.
pub async fn list(State(app): State<App>, Caller(actor): Caller) -> Result<Answer<Vec<Value>>> {
    let volumes = app.fleet().volumes(&actor).await?;
    Ok(Answer(volumes.iter().map(listed).collect()))
}

pub async fn get(
    State(app): State<App>,
    Caller(actor): Caller,
    Path(id): Path<String>,
) -> Result<Answer<Value>> {
    let volume = find(&app, &actor, &id).await?;
    Ok(Answer(opened(&app, &actor, &volume)))
}

pub async fn delete(
    State(app): State<App>,
    Caller(actor): Caller,
    Path(id): Path<String>,
) -> Result<StatusCode> {
    let volume = find(&app, &actor, &id).await?;
    app.fleet().remove_volume(&actor, &volume.name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// One of the caller's own. `TENANT/NAME`, which `/v1` takes for a shared one, is no id here.
pub async fn find(app: &App, actor: &Actor, id: &str) -> Result<Volume> {
    if id.contains('/') {
        return Err(not_found(id));
    }
    match app.fleet().volume(actor, id).await {
        Ok(volume) => Ok(volume),
        Err(error) if is_missing(&error) => Err(not_found(id)),
        Err(error) => Err(error.into()),
    }
}

/// The mounts of a new sandbox. A volume that does not exist is refused, and not made. As with E2B, everything that was written stays,
/// whatever the end of the sandbox.
pub async fn mounts(
    app: &App,
    actor: &Actor,
    wanted: &[Mount],
    home: Option<&str>,
) -> Result<Vec<VolumeMount>> {
    let mut mounts = Vec::with_capacity(wanted.len());
    for mount in wanted {
        let volume = find(app, actor, &mount.name).await?;
        mounts.push(VolumeMount {
            name: volume.name,
            path: inside(&mount.path, home),
            mode: VolumeMode::Rw,
            on_failure: OnFailure::Commit,
            checkpoint_seconds: None,
            version: None,
        });
    }
    Ok(mounts)
}

/// E2B's home directory is a link in the built-in environment, and a volume cannot stand behind a link.
fn inside(path: &str, home: Option<&str>) -> String {
    let below = path.strip_prefix(super::inside::HOME).filter(|rest| rest.starts_with('/'));
    match (below, home) {
        (Some(rest), Some(home)) => format!("{home}{rest}"),
        _ => path.to_string(),
    }
}

fn opened(app: &App, actor: &Actor, volume: &Volume) -> Value {
    let mut view = listed(volume);
    view["token"] = json!(grants::volume_token(app, &volume.name, &volume.id, &actor.token));
    view
}

fn listed(volume: &Volume) -> Value {
    json!({ "volumeID": volume.name, "name": volume.name })
}

fn is_missing(error: &FleetError) -> bool {
    error.code == "volume_not_found" || error.code == "invalid_request"
}

pub fn not_found(id: &str) -> Refusal {
    let message = format!("there is no volume {:?}", shorten(id));
    Refusal::new(StatusCode::NOT_FOUND, "volume_not_found", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_home_directory_is_where_it_really_is() {
        assert_eq!(inside("/home/user/data", Some("/home/agent")), "/home/agent/data");
        assert_eq!(inside("/home/users/data", Some("/home/agent")), "/home/users/data");
        assert_eq!(inside("/home/user/data", None), "/home/user/data");
        assert_eq!(inside("/mnt/data", Some("/home/agent")), "/mnt/data");
    }
}
