//! Snapshots, which are templates to E2B, and forks.

use super::errors::{Refusal, Result};
use super::fork_labels;
use super::json::Json;
use super::listing::{next, page_limit, parsed};
use super::sandboxes::find;
use super::timestamps::seconds;
use super::views;
use crate::app::App;
use crate::auth::Caller;
use crate::errors::hide_host_of;
use axum::Json as Answer;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use paddock_model::api::{CreateSnapshot, Fork, NotForked, Snapshot};
use paddock_records::store::SnapshotFilter;
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
    let request = CreateSnapshot { name: wanted.name, live: false, memory: wanted.memory };
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
    let filter = SnapshotFilter { name: wanted.name, sandbox: wanted.sandbox_id };
    let page = app.fleet().snapshots(&actor, &filter, limit, wanted.next_token.as_deref()).await?;
    let found = page.snapshots.iter().map(described).collect();
    Ok((next(page.next_cursor), Answer(found)))
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
    let request = Fork { count: Some(count), ttl_seconds, partial: true, ..Fork::default() };
    let labels = fork_labels::of(&sandbox.metadata);
    let mut forked = app.fleet().fork_labelled(&actor, &sandbox.id, request, labels, None).await?;
    hide_host_of(&mut forked.failed);
    let children =
        forked.sandboxes.iter().map(|child| json!({ "sandbox": views::opened(&app, &actor, child) }));
    Ok((StatusCode::CREATED, Answer(in_their_places(children.collect(), &forked.failed))))
}

/// E2B's list has an error in the place of a fork that was not made.
fn in_their_places(mut results: Vec<Value>, failed: &[NotForked]) -> Vec<Value> {
    // In ascending order, so that each finds the places before its own taken.
    for one in failed {
        let message =
            one.hint.as_ref().map_or_else(|| one.message.clone(), |hint| format!("{}; {hint}", one.message));
        let place = results.len().min(one.place as usize);
        results.insert(place, json!({ "error": { "code": one.status, "message": message } }));
    }
    results
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_stands_in_the_place_of_its_fork() {
        let failed = [(0, None), (2, Some("wait"))].map(|(place, hint)| NotForked {
            place,
            status: 429,
            code: "quota_exceeded".into(),
            message: "full".into(),
            hint: hint.map(String::from),
            retry_after_seconds: Some(5),
        });
        let results = in_their_places(vec![json!("first"), json!("second")], &failed);
        let error = |message: &str| json!({ "error": { "code": 429, "message": message } });
        assert_eq!(results, [error("full"), json!("first"), error("full; wait"), json!("second")]);
        assert_eq!(in_their_places(Vec::new(), &failed[..1]), [error("full")]);
    }
}
