//! Requests that are seen: those to the proxy with a whole URL, and all where the rules name methods. Each is read, judged
//! and written anew, so that no second request can hide behind a first one.

use crate::ended;
use crate::flows::{Flow, Target};
use crate::rewound::Rewound;
use crate::shared::{Shared, Upstream};
use crate::wire::head::authority;
use crate::wire::host::Host;
use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::{TokioIo, TokioTimer};
use paddock_model::net::{Denial, DomainName, NetEvent, NetOutcome, Way};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Mutex;

type Body = Either<Incoming, Full<Bytes>>;

const LONGEST_WAIT_FOR_HEAD: Duration = Duration::from_secs(60);
const LARGEST_HEAD: usize = 128 << 10;

struct Forward {
    shared: Arc<Shared>,
    /// `None`: each request says where it goes.
    fixed: Option<Target>,
    /// TLS is ended here, and spoken anew to this host.
    bound: Option<DomainName>,
    /// The connection that the last request used.
    kept: Mutex<Option<(Target, SendRequest<Incoming>)>>,
}

/// A client of the proxy.
pub async fn serve_proxy<C>(shared: Arc<Shared>, client: C, first: Vec<u8>)
where
    C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let forward = Forward { shared, fixed: None, bound: None, kept: Mutex::new(None) };
    serve(forward, Rewound::new(first, client)).await;
}

/// A client that believes to talk to the host itself.
pub async fn serve_fixed<C>(shared: Arc<Shared>, client: C, first: Vec<u8>, upstream: Upstream)
where
    C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let target = upstream.flow.target().clone();
    let Upstream { stream, flow } = upstream;
    let Ok(sender) = start(stream, flow).await else { return };
    let kept = Mutex::new(Some((target.clone(), sender)));
    let forward = Forward { shared, fixed: Some(target), bound: None, kept };
    serve(forward, Rewound::new(first, client)).await;
}

/// A client whose TLS is ended here. `upstream` speaks TLS with the host.
pub async fn serve_bound<C, U>(shared: Arc<Shared>, client: C, upstream: U, flow: Arc<Flow>, name: DomainName)
where
    C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    U: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let target = flow.target().clone();
    let Ok(sender) = start(upstream, flow).await else { return };
    let kept = Mutex::new(Some((target.clone(), sender)));
    serve(Forward { shared, fixed: Some(target), bound: Some(name), kept }, client).await;
}

