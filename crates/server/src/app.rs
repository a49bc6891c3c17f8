//! The state that every handler shares, and the routes put together.

use crate::activity::Activity;
use crate::bodies::LargeBodies;
use crate::dialects::{self, Sessions, e2b, run_code};
use crate::front::Front;
use crate::guard::Guard;
use crate::metrics::HttpMetrics;
use crate::options::{Options, ServerLimits};
use crate::{
    access, audit, auth, changes, code, contexts, control, docs, errors, events, execs, files, gateway,
    guard, health, jobs, load, metrics, network, nodes, pools, ports, request, resources, sandboxes, secrets,
    sign_in, signed, snapshots, templates, ui, verify, volumes,
};
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::IntoResponse;
use paddock_fleet::Fleet;
use paddock_jobs::Jobs;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa_axum::router::OpenApiRouter;

#[derive(Clone)]
pub struct App(Arc<Inner>);

struct Inner {
    fleet: Fleet,
    jobs: Jobs,
    options: Options,
    guard: Guard,
    metrics: HttpMetrics,
    activity: Activity,
    ending: CancellationToken,
    stop_asked: CancellationToken,
    started_at_ms: u64,
    addresses: Vec<String>,
    upgrades: TaskTracker,
    sessions: Sessions,
    e2b: e2b::State,
    large_bodies: LargeBodies,
    sign_in_codes: sign_in::Codes,
}

impl App {
    /// `addresses`: where it listens, as URLs.
    pub fn new(fleet: Fleet, jobs: Jobs, options: Options, addresses: Vec<String>) -> App {
        let guard = Guard::new(options.domain.as_deref(), &options.allow_hosts);
        App(Arc::new(Inner {
            fleet,
            jobs,
            options,
            guard,
            metrics: HttpMetrics::new(),
            activity: Activity::new(),
            ending: CancellationToken::new(),
            stop_asked: CancellationToken::new(),
            started_at_ms: now_ms(),
            addresses,
            upgrades: TaskTracker::new(),
            sessions: Sessions::default(),
            e2b: e2b::State::default(),
            large_bodies: LargeBodies::default(),
            sign_in_codes: sign_in::Codes::default(),
        }))
    }

    pub fn fleet(&self) -> &Fleet {
        &self.0.fleet
    }

    pub fn jobs(&self) -> &Jobs {
        &self.0.jobs
    }

    pub fn options(&self) -> &Options {
        &self.0.options
    }

    pub fn limits(&self) -> &ServerLimits {
        &self.0.options.limits
    }

    pub fn guard(&self) -> &Guard {
        &self.0.guard
    }

    pub fn metrics(&self) -> &HttpMetrics {
        &self.0.metrics
    }

    pub fn activity(&self) -> &Activity {
        &self.0.activity
    }

    /// Cancelled when the server shall end: streams end then, and no request waits any longer.
    pub fn ending(&self) -> &CancellationToken {
        &self.0.ending
    }

    /// Cancelled by the owner, over the API: the server is to end as at a signal.
    pub fn stop_asked(&self) -> &CancellationToken {
        &self.0.stop_asked
    }

    pub fn started_at_ms(&self) -> u64 {
        self.0.started_at_ms
    }

    pub fn addresses(&self) -> &[String] {
        &self.0.addresses
    }

    /// Connections that have become something else than HTTP.
    pub fn upgrades(&self) -> &TaskTracker {
        &self.0.upgrades
    }

    pub fn large_bodies(&self) -> &LargeBodies {
        &self.0.large_bodies
    }

    /// Codes that were not exchanged yet.
    pub fn sign_in_codes(&self) -> &sign_in::Codes {
        &self.0.sign_in_codes
    }

    /// The sessions of clients that speak MCP.
    pub fn sessions(&self) -> &Sessions {
        &self.0.sessions
    }

    /// Of clients that speak E2B's protocol.
    pub fn e2b(&self) -> &e2b::State {
        &self.0.e2b
    }
}

fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Routes that need a known caller.
pub fn protected() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .merge(sandboxes::routes())
        .merge(execs::routes())
        .merge(code::routes())
        .merge(contexts::routes())
        .merge(files::routes())
        .merge(ports::signing_routes())
        .merge(snapshots::routes())
        .merge(changes::routes())
        .merge(network::routes())
        .merge(events::routes())
        .merge(audit::routes())
        .merge(access::routes())
        .merge(templates::routes())
        .merge(pools::routes())
        .merge(volumes::routes())
        .merge(resources::routes())
        .merge(secrets::routes())
        .merge(jobs::routes())
        .merge(control::routes())
        .merge(load::routes())
        .merge(verify::routes())
        .merge(sign_in::routes())
        .merge(dialects::routes())
}

/// Routes for every caller, or routes that check their caller themselves.
pub fn open() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .merge(ports::routes())
        .merge(signed::routes())
        .merge(health::routes())
        .merge(metrics::routes())
        .merge(docs::routes())
        .merge(nodes::routes())
        .merge(sign_in::open_routes())
}

/// All that is served under the server's own names.
pub fn router(app: &App) -> Router {
    let protected = protected().route_layer(from_fn_with_state(app.clone(), auth::require));
    let (router, _) = protected.merge(open()).split_for_parts();
    let router = router.merge(e2b::routes(app)).merge(run_code::routes(app)).merge(ui::routes());
    finish(router.fallback(errors::unknown_route).method_not_allowed_fallback(errors::wrong_method), app)
}

/// All that is served under the names of ports inside, `{port}-{id}.{domain}`.
pub fn ports_router(app: &App) -> Router {
    finish(Router::new().fallback(ports::by_host), app)
}

/// All that E2B's clients ask of one sandbox, which a header names.
pub fn e2b_router(app: &App) -> Router {
    finish(Router::new().fallback(e2b::data_plane), app)
}

/// All that a front answers.
pub fn front_router(app: &App, front: Arc<dyn Front>) -> Router {
    let answer = move |State(app): State<App>, request: Request| front.clone().answer(app, request);
    finish(Router::new().fallback(answer), app)
}

fn finish(router: Router<App>, app: &App) -> Router {
    router
        .layer(from_fn_with_state(app.clone(), guard::check))
        .layer(from_fn(gateway::refuse_wrong))
        .layer(CatchPanicLayer::custom(|_: Box<dyn std::any::Any + Send>| {
            errors::Failure::internal().into_response()
        }))
        .layer(from_fn_with_state(app.clone(), request::answer))
        .with_state(app.clone())
}
