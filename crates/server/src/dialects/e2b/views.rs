//! A sandbox as E2B describes it.

use super::grants::Grant;
use super::timestamps::rfc3339_unsigned;
use crate::app::App;
use paddock_fleet::Actor;
use paddock_model::api::{Sandbox, SandboxState};
use serde_json::{Map, Value, json};

/// The version of E2B's agent whose protocol is spoken. SDKs choose by it what they ask for.
pub const ENVD_VERSION: &str = "0.6.13";
/// Labels of the server's own among the metadata begin so; E2B's clients do not see them.
const OWN_LABELS: &str = "paddock.";
/// The template as its creator named it.
pub const TEMPLATE_LABEL: &str = "paddock.e2b.template";
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
        "envdAccessToken": Grant::Envd.token(app, &sandbox.id, &actor.token),
        "trafficAccessToken": Grant::Traffic.token(app, &sandbox.id, &actor.token),
        "domain": app.options().domain,
    });
    if let Some(name) = &sandbox.name {
        view["alias"] = json!(name);
    }
    view
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
    view
}

/// As a look at one has it. A token that only reads opens nothing.
pub fn detail(app: &App, actor: &Actor, sandbox: &Sandbox) -> Value {
    let mut view = listed(sandbox);
    view["domain"] = json!(app.options().domain);
    view["lifecycle"] = json!({ "autoResume": false, "onTimeout": "kill" });
    if !actor.only_reads() {
        view["envdAccessToken"] = json!(Grant::Envd.token(app, &sandbox.id, &actor.token));
    }
    view
}

/// E2B counts whole processors.
pub fn cpus(sandbox: &Sandbox) -> u64 {
    sandbox.limits.cpus.ceil().max(1.0) as u64
}

fn template(sandbox: &Sandbox) -> &str {
    let label = sandbox.metadata.get(TEMPLATE_LABEL);
    label.or(sandbox.snapshot.as_ref()).or(sandbox.template.as_ref()).map_or(DEFAULT_TEMPLATE, String::as_str)
}

fn metadata(sandbox: &Sandbox) -> Map<String, Value> {
    let shown = sandbox.metadata.iter().filter(|(key, _)| !key.starts_with(OWN_LABELS));
    shown.map(|(key, value)| (key.clone(), json!(value))).collect()
}
