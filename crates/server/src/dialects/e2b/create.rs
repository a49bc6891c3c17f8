//! A sandbox as E2B's SDKs ask for it.

use super::errors::{Refusal, Result};
use super::inside::HOME;
use super::json::Json;
use super::network::{Network, setting};
use super::views::{self, TEMPLATE_LABEL};
use crate::app::App;
use crate::auth::Caller;
use crate::errors::shorten;
use crate::extract::idempotency_key;
use axum::Json as Answer;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use paddock_fleet::Actor;
use paddock_model::api::CreateSandbox;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Names of E2B's own templates that are the built-in environment here.
const BUILT_IN: [&str; 3] = ["base", "code-interpreter-v1", "code-interpreter"];
const TIMEOUT_SECONDS: f64 = 300.0;
/// Of the older address.
const OLD_TIMEOUT_SECONDS: f64 = 15.0;
/// The fleet refuses a time to live of zero, so that this stands for it.
const SHORTEST_SECONDS: f64 = 0.001;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewSandbox {
    #[serde(rename = "templateID")]
    template_id: String,
    #[serde(default)]
    timeout: Option<f64>,
    #[serde(default)]
    auto_pause: Option<bool>,
    #[serde(default)]
    auto_resume: Option<AutoResume>,
    #[serde(default, rename = "allow_internet_access")]
    internet: Option<bool>,
    #[serde(default)]
    network: Option<Network>,
    #[serde(default)]
    metadata: Option<BTreeMap<String, String>>,
    #[serde(default)]
    env_vars: Option<BTreeMap<String, String>>,
    #[serde(default)]
    mcp: Option<Value>,
    #[serde(default)]
    iam: Option<Value>,
    #[serde(default)]
    volume_mounts: Option<Vec<Value>>,
}

#[derive(Debug, Deserialize)]
struct AutoResume {
    #[serde(default)]
    enabled: bool,
}

pub async fn create(
    State(app): State<App>,
    Caller(actor): Caller,
    uri: Uri,
    headers: HeaderMap,
    Json(wanted): Json<NewSandbox>,
) -> Result<(StatusCode, Answer<Value>)> {
    let key = idempotency_key(&headers)?;
    wanted.check()?;
    let default = if uri.path().starts_with("/v2/") { TIMEOUT_SECONDS } else { OLD_TIMEOUT_SECONDS };
    let request = CreateSandbox {
        ttl_seconds: Some(seconds(wanted.timeout.unwrap_or(default))),
        env: wanted.env_vars.clone().unwrap_or_default(),
        metadata: wanted.metadata.clone().unwrap_or_default(),
        network: Some(setting(wanted.internet, wanted.network.as_ref())?),
        ..from_template(&app, &actor, &wanted.template_id).await?
    };
    let labels = [(TEMPLATE_LABEL.to_string(), wanted.template_id)].into();
    let sandbox = app.fleet().create_labelled(&actor, request, labels, key).await?;
    Ok((StatusCode::CREATED, Answer(views::opened(&app, &actor, &sandbox))))
}

impl NewSandbox {
    /// Refuses by name what this server does not have.
    fn check(&self) -> Result<()> {
        let asked = [
            ("autoPause (lifecycle on_timeout \"pause\")", self.auto_pause == Some(true)),
            ("autoResume", self.auto_resume.as_ref().is_some_and(|resume| resume.enabled)),
            ("mcp", self.mcp.as_ref().is_some_and(|mcp| !mcp.is_null())),
            ("iam", self.iam.as_ref().is_some_and(|iam| !iam.is_null())),
            ("volumeMounts", self.volume_mounts.as_ref().is_some_and(|mounts| !mounts.is_empty())),
        ];
        match asked.iter().find(|(_, asked)| *asked) {
            Some((what, _)) => {
                Err(Refusal::invalid(format!("{what}: this server's E2B dialect does not have it")))
            }
            None => Ok(()),
        }
    }
}

/// E2B's own names are the built-in environment, unless somebody made a template of that name; a snapshot is a template too.
async fn from_template(app: &App, actor: &Actor, name: &str) -> Result<CreateSandbox> {
    if is_template(app, actor, name).await? {
        return Ok(CreateSandbox { template: Some(name.to_string()), ..CreateSandbox::default() });
    }
    if BUILT_IN.contains(&name) {
        return Ok(CreateSandbox { cwd: Some(HOME.into()), ..CreateSandbox::default() });
    }
    match app.fleet().snapshot(actor, name).await {
        Ok(snapshot) => Ok(CreateSandbox { snapshot: Some(snapshot.id), ..CreateSandbox::default() }),
        Err(_) => Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "template_not_found",
            format!(
                "template {:?} was not found: there is neither a template nor a snapshot of that name",
                shorten(name)
            ),
        )),
    }
}

/// Made on this server; the built-in one alone is none of these.
async fn is_template(app: &App, actor: &Actor, name: &str) -> Result<bool> {
    let made = app.fleet().templates(actor).await?;
    Ok(name != BUILT_IN[2] && made.iter().any(|template| template == name))
}

/// True if a sandbox can be made from the template of this name.
pub async fn has_template(app: &App, actor: &Actor, name: &str) -> Result<bool> {
    Ok(BUILT_IN.contains(&name)
        || is_template(app, actor, name).await?
        || app.fleet().snapshot(actor, name).await.is_ok())
}

/// A time to live that the fleet takes; what it does not take it refuses itself.
pub fn seconds(timeout: f64) -> f64 {
    if timeout == 0.0 { SHORTEST_SECONDS } else { timeout }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn what_the_sdks_send_is_understood() {
        for body in [
            json!({ "templateID": "base" }),
            json!({ "templateID": "base", "metadata": {}, "envVars": {} }),
            json!({ "templateID": "base", "timeout": 300, "secure": true, "allow_internet_access": true, "autoPause": false }),
        ] {
            from_value::<NewSandbox>(body).expect("valid").check().expect("to be had");
        }
        for (field, value) in [
            ("autoPause", json!(true)),
            ("autoResume", json!({ "enabled": true })),
            ("mcp", json!({ "a": 1 })),
            ("volumeMounts", json!([{ "name": "a", "path": "/a" }])),
        ] {
            let wanted: NewSandbox =
                from_value(json!({ "templateID": "base", field: value })).expect("valid");
            let refusal = wanted.check().expect_err(field);
            assert!(refusal.message().contains(field), "{}", refusal.message());
        }
    }
}
