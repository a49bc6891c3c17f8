//! Snapshots, which are templates to E2B, and forks.

use super::create::{has_template, seconds};
use super::errors::{Refusal, Result};
use super::json::Json;
use super::listing::{next, page_limit, parsed};
use super::sandboxes::find;
use super::views;
use crate::app::App;
use crate::auth::Caller;
use crate::errors::shorten;
use axum::Json as Answer;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use paddock_model::api::{CreateSnapshot, Fork, Snapshot};
use serde::Deserialize;
use serde_json::{Value, json};

const FORK_TIMEOUT_SECONDS: f64 = 15.0;
const MOST_FORKS: u32 = 20;

#[derive(Debug, Deserialize)]
pub struct NewSnapshot {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    memory: Option<bool>,
}

pub async fn create(
    State(app): State<App>,
    Caller(actor): Caller,
    Path(id): Path<String>,
    Json(wanted): Json<NewSnapshot>,
) -> Result<(StatusCode, Answer<Value>)> {
    let sandbox = find(&app, &actor, &id).await?;
    if wanted.memory == Some(true) {
        return Err(Refusal::invalid(
            "memory: a snapshot of this server's E2B dialect keeps files, and no memory",
        ));
    }
    let request = CreateSnapshot { name: wanted.name, live: false };
    let snapshot = app.fleet().create_snapshot(&actor, &sandbox.id, request).await?;
    Ok((StatusCode::CREATED, Answer(described(&snapshot))))
}

fn described(snapshot: &Snapshot) -> Value {
    json!({ "snapshotID": snapshot.id, "names": snapshot.name.iter().collect::<Vec<_>>() })
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Wanted {
    #[serde(rename = "sandboxID")]
    sandbox_id: Option<String>,
    name: Option<String>,
    limit: Option<usize>,
    #[serde(rename = "nextToken")]
    next_token: Option<String>,
}

pub async fn list(
    State(app): State<App>,
    Caller(actor): Caller,
    uri: Uri,
) -> Result<(HeaderMap, Answer<Vec<Value>>)> {
    let wanted: Wanted = parsed(&uri)?;
    let limit = page_limit(wanted.limit)?;
    let page = app.fleet().snapshots(&actor, limit, wanted.next_token.as_deref()).await?;
    let fits = |snapshot: &&Snapshot| {
        wanted.sandbox_id.as_ref().is_none_or(|id| *id == snapshot.sandbox)
            && wanted.name.as_ref().is_none_or(|name| Some(name) == snapshot.name.as_ref())
    };
    let found = page.snapshots.iter().filter(fits).map(described).collect();
    Ok((next(page.next_cursor), Answer(found)))
}

/// Of a snapshot. Templates are their owner's, and are removed with `paddock template rm`.
pub async fn delete(
    State(app): State<App>,
    Caller(actor): Caller,
    Path(id): Path<String>,
) -> Result<StatusCode> {
    match app.fleet().delete_snapshot(&actor, &id).await {
        Ok(_) => Ok(StatusCode::NO_CONTENT),
        Err(error) if error.code == "snapshot_not_found" => Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "snapshot_not_found",
            format!("there is no snapshot {:?}", shorten(&id)),
        )),
        Err(error) => Err(error.into()),
    }
}

pub async fn alias(
    State(app): State<App>,
    Caller(actor): Caller,
    Path(alias): Path<String>,
) -> Result<Answer<Value>> {
    match has_template(&app, &actor, &alias).await? {
        true => Ok(Answer(json!({ "templateID": alias, "public": false }))),
        false => Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "template_not_found",
            format!("template {:?} was not found", shorten(&alias)),
        )),
    }
}

#[derive(Debug, Deserialize)]
pub struct NewFork {
    #[serde(default)]
    timeout: Option<f64>,
    #[serde(default)]
    count: Option<u32>,
}

pub async fn fork(
    State(app): State<App>,
    Caller(actor): Caller,
    Path(id): Path<String>,
    Json(wanted): Json<NewFork>,
) -> Result<(StatusCode, Answer<Vec<Value>>)> {
    let sandbox = find(&app, &actor, &id).await?;
    let count = wanted.count.unwrap_or(1);
    if !(1..=MOST_FORKS).contains(&count) {
        return Err(Refusal::invalid(format!("count: {count} is not 1 to {MOST_FORKS}")));
    }
    let ttl_seconds = Some(seconds(wanted.timeout.unwrap_or(FORK_TIMEOUT_SECONDS)));
    let request = Fork { count: Some(count), ttl_seconds, ..Fork::default() };
    let forked = app.fleet().fork(&actor, &sandbox.id, request, None).await?;
    let children =
        forked.sandboxes.iter().map(|child| json!({ "sandbox": views::opened(&app, &actor, child) }));
    Ok((StatusCode::CREATED, Answer(children.collect())))
}
