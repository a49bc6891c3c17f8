//! Listeners, connections, and an end that leaves every sandbox running.

use crate::app::{self, App};
use crate::connections::{Bounds, Connection, Connections};
use crate::dialects::e2b;
use crate::front::Front;
use crate::gateway;
use crate::linger::{Linger, Lingering};
use crate::listen::{Io, Listener};
use crate::options::Options;
use crate::peer::Peer;
use crate::prompt::Prompt;
use crate::request::{Held, RouteName};
use crate::revoked;
use crate::tls::Tls;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use paddock_engine::descriptors::Descriptors;
use paddock_fleet::Fleet;
use paddock_jobs::Jobs;
use paddock_records::store::ServerPhase;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

/// Why the server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// `shutdown` was ready, or its owner asked over the API.
    Asked,
    /// The server was not needed for as long as the options say.
    Idle,
}

const H2_PING: Duration = Duration::from_secs(20);

/// Serves until `shutdown` is ready or the server is not needed any more. Streams end cleanly, sandboxes stay.
pub async fn run(
    listeners: Vec<Listener>,
    fleet: Fleet,
    jobs: Jobs,
    options: Options,
    shutdown: impl Future<Output = ()>,
) -> Ended {
    run_behind(None, listeners, fleet, jobs, options, shutdown).await
}

/// The same with a room in front, which may take requests first.
pub async fn run_behind(
    front: Option<Arc<dyn Front>>,
    listeners: Vec<Listener>,
    fleet: Fleet,
    jobs: Jobs,
    options: Options,
    shutdown: impl Future<Output = ()>,
) -> Ended {
    let addresses = listeners.iter().filter_map(Listener::url).collect();
    let app = App::new(fleet.clone(), jobs.clone(), options, addresses);
    let server = Arc::new(Server {
        front: front.map(|front| (front.clone(), app::front_router(&app, front))),
        api: app::router(&app),
        ports: app::ports_router(&app),
        e2b: app::e2b_router(&app),
        connections: TaskTracker::new(),
        cut: CancellationToken::new(),
        app: app.clone(),
    });
    let accepting = TaskTracker::new();
    for listener in listeners {
        accepting.spawn(accept(server.clone(), listener));
    }
    let ended = tokio::select! {
        () = shutdown => Ended::Asked,
        () = app.stop_asked().cancelled() => Ended::Asked,
        () = nobody_needs(&app) => Ended::Idle,
    };
    tracing::info!(why = ?ended, requests = app.activity().requests(), "ending; sandboxes keep running");
    fleet.note_phase(ServerPhase::Ending, &[]);
    app.ending().cancel();
    for tasks in [&accepting, &server.connections, app.upgrades()] {
        tasks.close();
    }
    let rest = async || {
        accepting.wait().await;
        server.connections.wait().await;
        app.upgrades().wait().await;
    };
    let grace = app.limits().shutdown_grace;
    if tokio::time::timeout(grace, rest()).await.is_err() {
        tracing::warn!("some connections did not end in time and are cut off");
        server.cut.cancel();
        let _ = tokio::time::timeout(grace, rest()).await;
    }
    if tokio::time::timeout(grace, app.sessions().end()).await.is_err() {
        tracing::warn!("some sandboxes of MCP sessions did not end in time; their time to live ends them");
    }
    // Running work goes on in its sandboxes.
    jobs.close().await;
    // Only the fleet itself shall hold it when it closes.
    drop((server, app, jobs));
    fleet.close().await;
    ended
}

struct Server {
    app: App,
    front: Option<(Arc<dyn Front>, Router)>,
    api: Router,
    ports: Router,
    e2b: Router,
    connections: TaskTracker,
    /// Cancelled when the remaining connections are not waited for any longer.
    cut: CancellationToken,
}

async fn accept(server: Arc<Server>, listener: Listener) {
    let ending = server.app.ending().clone();
    let limits = server.app.limits();
    let connections = Connections::new(Bounds {
        all: limits.connections,
        strangers: limits.strangers,
        strangers_per_peer: limits.strangers_per_peer,
    });
    let for_owner = listener.tcp_address().is_none();
    loop {
        let next = async {
            connections.room(|| Descriptors::now().has_room_for_connection(for_owner)).await;
            listener.accept().await
        };
        let accepted = tokio::select! {
            () = ending.cancelled() => return,
            next = next => next,
        };
        let (stream, peer, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Too many open files, or a client that is gone already: neither may end the server or spin it.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
        };
        let Some(connection) = connections.admit(address, peer.is_owner()) else {
            tracing::debug!("a peer has too many connections without a token");
            continue;
        };
        let (server, tls, connection) = (server.clone(), listener.tls.clone(), Arc::new(connection));
        server.clone().connections.spawn(async move {
            let patience = server.app.limits().stranger_time;
            tokio::select! {
                () = server.cut.cancelled() => {}
                () = connection.closed() => tracing::debug!("a connection made room for another"),
                () = connection.idle_as_stranger(patience) => tracing::debug!("a stranger asked nothing in time"),
                () = welcome(&server, stream, tls, peer, &connection) => {}
            }
        });
    }
}