async fn serve<C>(forward: Forward, client: C)
where
    C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let forward = Arc::new(forward);
    let service = service_fn(move |request| {
        let forward = forward.clone();
        async move { Ok::<_, Infallible>(forward.answer(request).await) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(LONGEST_WAIT_FOR_HEAD)
        .max_buf_size(LARGEST_HEAD)
        .serve_connection(TokioIo::new(client), service);
    // A client that breaks off, or speaks no HTTP, has ended its own connection.
    let _ = served.await;
}

/// The connection runs by itself until either side ends it, or the rules do.
async fn start<U>(stream: U, flow: Arc<Flow>) -> Result<SendRequest<Incoming>, hyper::Error>
where
    U: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(async move {
        tokio::select! {
            _ = connection => {}
            () = flow.cut() => {}
        }
    });
    Ok(sender)
}

impl Forward {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        match self.forward(request).await {
            Ok(response) => response.map(Either::Left),
            Err((target, denial)) => refusal(target.as_ref(), &denial),
        }
    }

    async fn forward(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<Incoming>, (Option<Target>, Denial)> {
        let target = self.target(&request).map_err(|denial| (self.fixed.clone(), denial))?;
        let judged = self.judge(&target, &request);
        if let Err(denial) = judged {
            self.shared.deny(&target, None, denial.clone());
            return Err((Some(target), denial));
        }
        let request = self.with_secrets(request, &target).map_err(|denial| (Some(target.clone()), denial))?;
        let request = written_anew(request, &target, self.fixed.is_some())
            .ok_or_else(|| (Some(target.clone()), Denial::Malformed))?;
        let mut sender = self.sender(&target).await.map_err(|denial| (Some(target.clone()), denial))?;
        let answered = sender.send_request(request).await;
        let mut response = answered.map_err(|_| (Some(target.clone()), Denial::Unreachable))?;
        strip(response.headers_mut());
        *self.kept.lock().await = Some((target, sender));
        Ok(response)
    }

    fn target(&self, request: &Request<Incoming>) -> Result<Target, Denial> {
        if request.method() == Method::CONNECT {
            return Err(Denial::Malformed);
        }
        if let Some(fixed) = &self.fixed {
            return Ok(fixed.clone());
        }
        let uri = request.uri();
        if uri.scheme_str() != Some("http") {
            return Err(Denial::Malformed);
        }
        let (host, port) =
            uri.authority().and_then(|text| authority(text.as_str())).ok_or(Denial::Malformed)?;
        Ok(Target { host: self.shared.meant(host), port: port.unwrap_or(80), way: Way::Http })
    }

    /// Everything that is refused before anybody is connected to.
    fn judge(&self, target: &Target, request: &Request<Incoming>) -> Result<(), Denial> {
        let rules = self.shared.rules();
        rules.method(request.method().as_str())?;
        // A connection that is kept was allowed before; the rules may have changed.
        self.shared.verdict(target)?;
        if self.fixed.is_none() {
            return Ok(());
        }
        let mut named = request.headers().get_all(header::HOST).iter();
        let (Some(host), None) = (named.next(), named.next()) else { return Err(Denial::Malformed) };
        let shown =
            || Denial::HostHeader(String::from_utf8_lossy(host.as_bytes()).chars().take(80).collect());
        let found = host.to_str().ok().and_then(authority).ok_or_else(shown)?;
        match (&found.0, &target.host) {
            (found, host) if found == host => Ok(()),
            // A front that many hosts share would pass a value on to another of them, allowed or not.
            (Host::Name(name), Host::Name(_)) if self.bound.is_none() => {
                rules.name(name, target.port).map(|_| ()).map_err(|_| shown())
            }
            _ => Err(shown()),
        }
    }

    /// Values in place of placeholders, where they may go; where they may not, the request goes nowhere.
    fn with_secrets(&self, request: Request<Incoming>, target: &Target) -> Result<Request<Incoming>, Denial> {
        let secrets = &self.shared.secrets;
        if secrets.is_empty() {
            return Ok(request);
        }
        let (mut parts, body) = request.into_parts();
        let put = match &self.bound {
            Some(name) => secrets.put_into(&mut parts, name, target.port),
            None => secrets.refuse_in(&parts),
        };
        if let Err(denial) = put {
            self.shared.deny(target, None, denial.clone());
            return Err(denial);
        }
        Ok(Request::from_parts(parts, body))
    }

    async fn sender(&self, target: &Target) -> Result<SendRequest<Incoming>, Denial> {
        if let Some((kept, mut sender)) = self.kept.lock().await.take()
            && kept == *target
            && sender.ready().await.is_ok()
        {
            return Ok(sender);
        }
        let upstream = self.shared.open(target.clone()).await?;
        let Upstream { stream, flow } = upstream;
        let started = match &self.bound {
            None => start(stream, flow).await,
            Some(name) => start(ended::connect(&self.shared, stream, name, target.port).await?, flow).await,
        };
        started.map_err(|_| Denial::Unreachable)
    }
}

/// With the path alone in its first line, the host that was judged, and nothing that is between neighbours only.
fn written_anew(request: Request<Incoming>, target: &Target, keep_host: bool) -> Option<Request<Incoming>> {
    let (mut parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let path = if path.starts_with('/') || path == "*" { path.to_string() } else { format!("/{path}") };
    parts.uri = path.parse::<Uri>().ok()?;
    strip(&mut parts.headers);
    if !keep_host {
        let Target { host, port, .. } = target;
        let host = if *port == 80 { host.to_string() } else { format!("{host}:{port}") };
        parts.headers.insert(header::HOST, HeaderValue::from_str(&host).ok()?);
    }
    parts.version = hyper::Version::HTTP_11;
    Some(Request::from_parts(parts, body))
}

fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        // What says how long the body is belongs to whoever reads the message.
        .filter(|name| {
            *name != header::CONTENT_LENGTH && *name != header::TRANSFER_ENCODING && *name != header::HOST
        })
        .collect();
    let between = [header::CONNECTION, header::UPGRADE, header::PROXY_AUTHORIZATION, header::TE];
    for name in named.iter().chain(&between) {
        headers.remove(name);
    }
    headers.remove("proxy-connection");
    headers.remove("keep-alive");
}

fn refusal(target: Option<&Target>, denial: &Denial) -> Response<Body> {
    let (status, text) = explained(target, denial);
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::FORBIDDEN);
    let mut response = Response::new(Either::Right(Full::new(Bytes::from(text))));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    // What is left of the request is not read.
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// The status of an answer, and what the program inside is told.
pub fn explained(target: Option<&Target>, denial: &Denial) -> (u16, String) {
    let status = match denial {
        Denial::Malformed | Denial::NotAName => 400,
        Denial::NoAddress | Denial::Unreachable | Denial::Certificate(_) => 502,
        Denial::TooManyFlows => 503,
        _ => 403,
    };
    let Some(target) = target else { return (status, format!("paddock: {denial}\n")) };
    let subject = target.subject(None);
    let event = NetEvent {
        time: 0,
        way: target.way,
        name: subject.name,
        address: subject.address,
        port: subject.port,
        outcome: NetOutcome::Denied(denial.clone()),
        count: 1,
    };
    let advice = event.advice().map(|advice| format!("; {advice}")).unwrap_or_default();
    (status, format!("paddock: {}: {denial}{advice}\n", event.target()))
}
