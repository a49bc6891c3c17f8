//! A sandbox as E2B's SDKs ask for it.

use super::errors::{Refusal, Result};
use super::inside::HOME;
use super::json::Json;
use super::labels::{AUTO_RESUME_LABEL, TEMPLATE_LABEL, USER_LABEL};
use super::network::{self, Network, setting};
use super::timestamps::seconds;
use super::{ports, versions, views, volumes};
use crate::app::App;
use crate::auth::Caller;
use crate::errors::shorten;
use crate::extract::idempotency_key;
use axum::Json as Answer;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use paddock_fleet::{Actor, FoundTemplate};
use paddock_model::api::{CreateSandbox, TtlAction};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Names of E2B's own templates that are the built-in environment here.
pub const BUILT_IN: [&str; 3] = ["base", "code-interpreter-v1", "code-interpreter"];
/// Until it is built, the built-in environment stands in for it: the host's /usr has what its programs use.
const REPLACED_UNTIL_BUILT: &str = BUILT_IN[0];
/// Where the home directory of E2B's user leads to in the built-in environment.
const HOME_OF_AGENT: &str = "/home/agent";
const TIMEOUT_SECONDS: f64 = 300.0;
/// Of the older address.
const OLD_TIMEOUT_SECONDS: f64 = 15.0;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewSandbox {
    #[serde(rename = "templateID")]
    template_id: String,
    #[serde(default)]
    timeout: Option<f64>,
    #[serde(default)]
    auto_pause: Option<bool>,
    /// False: the files alone are kept.
    #[serde(default)]
    auto_pause_memory: Option<bool>,
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
    volume_mounts: Option<Vec<volumes::Mount>>,
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
) -> Result<Response> {
    let key = idempotency_key(&headers)?;
    wanted.check()?;
    let default = if uri.path().starts_with("/v2/") { TIMEOUT_SECONDS } else { OLD_TIMEOUT_SECONDS };
    let origin = from_template(&app, &actor, &wanted.template_id).await?;
    let public_traffic = wanted.network.as_ref().and_then(Network::public_traffic);
    let request_host = wanted.network.as_ref().and_then(Network::request_host);
    let mut request = CreateSandbox {
        ttl_seconds: Some(seconds(wanted.timeout.unwrap_or(default))),
        ttl_action: wanted.ttl_action(),
        env: wanted.env_vars.clone().unwrap_or_default(),
        metadata: wanted.metadata.clone().unwrap_or_default(),
        network: Some(setting(wanted.internet, wanted.network.as_ref())?),
        ports: ports::of_new(&app, &actor, public_traffic, request_host).await?,
        secrets: wanted.network.as_ref().map_or(Ok(BTreeMap::new()), Network::secrets)?,
        ..origin.request
    };
    let home = origin.is_built_in.then_some(HOME_OF_AGENT);
    let mounts = wanted.volume_mounts.as_deref().unwrap_or_default();
    request.volumes = volumes::mounts(&app, &actor, mounts, home).await?;
    let request = without_what_cannot_be_had(&app, &actor, request);
    let resumes = wanted.auto_resume.as_ref().is_some_and(|resume| resume.enabled);
    let resumes = resumes.then(|| (AUTO_RESUME_LABEL.to_string(), "true".to_string()));
    let user = origin.user.map(|user| (USER_LABEL.to_string(), user));
    let template = (TEMPLATE_LABEL.to_string(), wanted.template_id);
    let network = network::label(wanted.internet, wanted.network.as_ref());
    let labels = [template].into_iter().chain(user).chain(resumes).chain(network).collect();
    let sandbox = app.fleet().create_labelled(&actor, request, labels, key).await?;
    let answer = (StatusCode::CREATED, Answer(views::opened(&app, &actor, &sandbox))).into_response();
    Ok(versions::told(answer, origin.warning.and_then(|words| versions::header(&words))))
}

/// E2B's requests cannot say whether the user may become root: its templates do, and the source of a snapshot has it or not. Where this
/// server does not give that, such a sandbox is made without it, and the template's own `sudo` says so.
fn without_what_cannot_be_had(app: &App, actor: &Actor, request: CreateSandbox) -> CreateSandbox {
    let can = |request: &CreateSandbox| app.fleet().check_create(actor, request).is_ok();
    let asks = request.become_root.is_some() || request.root_may_install.is_some();
    if (request.template.is_none() && !asks) || can(&request) {
        return request;
    }
    let without =
        CreateSandbox { become_root: Some(false), root_may_install: Some(false), ..request.clone() };
    if can(&without) { without } else { request }
}

