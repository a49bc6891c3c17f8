//! Templates by their names and tags. The tenant's own are built through [`super::template_builds`]; others are the owner's.

use super::create::has_template;
use super::errors::{Refusal, Result};
use super::json::Json;
use super::timestamps::rfc3339_unsigned;
use crate::app::App;
use crate::auth::Caller;
use crate::errors::shorten;
use axum::Json as Answer;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use paddock_fleet::NewBuild;
use paddock_model::api::Template;
use serde::Deserialize;
use serde_json::{Value, json};

const MIB: u64 = 1 << 20;
const DEFAULT_TAG: &str = "default";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewTemplate {
    name: String,
    #[serde(default)]
    tags: Option<Vec<String>>,
    #[serde(default)]
    cpu_count: Option<f64>,
    #[serde(default, rename = "memoryMB")]
    memory_mb: Option<u64>,
    /// The disk that each of its sandboxes has at least.
    #[serde(default)]
    min_free_disk_mb: Option<u64>,
}

/// Notes a build; its steps come with another request.
pub async fn create(
    State(app): State<App>,
    Caller(actor): Caller,
    Json(wanted): Json<NewTemplate>,
) -> Result<(StatusCode, Answer<Value>)> {
    let new = NewBuild {
        name: wanted.name,
        tags: wanted.tags.unwrap_or_default(),
        cpus: wanted.cpu_count,
        memory_bytes: wanted.memory_mb.map(|mb| mb.saturating_mul(MIB)),
        min_free_disk_bytes: wanted
            .min_free_disk_mb
            .map(|mb| mb.saturating_mul(MIB))
            .filter(|bytes| *bytes > 0),
    };
    let build = app.fleet().request_build(&actor, new)?;
    let names = [&build.name];
    let body = json!({
        "templateID": build.template,
        "buildID": build.id,
        "public": false,
        "names": names,
        "tags": build.tags,
        "aliases": names,
    });
    Ok((StatusCode::ACCEPTED, Answer(body)))
}

pub async fn alias(
    State(app): State<App>,
    Caller(actor): Caller,
    Path(alias): Path<String>,
) -> Result<Answer<Value>> {
    if let Ok(template) = app.fleet().own_template(&actor, name_of(&alias)) {
        return Ok(Answer(json!({ "templateID": template.id, "public": false })));
    }
    match has_template(&app, &actor, &alias).await? {
        true => Ok(Answer(json!({ "templateID": alias, "public": false }))),
        false => Err(not_found(&alias)),
    }
}

/// Of a template of the tenant's own, or of a snapshot, which is a template to E2B. The owner's are removed with
/// `paddock template rm`.
pub async fn delete(
    State(app): State<App>,
    Caller(actor): Caller,
    Path(id): Path<String>,
) -> Result<StatusCode> {
    match app.fleet().delete_template(&actor, &id).await {
        Ok(()) => return Ok(StatusCode::NO_CONTENT),
        Err(error) if error.code == "template_not_found" => {}
        Err(error) => return Err(error.into()),
    }
    match app.fleet().delete_snapshot(&actor, &id).await {
        Ok(_) => Ok(StatusCode::NO_CONTENT),
        Err(error) if error.code == "snapshot_not_found" => Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "template_not_found",
            format!("there is no template and no snapshot {:?}", shorten(&id)),
        )),
        Err(error) => Err(error.into()),
    }
}

#[derive(Debug, Deserialize)]
pub struct NewTags {
    /// `NAME` or `NAME:TAG`.
    target: String,
    tags: Vec<String>,
}

pub async fn assign_tags(
    State(app): State<App>,
    Caller(actor): Caller,
    Json(wanted): Json<NewTags>,
) -> Result<(StatusCode, Answer<Value>)> {
    let template = app.fleet().own_template(&actor, name_of(&wanted.target))?;
    let tag = wanted.target.split_once(':').map_or(DEFAULT_TAG, |(_, tag)| tag);
    let Some(tagged) = template.tags.iter().find(|tagged| tagged.tag == tag) else {
        let message = format!("template {:?} has no tag {:?}", template.name, shorten(tag));
        return Err(Refusal::new(StatusCode::NOT_FOUND, "tag_not_found", message));
    };
    app.fleet().tag_template(&actor, &template.name, &tagged.build, &wanted.tags)?;
    Ok((StatusCode::CREATED, Answer(json!({ "tags": wanted.tags, "buildID": tagged.build }))))
}

#[derive(Debug, Deserialize)]
pub struct OldTags {
    name: String,
    tags: Vec<String>,
}

pub async fn remove_tags(
    State(app): State<App>,
    Caller(actor): Caller,
    Json(wanted): Json<OldTags>,
) -> Result<StatusCode> {
    app.fleet().untag_template(&actor, name_of(&wanted.name), &wanted.tags)?;
    Ok(StatusCode::NO_CONTENT)
}

pub async fn tags(
    State(app): State<App>,
    Caller(actor): Caller,
    Path(id): Path<String>,
) -> Result<Answer<Vec<Value>>> {
    let Template { tags, .. } = app.fleet().own_template(&actor, name_of(&id))?;
    let tag = |tag: &paddock_model::api::TemplateTag| json!({ "tag": tag.tag, "buildID": tag.build, "createdAt": rfc3339_unsigned(tag.created_at_ms) });
    Ok(Answer(tags.iter().map(tag).collect()))
}

/// Without the tag.
fn name_of(text: &str) -> &str {
    text.split_once(':').map_or(text, |(name, _)| name)
}

pub fn not_found(name: &str) -> Refusal {
    let message = format!("template {:?} was not found", shorten(name));
    Refusal::new(StatusCode::NOT_FOUND, "template_not_found", message)
}
