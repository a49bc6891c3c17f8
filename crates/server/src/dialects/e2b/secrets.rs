//! Secrets as E2B's SDKs keep them. A value goes in and never comes out.

use super::errors::{Refusal, Result};
use super::json::Json;
use super::listing::{next, page_limit, parsed};
use super::timestamps::rfc3339_unsigned;
use crate::app::App;
use crate::auth::Caller;
use crate::errors::shorten;
use axum::Json as Answer;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use paddock_fleet::FleetError;
use paddock_model::SecretValue;
use paddock_model::api::{CreateSecret, Secret, UpdateSecret};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The key of the metadata that names the hosts of a secret, with commas between them.
const HOSTS: &str = "hosts";

#[derive(Debug, Deserialize)]
pub struct NewSecret {
    name: String,
    value: SecretValue,
    #[serde(default)]
    metadata: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Deserialize)]
pub struct NewValue {
    value: SecretValue,
    /// Absent: as before.
    #[serde(default)]
    metadata: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Wanted {
    limit: Option<usize>,
    next_token: Option<String>,
}

pub async fn create(
    State(app): State<App>,
    Caller(actor): Caller,
    Json(wanted): Json<NewSecret>,
) -> Result<(StatusCode, Answer<Value>)> {
    let NewSecret { name, value, metadata } = wanted;
    let metadata = metadata.unwrap_or_default();
    let request = CreateSecret { name, value, hosts: hosts(&metadata).unwrap_or_default(), metadata };
    let made = app.fleet().create_secret(&actor, request)?;
    Ok((StatusCode::CREATED, Answer(described(&made))))
}

pub async fn list(
    State(app): State<App>,
    Caller(actor): Caller,
    uri: Uri,
) -> Result<(HeaderMap, Answer<Vec<Value>>)> {
    let wanted: Wanted = parsed(&uri)?;
    let page = app.fleet().secrets(&actor, page_limit(wanted.limit)?, wanted.next_token.as_deref())?;
    Ok((next(page.next_cursor), Answer(page.secrets.iter().map(described).collect())))
}

pub async fn get(
    State(app): State<App>,
    Caller(actor): Caller,
    Path(key): Path<String>,
) -> Result<Answer<Value>> {
    let found = app.fleet().secret(&actor, &key).map_err(|error| refused(&key, error))?;
    Ok(Answer(described(&found)))
}

pub async fn update(
    State(app): State<App>,
    Caller(actor): Caller,
    Path(key): Path<String>,
    Json(wanted): Json<NewValue>,
) -> Result<Answer<Value>> {
    let hosts = wanted.metadata.as_ref().and_then(hosts);
    let request = UpdateSecret { value: wanted.value, metadata: wanted.metadata, hosts };
    let now = app.fleet().update_secret(&actor, &key, request).map_err(|error| refused(&key, error))?;
    Ok(Answer(described(&now)))
}

pub async fn delete(
    State(app): State<App>,
    Caller(actor): Caller,
    Path(key): Path<String>,
) -> Result<StatusCode> {
    app.fleet().remove_secret(&actor, &key).map_err(|error| refused(&key, error))?;
    Ok(StatusCode::NO_CONTENT)
}

/// E2B's secrets go to every host that a rule names; here a secret is bound to hosts, and its metadata can say them.
fn hosts(metadata: &BTreeMap<String, String>) -> Option<Vec<String>> {
    let named = metadata.get(HOSTS)?.split(',').map(str::trim).filter(|host| !host.is_empty());
    Some(named.map(String::from).collect())
}

fn refused(key: &str, error: FleetError) -> Refusal {
    match error.code {
        "secret_not_found" => Refusal::new(
            StatusCode::NOT_FOUND,
            "secret_not_found",
            format!("there is no secret {:?}", shorten(key)),
        ),
        _ => error.into(),
    }
}

fn described(secret: &Secret) -> Value {
    json!({
        "secretID": secret.id,
        "name": secret.name,
        "currentVersion": secret.version,
        "metadata": secret.metadata,
        "createdAt": rfc3339_unsigned(secret.created_at_ms),
        "updatedAt": rfc3339_unsigned(secret.updated_at_ms),
    })
}
