//! The Model Context Protocol over HTTP. A session belongs to the token that began it: another token does not find it.
//! Its sandboxes end with it, after a long time without a request, and when the server ends.

use super::host::FleetHost;
use crate::app::App;
use crate::auth::Caller;
use crate::errors::Failure;
use crate::extract::{Query, whole_body, within_bounds};
use crate::revoked::Leash;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use http_body_util::Full;
use paddock_fleet::Actor;
use paddock_mcp::streamable_http_server::session::SessionManager;
use paddock_mcp::streamable_http_server::session::local::LocalSessionManager;
use paddock_mcp::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use paddock_mcp::{Handler, LEASE, Session, SessionOptions};
use paddock_model::Limits;
use paddock_model::api::CreateSandbox;
use paddock_tools::loopstack::{HostPaths, Loopstack, LoopstackOptions};
use paddock_tools::{Facts, NetworkFacts, ToolboxOptions};
use serde::Deserialize;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use utoipa_axum::router::OpenApiRouter;

/// Sessions of one token at a time.
const MOST_SESSIONS: usize = 64;
/// A sandbox that a session does not use for so long is ended.
const IDLE: Duration = Duration::from_secs(30 * 60);
/// A session in which nothing happens for so long is ended: longer than any call may take.
const FORGOTTEN: Duration = Duration::from_secs(2 * 60 * 60);
/// Bytes of long outputs that one session keeps.
const KEPT_BYTES: usize = 8 << 20;
const SESSION_ID: &str = "mcp-session-id";

type Service = StreamableHttpService<Handler<FleetHost>, LocalSessionManager>;

/// The session's settings, in the query of the first request.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Wanted {
    /// The template of its sandboxes.
    template: Option<String>,
    /// Use this sandbox, which stays when the session ends.
    sandbox: Option<String>,
}

#[derive(Clone)]
struct Opening {
    wanted: Wanted,
    loopstack: bool,
}

tokio::task_local! {
    /// The settings in the query of the request under way, for the session that it may begin.
    static OPENING: Opening;
}

/// One token's sessions of one dialect.
#[derive(Clone)]
struct Served {
    service: Service,
    manager: Arc<LocalSessionManager>,
    living: Living,
}

type Living = Arc<Mutex<Vec<Weak<Session<FleetHost>>>>>;

impl Served {
    /// Ends its sessions, and their sandboxes with them.
    async fn end(&self) {
        let living = std::mem::take(&mut *locked(&self.living));
        for session in living {
            if let Some(session) = session.upgrade() {
                session.end().await;
            }
        }
        let ids: Vec<_> = self.manager.sessions.read().await.keys().cloned().collect();
        for id in ids {
            // A session that has gone already is no error.
            let _ = self.manager.close_session(&id).await;
        }
    }
}

/// The sessions of all callers.
#[derive(Default)]
pub struct Sessions {
    /// The services by token: Paddock's tools, and Loopstack's.
    services: Mutex<HashMap<(String, bool), Served>>,
}

impl Sessions {
    /// Ends the sandboxes of all sessions, and lets go of the fleet.
    pub async fn end(&self) {
        let services = std::mem::take(&mut *locked(&self.services));
        for served in services.into_values() {
            served.end().await;
        }
    }

    /// Ends the sessions of a token that was revoked.
    async fn end_of(&self, token: &str) {
        for loopstack in [false, true] {
            let served = locked(&self.services).remove(&(token.to_string(), loopstack));
            if let Some(served) = served {
                served.end().await;
            }
        }
    }

    fn service(&self, app: &App, actor: &Actor, leash: Option<Leash>, loopstack: bool) -> Served {
        let mut services = locked(&self.services);
        let made = services.entry((actor.token.clone(), loopstack)).or_insert_with(|| {
            if let Some(leash) = leash {
                tokio::spawn(end_when_revoked(app.clone(), actor.token.clone(), leash));
            }
            let (fleet, actor, living) = (app.fleet().clone(), actor.clone(), Living::default());
            let mut manager = LocalSessionManager::default();
            manager.session_config.keep_alive = Some(FORGOTTEN);
            let config = StreamableHttpServerConfig::default()
                // The guard has looked at both already.
                .disable_allowed_hosts()
                .disable_allowed_origins()
                .with_cancellation_token(app.ending().clone())
                .with_max_request_body_bytes(app.limits().json_bytes);
            let begun = living.clone();
            let begin = move || begin(FleetHost::new(fleet.clone(), actor.clone()), &begun);
            let manager = Arc::new(manager);
            Served { service: StreamableHttpService::new(begin, manager.clone(), config), manager, living }
        });
        made.clone()
    }
}

