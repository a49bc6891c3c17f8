//! A sandbox as E2B describes it.

use super::grants::Grant;
use super::labels::{AUTO_RESUME_LABEL, OWN_LABELS, TEMPLATE_LABEL, shown_network};
use super::ports;
use super::timestamps::rfc3339_unsigned;
use crate::app::App;
use paddock_fleet::{Actor, ShownTemplate};
use paddock_model::api::{Sandbox, SandboxState, TtlAction};
use serde_json::{Map, Value, json};

/// The version of E2B's agent whose protocol is spoken. SDKs choose by it what they ask for.
pub const ENVD_VERSION: &str = "0.6.13";
/// Where nothing else is said.
const DEFAULT_TEMPLATE: &str = "base";
/// E2B names a machine of its own here, and nobody uses it.
const CLIENT: &str = "paddock";
/// Of a sandbox that never ends by itself.
const YEAR_MS: u64 = 366 * 86_400_000;
const MIB: u64 = 1 << 20;

/// As create, connect and fork answer: with the tokens that open it.
pub fn opened(app: &App, actor: &Actor, sandbox: &Sandbox) -> Value {
    let mut view = json!({
        "templateID": template(sandbox),
        "sandboxID": sandbox.id,
        "clientID": CLIENT,
        "envdVersion": ENVD_VERSION,
        "envdAccessToken": envd_token(app, actor, sandbox),
        "trafficAccessToken": Grant::Traffic.token(app, &sandbox.id, &actor.token),
        "domain": app.options().domain,
    });
    if let Some(name) = &sandbox.name {
        view["alias"] = json!(name);
    }
    view
}

/// Opens the commands and files of a sandbox. URLs are signed with it, so that it is remembered.
fn envd_token(app: &App, actor: &Actor, sandbox: &Sandbox) -> String {
    let token = Grant::Envd.token(app, &sandbox.id, &actor.token);
    app.e2b().issued.note(&token, &sandbox.id, &actor.token);
    token
}

/// As a list has it.
pub fn listed(sandbox: &Sandbox) -> Value {
    let ends = sandbox.expires_at_ms.unwrap_or(sandbox.created_at_ms + YEAR_MS);
    let state = match sandbox.state {
        SandboxState::Paused | SandboxState::Hibernated => "paused",
        _ => "running",
    };
    let mut view = json!({
        "templateID": template(sandbox),
        "sandboxID": sandbox.id,
        "clientID": CLIENT,
        "startedAt": rfc3339_unsigned(sandbox.created_at_ms),
        "endAt": rfc3339_unsigned(ends),
        "envdVersion": ENVD_VERSION,
        "cpuCount": cpus(sandbox),
        "memoryMB": sandbox.limits.memory / MIB,
        "diskSizeMB": sandbox.limits.disk / MIB,
        "state": state,
        "metadata": metadata(sandbox),
    });
    if let Some(name) = &sandbox.name {
        view["alias"] = json!(name);
    }
    let mounts: Vec<Value> =
        sandbox.volumes.iter().map(|volume| json!({ "name": volume.name, "path": volume.path })).collect();
    if !mounts.is_empty() {
        view["volumeMounts"] = json!(mounts);
    }
    view
}

/// As a look at one has it. A token that only reads opens nothing.
pub fn detail(app: &App, actor: &Actor, sandbox: &Sandbox) -> Value {
    let mut view = listed(sandbox);
    view["domain"] = json!(app.options().domain);
    let on_timeout = match sandbox.ttl_action {
        TtlAction::Kill => "kill",
        TtlAction::Pause | TtlAction::Hibernate => "pause",
    };
    view["lifecycle"] = json!({ "autoResume": auto_resumes(sandbox), "onTimeout": on_timeout });
    match sandbox.state {
        SandboxState::Paused => view["pauseMode"] = json!("full"),
        SandboxState::Hibernated => {
            let with_memory = app.fleet().sleeps_with_memory(sandbox);
            view["pauseMode"] = json!(if with_memory { "full" } else { "filesystem" });
        }
        _ => {}
    }
    let shown = shown_network(sandbox);
    if let Some(internet) = shown.as_ref().map(|shown| shown.internet) {
        view["allowInternetAccess"] = json!(internet);
    }
    if shown.is_some() || !ports::are_closed(&sandbox.ports) {
        let mut network = shown.map_or_else(|| json!({}), |shown| shown.network);
        ports::show(&sandbox.ports, &mut network);
        view["network"] = network;
    }
    if !actor.only_reads() {
        view["envdAccessToken"] = json!(envd_token(app, actor, sandbox));
    }
    view
}

/// True if a request to the paused sandbox resumes it.
pub fn auto_resumes(sandbox: &Sandbox) -> bool {
    sandbox.metadata.contains_key(AUTO_RESUME_LABEL)
}

/// E2B counts whole processors.
pub fn cpus(sandbox: &Sandbox) -> u64 {
    sandbox.limits.cpus.ceil().max(1.0) as u64
}

/// Without the template that is looked for.
pub const SHOWN_TEMPLATE: ShownTemplate =
    ShownTemplate { label: TEMPLATE_LABEL, default: DEFAULT_TEMPLATE, template: String::new() };

fn template(sandbox: &Sandbox) -> &str {
    SHOWN_TEMPLATE.of(&sandbox.metadata, sandbox.snapshot.as_deref(), sandbox.template.as_deref())
}

fn metadata(sandbox: &Sandbox) -> Map<String, Value> {
    let shown = sandbox.metadata.iter().filter(|(key, _)| !key.starts_with(OWN_LABELS));
    shown.map(|(key, value)| (key.clone(), json!(value))).collect()
}
