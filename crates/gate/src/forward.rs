//! Requests that are seen: those to the proxy with a whole URL, those in the clear, and all where the rules name methods. Each
//! is read, judged and written anew, so that no second request can hide behind a first one.

use crate::bodies::{Answered, MaskedBody, Sent, denial_in, masked_headers};
use crate::ended;
use crate::flows::{Flow, Target};
use crate::refused::Refused;
use crate::requests::{judge_host, judge_method, wanted_socket};
use crate::rewound::Rewound;
use crate::shared::{Shared, Upstream};
use crate::sniff::{Spoken, Watched};
use crate::wire::head::authority;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::service::service_fn;
use hyper::upgrade::{self, OnUpgrade};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::{TokioIo, TokioTimer};
use paddock_model::net::{Denial, DomainName, Way};
use std::convert::Infallible;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use tokio::sync::Mutex;

const LONGEST_WAIT_FOR_HEAD: Duration = Duration::from_secs(60);
const LARGEST_HEAD: usize = 128 << 10;

struct Forward {
    shared: Arc<Shared>,
    /// `None`: each request says where it goes.
    fixed: Option<Target>,
    /// TLS is ended here, and spoken anew to this host.
    bound: Option<DomainName>,
    /// Every request is refused so, unless it has a secret in it that wants TLS.
    refused: Option<Denial>,
    /// The connection that the last request used.
    kept: Mutex<Option<Kept>>,
}

struct Kept {
    target: Target,
    sender: SendRequest<Sent>,
    /// The flow is open as long as the host's side is, and not as long as its client's.
    flow: Weak<Flow>,
}

/// A client of the proxy.
pub async fn serve_proxy<C>(shared: Arc<Shared>, client: C, first: Vec<u8>)
where
    C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let forward = Forward { shared, fixed: None, bound: None, refused: None, kept: Mutex::new(None) };
    serve(forward, Rewound::new(first, client)).await;
}

/// A client that believes to talk to the host itself.
pub async fn serve_fixed<C>(shared: Arc<Shared>, client: C, first: Vec<u8>, upstream: Upstream)
where
    C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let target = upstream.flow.target().clone();
    let Upstream { stream, flow } = upstream;
    let weak = Arc::downgrade(&flow);
    let Ok(sender) = start(stream, flow).await else { return };
    let kept = Mutex::new(Some(Kept { target: target.clone(), sender, flow: weak }));
    let forward = Forward { shared, fixed: Some(target), bound: None, refused: None, kept };
    serve(forward, Rewound::new(first, client)).await;
}

/// A client whose TLS is ended here. `upstream` speaks TLS with the host.
pub async fn serve_bound<C, U>(shared: Arc<Shared>, client: C, upstream: U, flow: Arc<Flow>, name: DomainName)
where
    C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    U: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let target = flow.target().clone();
    let weak = Arc::downgrade(&flow);
    let Ok(sender) = start(upstream, flow).await else { return };
    let kept = Mutex::new(Some(Kept { target: target.clone(), sender, flow: weak }));
    let forward = Forward { shared, fixed: Some(target), bound: Some(name), refused: None, kept };
    serve(forward, client).await;
}

/// A client that speaks in the clear with a host that a secret is bound to. Its requests go nowhere, and each is told why.
pub async fn serve_refusals<C>(shared: Arc<Shared>, client: C, first: Vec<u8>, target: Target, denial: Denial)
where
    C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let kept = Mutex::new(None);
    let forward = Forward { shared, fixed: Some(target), bound: None, refused: Some(denial), kept };
    serve(forward, Rewound::new(first, client)).await;
}