impl NewSandbox {
    /// Refuses by name what this server does not have.
    pub fn check(&self) -> Result<()> {
        let asked = [
            (
                "mcp (there is no MCP gateway in a sandbox; the address /mcp of this server and `paddock mcp` give an MCP client a \
                 sandbox, docs/guides/mcp.md)",
                self.mcp.as_ref().is_some_and(|mcp| !mcp.is_null()),
            ),
            (
                "iam (this server issues no workload tokens; keep a key as a secret of the server, docs/guides/secrets.md)",
                self.iam.as_ref().is_some_and(|iam| !iam.is_null()),
            ),
        ];
        if let Some((what, _)) = asked.iter().find(|(_, asked)| *asked) {
            return Err(Refusal::invalid(format!("{what}: this server's E2B dialect does not have it")));
        }
        let resumes = self.auto_resume.as_ref().is_some_and(|resume| resume.enabled);
        if resumes && self.ttl_action() != Some(TtlAction::Pause) {
            return Err(Refusal::invalid(
                "autoResume is for a sandbox that is paused with its memory: set autoPause, and autoPauseMemory not to false",
            ));
        }
        Ok(())
    }

    fn ttl_action(&self) -> Option<TtlAction> {
        match (self.auto_pause, self.auto_pause_memory) {
            (Some(true), Some(false)) => Some(TtlAction::Hibernate),
            (Some(true), _) => Some(TtlAction::Pause),
            _ => None,
        }
    }
}

/// The origin of a new sandbox, and the user that it has by default where its template or the source of its snapshot names one.
struct Origin {
    request: CreateSandbox,
    user: Option<String>,
    /// It shows the host's own programs.
    is_built_in: bool,
    /// Another environment stands in for the template: why.
    warning: Option<String>,
}

/// E2B's own names are the built-in environment, unless somebody made a template of that name; a snapshot is a template too.
async fn from_template(app: &App, actor: &Actor, name: &str) -> Result<Origin> {
    let unbuilt = match name {
        REPLACED_UNTIL_BUILT => app.fleet().begin_template(actor, name)?,
        _ => app.fleet().ensure_template(actor, name).await.map(|()| None)?,
    };
    if let Some(found) = made_template(app, actor, name)? {
        let request = CreateSandbox { template: Some(name.to_string()), ..CreateSandbox::default() };
        return Ok(Origin { request, user: found.user, is_built_in: false, warning: None });
    }
    if BUILT_IN.contains(&name) {
        let request = CreateSandbox { cwd: Some(HOME.into()), ..CreateSandbox::default() };
        let warning = unbuilt.map(|why| format!("{}; this sandbox has the host's own /usr", why.message));
        return Ok(Origin { request, user: None, is_built_in: true, warning });
    }
    match app.fleet().snapshot(actor, name).await {
        Ok(snapshot) => {
            // The rest of its source's settings comes by itself, and rights are asked for.
            let request = CreateSandbox {
                backend: snapshot.backend,
                become_root: snapshot.become_root.then_some(true),
                root_may_install: snapshot.root_may_install.then_some(true),
                snapshot: Some(snapshot.id),
                ..CreateSandbox::default()
            };
            let is_built_in = snapshot.image.is_none();
            Ok(Origin { request, user: snapshot.user, is_built_in, warning: None })
        }
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
fn made_template(app: &App, actor: &Actor, name: &str) -> Result<Option<FoundTemplate>> {
    let found = app.fleet().find_template(actor, name)?;
    Ok(found.filter(|found| name != BUILT_IN[2] || found.has_image))
}

/// True if a sandbox can be made from the template of this name.
pub async fn has_template(app: &App, actor: &Actor, name: &str) -> Result<bool> {
    Ok(BUILT_IN.contains(&name)
        || made_template(app, actor, name)?.is_some()
        || app.fleet().snapshot(actor, name).await.is_ok())
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
        for (body, action) in [
            (json!({ "templateID": "base", "autoPause": true }), Some(TtlAction::Pause)),
            (
                json!({ "templateID": "base", "autoPause": true, "autoResume": { "enabled": true } }),
                Some(TtlAction::Pause),
            ),
            (
                json!({ "templateID": "base", "autoPause": true, "autoPauseMemory": false }),
                Some(TtlAction::Hibernate),
            ),
            (json!({ "templateID": "base", "autoPause": false, "autoPauseMemory": false }), None),
        ] {
            let wanted: NewSandbox = from_value(body).expect("valid");
            wanted.check().expect("to be had");
            assert_eq!(wanted.ttl_action(), action);
        }
        for (field, value) in [("autoResume", json!({ "enabled": true })), ("mcp", json!({ "a": 1 }))] {
            let wanted: NewSandbox =
                from_value(json!({ "templateID": "base", field: value })).expect("valid");
            let refusal = wanted.check().expect_err(field);
            assert!(refusal.message().contains(field), "{}", refusal.message());
        }
    }
}
