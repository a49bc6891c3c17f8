//! This server as one node of many: its report, and whether it takes new sandboxes.

use crate::app::App;
use crate::auth;
use crate::errors::Failure;
use crate::extract::NoQuery;
use crate::load;
use axum::Json as Answer;
use axum::extract::State;
use axum::http::{Extensions, HeaderMap};
use paddock_fleet::Actor;
use paddock_model::NodeNumber;
use paddock_model::api::{ApiError, GATEWAY_PROTOCOL, NodePool, NodeReport, NodeState, SandboxCounts};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// They look for their caller themselves.
pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(node_report))
        .routes(routes!(cordon_node))
        .routes(routes!(uncordon_node))
}

/// This server as a node: its load, and what it has
///
/// For its gateway, for the owner by the unix socket, and for an admin token of the owner's tenant.
#[utoipa::path(get, path = "/v1/node", tag = "server",
    responses((status = 200, body = NodeReport), (status = 403, body = ApiError)))]
async fn node_report(
    State(app): State<App>,
    extensions: Extensions,
    headers: HeaderMap,
    _: NoQuery,
) -> Result<Answer<NodeReport>, Failure> {
    allow(&app, &extensions, &headers).await?;
    report(&app).await.map(Answer)
}

/// Take no new sandboxes; those that are there go on
///
/// Creates are refused with 503 `node_cordoned`, also after a restart. For its gateway, for the owner by the unix socket, and for an
/// admin token of the owner's tenant.
#[utoipa::path(post, path = "/v1/node/cordon", tag = "server",
    responses((status = 200, body = NodeReport), (status = 403, body = ApiError)))]
async fn cordon_node(
    State(app): State<App>,
    extensions: Extensions,
    headers: HeaderMap,
    _: NoQuery,
) -> Result<Answer<NodeReport>, Failure> {
    allow(&app, &extensions, &headers).await?;
    app.fleet().cordon(true)?;
    report(&app).await.map(Answer)
}

/// Take new sandboxes again
///
/// For its gateway, for the owner by the unix socket, and for an admin token of the owner's tenant.
#[utoipa::path(post, path = "/v1/node/uncordon", tag = "server",
    responses((status = 200, body = NodeReport), (status = 403, body = ApiError)))]
async fn uncordon_node(
    State(app): State<App>,
    extensions: Extensions,
    headers: HeaderMap,
    _: NoQuery,
) -> Result<Answer<NodeReport>, Failure> {
    allow(&app, &extensions, &headers).await?;
    app.fleet().cordon(false)?;
    report(&app).await.map(Answer)
}

async fn allow(app: &App, extensions: &Extensions, headers: &HeaderMap) -> Result<(), Failure> {
    // Also for the gateway, which asks in the owner's name: a request that it passes on for a stranger has no rights of its own.
    let known = auth::identify_bearer(app, extensions, headers).await?;
    auth::is_known(extensions);
    match known.actor.sees_server() {
        true => Ok(()),
        false => Err(Failure::forbidden("a node is for the owner of its host")
            .hint("Use the unix socket, or an admin token of the tenant `owner`.")),
    }
}

/// From counters: it is asked for each second, however many sandboxes there are.
async fn report(app: &App) -> Result<NodeReport, Failure> {
    let fleet = app.fleet();
    let counted = fleet.metrics();
    let owner = Actor::owner();
    let pools = fleet.pools(&owner)?.into_iter();
    let could_give = tokio::task::spawn_blocking({
        let fleet = fleet.clone();
        move || fleet.could_give()
    });
    let could_give = could_give.await.map_err(|_| Failure::internal())?;
    let templates = fleet.templates(&owner).await?.into_iter();
    Ok(NodeReport {
        node: fleet.node_number().map(NodeNumber::get),
        name: app.options().node_name.clone().unwrap_or_else(host_name),
        protocol: GATEWAY_PROTOCOL,
        version: env!("CARGO_PKG_VERSION").into(),
        state: if fleet.is_cordoned() { NodeState::Cordoned } else { NodeState::Ready },
        started_at_ms: app.started_at_ms(),
        at_ms: load::now_ms(),
        live: SandboxCounts {
            creating: counted.creating,
            running: counted.running,
            paused: counted.paused,
            hibernated: counted.hibernated,
        },
        // No setting of this server bounds them; its memory does.
        limit: counted
            .memory
            .as_ref()
            .filter(|memory| memory.available_bytes < memory.keep_free_bytes)
            .map(|_| counted.creating + counted.running + counted.paused),
        processors: load::processors(),
        memory_bytes: load::host_memory_bytes(),
        memory_available_bytes: counted.memory.as_ref().map(|memory| memory.available_bytes),
        backends: fleet.installed_backends(),
        guarantees: Some(could_give),
        pools: pools
            .map(|pool| NodePool { template: pool.template, tenant: None, ready: pool.ready })
            .collect(),
        // One that is being built is not at hand yet.
        templates: templates
            .filter(|template| template.first_build.is_none())
            .map(|template| template.name)
            .collect(),
        labels: app.options().labels.clone(),
        tenants: fleet.live_by_tenant(),
    })
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().chars().take(64).collect()
}