async fn serve<C>(forward: Forward, client: C)
where
    C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let forward = Arc::new(forward);
    let served = forward.clone();
    let service = service_fn(move |request| {
        let forward = served.clone();
        async move { Ok::<_, Infallible>(forward.answer(request).await) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(LONGEST_WAIT_FOR_HEAD)
        .max_buf_size(LARGEST_HEAD)
        .preserve_header_case(true)
        // A client may say that it has no more to ask before it is answered.
        .half_close(true)
        .serve_connection(TokioIo::new(client), service)
        .with_upgrades();
    // A client that breaks off has ended its own connection; one that speaks no HTTP was refused.
    if let Err(error) = served.await
        && error.is_parse()
        && let Some(target) = &forward.fixed
    {
        forward.shared.deny(target, None, Denial::Malformed);
    }
}

/// The connection runs by itself until either side ends it, or the rules do.
async fn start<U>(stream: U, flow: Arc<Flow>) -> Result<SendRequest<Sent>, hyper::Error>
where
    U: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = hyper::client::conn::http1::Builder::new();
    let (sender, connection) =
        builder.max_buf_size(LARGEST_HEAD).preserve_header_case(true).handshake(TokioIo::new(stream)).await?;
    tokio::spawn(async move {
        tokio::select! {
            _ = connection.with_upgrades() => {}
            () = flow.cut() => {}
        }
    });
    Ok(sender)
}

impl Forward {
    async fn answer(&self, request: Request<Incoming>) -> Response<Answered> {
        let target = match self.target(&request) {
            Ok(target) => target,
            Err(denial) => return Refused::from(denial).response(self.fixed.as_ref()),
        };
        match self.forward(request, &target).await {
            Ok(response) => response,
            Err(refused) => refused.response(Some(&target)),
        }
    }

    async fn forward(
        &self,
        request: Request<Incoming>,
        target: &Target,
    ) -> Result<Response<Answered>, Refused> {
        let (mut parts, body) = request.into_parts();
        let judged = self.judge(target, &parts);
        if let Err(denial) = judged.and_then(|()| self.put_secrets(&mut parts, target)) {
            self.shared.deny(target, None, denial.clone());
            return Err(denial.into());
        }
        // The bytes after an upgrade are not looked into. So there is none where methods are judged or a secret is
        // bound.
        let opaque = self.fixed.is_some() && self.bound.is_none() && self.shared.rules().methods.is_none();
        let socket = wanted_socket(&parts).filter(|_| opaque);
        let client = parts.extensions.remove::<OnUpgrade>().filter(|_| socket.is_some());
        write_anew(&mut parts, target, self.fixed.is_some(), socket.as_ref()).ok_or(Denial::Malformed)?;
        let body = Sent::new(body, self.shared.clone(), target.clone(), self.bound.is_some());
        let mut kept = self.connection(target).await?;
        let flow = kept.flow.upgrade().filter(|_| socket.is_some());
        let answered = kept.sender.send_request(Request::from_parts(parts, body)).await;
        let response = answered.map_err(|error| denial_in(&error).unwrap_or(Denial::Unreachable))?;
        let switched = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        match (switched, client.zip(flow), socket) {
            (false, ..) => {
                *self.kept.lock().await = Some(kept);
                Ok(self.answered(response))
            }
            (true, Some((client, flow)), Some(socket)) => Ok(self.join(response, client, &socket, flow)),
            // The client did not ask for another protocol.
            (true, ..) => Err(Denial::Unreachable.into()),
        }
    }

    /// The host's answer, without hop-by-hop headers and without the value of a secret.
    fn answered(&self, mut response: Response<Incoming>) -> Response<Answered> {
        strip(response.headers_mut());
        let secrets = self.shared.secrets();
        let mask = secrets.mask();
        if self.bound.is_none() || mask.is_empty() {
            return response.map(Answered::Plain);
        }
        let headers = masked_headers(std::mem::take(response.headers_mut()), mask);
        *response.headers_mut() = headers;
        // The words of the first line may hold it too.
        response.extensions_mut().clear();
        response.map(|body| Answered::Masked(Box::new(MaskedBody::new(body, mask.clone()))))
    }

    /// A WebSocket: from here on bytes are only carried, and searched for placeholders.
    fn join(
        &self,
        mut response: Response<Incoming>,
        client: OnUpgrade,
        socket: &HeaderValue,
        flow: Arc<Flow>,
    ) -> Response<Answered> {
        let host = upgrade::on(&mut response);
        strip(response.headers_mut());
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        response.headers_mut().insert(header::UPGRADE, socket.clone());
        let shared = self.shared.clone();
        self.shared.spawn(async move {
            let carried = async {
                let (client, host) = tokio::try_join!(client, host)?;
                let client = TokioIo::new(client);
                let mut client = Watched::new(client, Vec::new(), Spoken::Other, shared, flow.clone());
                let _ = copy_bidirectional(&mut client, &mut TokioIo::new(host)).await;
                Ok::<(), hyper::Error>(())
            };
            tokio::select! {
                _ = carried => {}
                () = flow.cut() => {}
            }
        });
        response.map(|_| Answered::Own(Full::default()))
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

    /// All refusals that need no connection to the host.
    fn judge(&self, target: &Target, parts: &Parts) -> Result<(), Denial> {
        // Before the rules: a rule for the clear port would not help.
        if self.bound.is_none() {
            self.shared.secrets().refuse_clear(parts, &target.host)?;
        }
        if let Some(denial) = &self.refused {
            return Err(denial.clone());
        }
        let rules = self.shared.rules();
        judge_method(&rules, parts)?;
        // A connection that is kept was allowed before; the rules may have changed.
        self.shared.verdict(target)?;
        match self.fixed {
            None => Ok(()),
            Some(_) => judge_host(&rules, parts, target, self.bound.is_some()),
        }
    }

    /// Values in place of placeholders, where they may go; where they may not, the request goes nowhere.
    fn put_secrets(&self, parts: &mut Parts, target: &Target) -> Result<(), Denial> {
        let secrets = self.shared.secrets();
        match &self.bound {
            _ if secrets.is_empty() => Ok(()),
            None => secrets.refuse_in(parts, &target.host),
            Some(name) => {
                secrets.put_into(parts, name, target.port)?;
                // A value that comes back compressed would not be found.
                parts.headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
                Ok(())
            }
        }
    }

    async fn connection(&self, target: &Target) -> Result<Kept, Refused> {
        if let Some(mut kept) = self.kept.lock().await.take()
            && kept.target == *target
            && kept.sender.ready().await.is_ok()
        {
            return Ok(kept);
        }
        let Upstream { stream, flow } = self.shared.open(target.clone()).await?;
        let started = match &self.bound {
            None => start(stream, flow.clone()).await,
            Some(name) => {
                let stream = ended::connect(&self.shared, stream, name, target.port).await?;
                start(stream, flow.clone()).await
            }
        };
        let sender = started.map_err(|_| Denial::Unreachable)?;
        Ok(Kept { target: target.clone(), sender, flow: Arc::downgrade(&flow) })
    }
}

/// Writes the request anew: the path alone in its first line, the host that was judged, and no hop-by-hop headers.
fn write_anew(
    parts: &mut Parts,
    target: &Target,
    keep_host: bool,
    socket: Option<&HeaderValue>,
) -> Option<()> {
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let path = if path.starts_with('/') || path == "*" { path.to_string() } else { format!("/{path}") };
    parts.uri = path.parse::<Uri>().ok()?;
    strip(&mut parts.headers);
    if let Some(socket) = socket {
        parts.headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        parts.headers.insert(header::UPGRADE, socket.clone());
    }
    if !keep_host || !parts.headers.contains_key(header::HOST) {
        let Target { host, port, .. } = target;
        let host = if *port == 80 { host.to_string() } else { format!("{host}:{port}") };
        parts.headers.insert(header::HOST, HeaderValue::from_str(&host).ok()?);
    }
    parts.version = hyper::Version::HTTP_11;
    Some(())
}

fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        // The headers for the length of the body belong to the reader of the message.
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
