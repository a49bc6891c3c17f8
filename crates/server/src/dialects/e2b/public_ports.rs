//! Ports inside that everybody may use by their host names: those of sandboxes whose creator did not say otherwise, where the owner of
//! the host started the server with `--public-ports`.

use super::errors::{Refusal, Result};
use super::labels::PUBLIC_PORTS_LABEL;
use super::sandboxes;
use crate::app::App;
use paddock_fleet::{Actor, Admitted};
use paddock_model::api::Sandbox;

/// The label of a new sandbox, which holds the API key that its ports stay open for.
pub fn label(app: &App, actor: &Actor, wanted: Option<bool>) -> Result<Option<(String, String)>> {
    match (wanted, app.options().public_ports) {
        (Some(true), false) => Err(Refusal::invalid(
            "network.allowPublicTraffic: this server opens no port to everybody; its owner starts it with `paddock serve --domain NAME \
             --public-ports` for that. Without the parameter a port wants the header E2B-Traffic-Access-Token",
        )),
        (Some(false), _) | (None, false) => Ok(None),
        (Some(true) | None, true) => Ok(Some((PUBLIC_PORTS_LABEL.to_string(), actor.token.clone()))),
    }
}

/// The same of a fork: its ports are open to everybody where those of its source are, for the API key that forks. The key of the source's
/// own label is not copied.
pub async fn label_of_fork(app: &App, actor: &Actor, source: &Sandbox) -> Result<Option<(String, String)>> {
    if !app.options().public_ports {
        return Ok(None);
    }
    let Some(key) = source.metadata.get(PUBLIC_PORTS_LABEL) else { return Ok(None) };
    let admitted = app.fleet().admit_token(key).await?;
    let open = admitted.is_some_and(|key| key.actor.tenant == source.tenant && !key.actor.only_reads());
    Ok(open.then(|| (PUBLIC_PORTS_LABEL.to_string(), actor.token.clone())))
}

/// On whose behalf a visitor without a token uses a port of this sandbox. `None`: its ports are not public, or it is not there.
pub async fn visitor(app: &App, sandbox: &str) -> Result<Option<Admitted>> {
    if !app.options().public_ports {
        return Ok(None);
    }
    let Ok(found) = app.fleet().get(&Actor::owner(), sandbox).await else { return Ok(None) };
    let Some(key) = found.metadata.get(PUBLIC_PORTS_LABEL) else { return Ok(None) };
    let Some(admitted) = app.fleet().admit_token(key).await? else { return Ok(None) };
    // A name is another tenant's to choose, so that a public address has the id alone.
    if found.id != sandbox || found.tenant != admitted.actor.tenant || admitted.actor.only_reads() {
        return Ok(None);
    }
    sandboxes::running(app, &admitted.actor, found).await?;
    Ok(Some(admitted))
}