async fn welcome(
    server: &Arc<Server>,
    stream: Box<dyn Io>,
    tls: Option<Tls>,
    peer: Peer,
    connection: &Arc<Connection>,
) {
    let stream: Box<dyn Io> = match tls {
        None => stream,
        Some(tls) => {
            match tokio::time::timeout(server.app.limits().head_timeout, tls.acceptor.accept(stream)).await {
                Ok(Ok(stream)) => Box::new(stream),
                Ok(Err(error)) => return tracing::debug!(%error, "no TLS came about"),
                Err(_) => return tracing::debug!("no TLS came about in time"),
            }
        }
    };
    talk(server, stream, peer, connection).await;
}

async fn talk(server: &Arc<Server>, stream: Box<dyn Io>, peer: Peer, connection: &Arc<Connection>) {
    let limits = server.app.limits();
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
        .max_headers(limits.header_count)
        .max_buf_size(limits.header_bytes);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
        .max_concurrent_streams(limits.concurrent_streams)
        .keep_alive_interval(H2_PING)
        .keep_alive_timeout(H2_PING);
    let linger = Linger::default();
    let stream = Lingering::new(Prompt::new(stream, limits.head_timeout), linger.clone());
    let stream = TokioIo::new(stream);
    let own = (server.clone(), connection.clone());
    let cut = CancellationToken::new();
    let cutter = revoked::Connection(cut.clone());
    let service = hyper::service::service_fn(move |mut request: hyper::Request<Incoming>| {
        let (server, connection) = own.clone();
        request.extensions_mut().insert(cutter.clone());
        request.extensions_mut().insert(linger.clone());
        async move { answer(&server, request, peer, &connection).await }
    });
    let conversation = builder.serve_connection_with_upgrades(stream, service);
    let mut conversation = std::pin::pin!(conversation);
    let ending = server.app.ending();
    let result = tokio::select! {
        result = conversation.as_mut() => result,
        () = ending.cancelled() => {
            conversation.as_mut().graceful_shutdown();
            conversation.await
        }
        // Its client may not read the rest of the answer any more.
        () = cut.cancelled() => return,
    };
    if let Err(error) = result {
        tracing::debug!(error = ?error.to_string(), "a connection broke");
    }
}

async fn answer(
    server: &Server,
    request: hyper::Request<Incoming>,
    peer: Peer,
    connection: &Arc<Connection>,
) -> Result<axum::response::Response, Infallible> {
    let busy = connection.begin();
    let mut request: Request = request.map(Body::new);
    request.extensions_mut().insert(peer);
    request.extensions_mut().insert(connection.clone());
    if let Some((front, router)) = &server.front
        && let Some(name) = front.takes(&server.app, &request)
    {
        request.extensions_mut().insert(RouteName(name));
        let answered = router.clone().oneshot(request).await;
        return answered.map(|response| response.map(|body| Body::new(Held::new(body, busy))));
    }
    gateway::admit(&server.app, &mut request);
    let named = server.app.guard().port_name(request.uri(), request.headers());
    let router = match named {
        Some(name) if e2b::is_for_named(name.port, request.uri(), request.headers()) => {
            e2b::named(request.headers_mut(), &name.sandbox, name.port);
            &server.e2b
        }
        Some(_) => &server.ports,
        None if gateway::is_for_port(request.extensions()) => &server.ports,
        None if e2b::is_for_sandbox(request.headers()) => &server.e2b,
        None => &server.api,
    };
    let answered = router.clone().oneshot(request).await;
    answered.map(|response| response.map(|body| Body::new(Held::new(body, busy))))
}

/// Ready when for long enough there was neither a request nor a sandbox that lives, nor a job that waits. A hibernated one needs no server.
async fn nobody_needs(app: &App) {
    let Some(patience) = app.options().idle_exit else { return std::future::pending().await };
    let pause = (patience / 4).clamp(Duration::from_millis(20), Duration::from_secs(1));
    loop {
        tokio::time::sleep(pause).await;
        let metrics = app.fleet().metrics();
        let busy = metrics.creating + metrics.running + metrics.paused + metrics.waiting_creates > 0;
        if busy || app.jobs().living() > 0 {
            app.activity().touch();
        }
        if app.activity().quiet_for() >= patience {
            return;
        }
    }
}
