//! E2B's words for ports (`network.allowPublicTraffic` and `network.maskRequestHost`), as the settings of ports that they are here.

use super::errors::{Refusal, Result};
use crate::app::App;
use paddock_fleet::Actor;
use paddock_model::{PortSettings, PublicPorts};
use serde_json::{Value, json};

/// With E2B ports are public where nothing else is said. Here they are where this caller may open them, and closed else.
pub async fn of_new(
    app: &App,
    actor: &Actor,
    public_traffic: Option<bool>,
    request_host: Option<&str>,
) -> Result<PortSettings> {
    let open = match public_traffic {
        Some(open) => open,
        None => app.fleet().check_opening_ports(actor).await.is_ok(),
    };
    settings(app, actor, Some(open), request_host).await
}

/// Those that are said. Mistakes are told by the names that E2B's clients wrote.
pub async fn settings(
    app: &App,
    actor: &Actor,
    open: Option<bool>,
    host: Option<&str>,
) -> Result<PortSettings> {
    if open == Some(true) {
        let allowed = app.fleet().check_opening_ports(actor).await;
        allowed.map_err(|error| {
            let hint = error.hint.map(|hint| format!("; {hint}")).unwrap_or_default();
            Refusal::invalid(format!(
                "network.allowPublicTraffic: {}{hint}. Without the parameter a port wants the header E2B-Traffic-Access-Token",
                error.message
            ))
        })?;
    }
    let public = open.map(|open| if open { PublicPorts::all() } else { PublicPorts::none() });
    let settings = PortSettings { public, request_host: host.map(String::from) };
    settings
        .check()
        .map_err(|error| Refusal::invalid(format!("network.maskRequestHost: {error}; {}", error.hint())))?;
    Ok(settings)
}

/// True if there is nothing to tell of them.
pub fn are_closed(ports: &PortSettings) -> bool {
    !ports.opens_any() && ports.request_host.is_none()
}

/// Puts them into the description of a network. E2B's clients open all ports or none: some of them are not all.
pub fn show(ports: &PortSettings, network: &mut Value) {
    network["allowPublicTraffic"] = json!(ports.public.as_ref().is_some_and(PublicPorts::is_all));
    if let Some(host) = &ports.request_host {
        network["maskRequestHost"] = json!(host);
    }
}