async fn end_when_revoked(app: App, token: String, leash: Leash) {
    tokio::select! {
        // All sessions end then.
        () = app.ending().cancelled() => {}
        () = leash.ends() => app.sessions().end_of(&token).await,
    }
}

fn begin(host: FleetHost, living: &Mutex<Vec<Weak<Session<FleetHost>>>>) -> io::Result<Handler<FleetHost>> {
    let opening = OPENING.try_with(Opening::clone).map_err(io::Error::other)?;
    let create = CreateSandbox {
        template: opening.wanted.template,
        ttl_seconds: Some(LEASE.as_secs_f64()),
        ..CreateSandbox::default()
    };
    let loopstack = opening.loopstack.then(|| {
        let options =
            LoopstackOptions { create: create.clone(), host_paths: HostPaths::None, lasting: false };
        Arc::new(Loopstack::new(host.clone(), options))
    });
    // The settings of a template are not known before a sandbox of it is there.
    let plain =
        Facts { network: Some(NetworkFacts::None), ..Facts::default() }.with_limits(&Limits::default());
    let options = SessionOptions {
        facts: if create.template.is_none() { plain } else { Facts::default() },
        create,
        attach: opening.wanted.sandbox,
        toolbox: ToolboxOptions { kept_bytes: KEPT_BYTES, ..ToolboxOptions::default() },
        idle: Some(IDLE),
        ..SessionOptions::default()
    };
    let session = Arc::new(Session::new(host, options));
    let mut living = locked(living);
    living.retain(|session| session.strong_count() > 0);
    living.push(Arc::downgrade(&session));
    Ok(Handler::new(session, loopstack).with_sessions_only())
}

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().route("/mcp", any(paddock)).route("/mcp/loopstack", any(loopstack))
}

async fn paddock(
    State(app): State<App>,
    Caller(actor): Caller,
    Query(wanted): Query<Wanted>,
    request: Request,
) -> Result<Response, Failure> {
    serve(&app, &actor, Opening { wanted, loopstack: false }, request).await
}

async fn loopstack(
    State(app): State<App>,
    Caller(actor): Caller,
    Query(wanted): Query<Wanted>,
    request: Request,
) -> Result<Response, Failure> {
    serve(&app, &actor, Opening { wanted, loopstack: true }, request).await
}

async fn serve(app: &App, actor: &Actor, opening: Opening, request: Request) -> Result<Response, Failure> {
    let leash = request.extensions().get::<Leash>().cloned();
    let Served { service, manager, .. } = app.sessions().service(app, actor, leash, opening.loopstack);
    let begins = *request.method() == Method::POST && !request.headers().contains_key(SESSION_ID);
    if begins && manager.sessions.read().await.len() >= MOST_SESSIONS {
        let mut failure = Failure::new(
            StatusCode::TOO_MANY_REQUESTS,
            "quota_exceeded",
            format!("this token has {MOST_SESSIONS} MCP sessions already"),
        )
        .hint("End one with DELETE /mcp and its Mcp-Session-Id.");
        failure.retry_after_seconds = Some(60);
        return Err(failure);
    }
    let ends = *request.method() == Method::DELETE;
    let (parts, body) = request.into_parts();
    let body = within_bounds(whole_body(body, app).await?).await?;
    let request = Request::from_parts(parts, Full::new(body.bytes.clone()));
    let answer = OPENING.scope(opening, service.handle(request)).await;
    // The session has ended by now. Clients take `Accepted` for a failure: only 200 and 204 say that it is done.
    if ends && answer.status() == StatusCode::ACCEPTED {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    Ok(answer.map(Body::new))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
