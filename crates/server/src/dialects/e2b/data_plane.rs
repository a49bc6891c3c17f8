//! Requests for one sandbox: the header `E2b-Sandbox-Id` says which, `E2b-Sandbox-Port` which of its doors. With `--domain` the host
//! name may say both.

use super::connect::RpcError;
use super::errors::{Refusal, Result};
use super::grants::Grant;
use super::inside::Inside;
use super::signatures::{self, Operation, Wanted};
use super::{code, files, filesystem, process, process_calls, routes, sandboxes, versions};
use crate::app::App;
use crate::auth;
use crate::errors::shorten;
use crate::gateway;
use crate::own_token;
use crate::peer::Peer;
use crate::ports;
use crate::proxy;
use crate::revoked::{self, Leash};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use paddock_fleet::{Actor, Admitted, Revoked};
use paddock_model::api::SandboxState;

/// As the server's log and numbers name all of these requests.
pub const ROUTE_NAME: &str = "e2b sandbox";

pub const SANDBOX: &str = "e2b-sandbox-id";
pub const PORT: &str = "e2b-sandbox-port";
pub const ENVD_TOKEN: &str = "x-access-token";
pub const TRAFFIC_TOKEN: &str = "e2b-traffic-access-token";
/// Where E2B's own agent would listen.
const ENVD: u16 = 49983;
const CODE_INTERPRETER: u16 = 49999;
const HEALTH: &str = "/health";
const FILES: &str = "/files";
/// No name of a sandbox is longer, and no token.
const LONGEST_ID: usize = 128;
const LONGEST_TOKEN: usize = 256;

pub fn is_for_sandbox(headers: &HeaderMap) -> bool {
    headers.contains_key(SANDBOX)
}

/// True if a request to the host name of a port inside is for the dialect: its token is one of E2B's. The two doors of E2B's own are
/// ports like others where nothing tells that an SDK asks.
pub fn is_for_named(port: u16, uri: &Uri, headers: &HeaderMap) -> bool {
    match port {
        ENVD | CODE_INTERPRETER if headers.contains_key(ENVD_TOKEN) || is_for_sandbox(headers) => true,
        ENVD if uri.path() == FILES && signatures::is_signed(uri) => true,
        _ => headers.contains_key(TRAFFIC_TOKEN),
    }
}

/// The sandbox and the port are those of the host name, whatever the headers say.
pub fn named(headers: &mut HeaderMap, sandbox: &str, port: u16) {
    let id = HeaderValue::from_str(sandbox).unwrap_or(HeaderValue::from_static(""));
    headers.insert(SANDBOX, id);
    headers.insert(PORT, HeaderValue::from(port));
}

pub async fn answer(State(app): State<App>, request: Request) -> Response {
    let warning = versions::warning(&app, request.headers());
    versions::told(answered(app, request).await, warning)
}

async fn answered(app: App, request: Request) -> Response {
    let is_call =
        request.uri().path().starts_with("/process.") || request.uri().path().starts_with("/filesystem.");
    let refuse = |refusal: Refusal| match is_call {
        true => RpcError::from(refusal).unary(),
        false => refusal.into_response(),
    };
    let named = gateway::holder(request.extensions());
    match enter(&app, request.method(), request.uri(), request.headers(), named).await {
        Err(refusal) => refuse(refusal),
        Ok((inside, port, revoked)) => {
            auth::is_known(request.extensions());
            let leash = Leash::new(revoked, &request);
            let answering = async {
                match port {
                    ENVD => envd(inside, request).await,
                    CODE_INTERPRETER => code::answer(inside, request).await,
                    port => through(inside, port, request, leash.clone()).await,
                }
                .unwrap_or_else(refuse)
            };
            revoked::bounded(Some(leash.clone()), answering).await
        }
    }
}

/// Admits the caller by its token. Returns the running sandbox, the port that the request names, and the watch for a revocation.
///
/// `named`: the holder of the API key that the token was sealed for, where a gateway says so.
async fn enter(
    app: &App,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    named: Option<&Actor>,
) -> Result<(Inside, u16, Revoked)> {
    let id = text(headers, SANDBOX, LONGEST_ID)?.unwrap_or_default();
    let port = match text(headers, PORT, 5)? {
        None => ENVD,
        Some(port) => port.parse().ok().filter(|port| *port != 0).ok_or_else(|| {
            Refusal::invalid(format!("the header E2b-Sandbox-Port: {port:?} is not 1 to 65535"))
        })?,
    };
    let is_signed = port == ENVD && uri.path() == FILES && !headers.contains_key(ENVD_TOKEN);
    let Admitted { actor, revoked } = match is_signed && signatures::is_signed(uri) {
        true => Wanted::of(uri.query())?.admit(app, Operation::of(method), id).await?,
        false => admit(app, headers, id, port, named).await?,
    };
    if actor.only_reads() {
        return Err(auth::reads_only().into());
    }
    tracing::Span::current().record("tenant", actor.tenant.as_str());
    let found = app.fleet().get(&actor, id).await;
    let sandbox = found.map_err(|error| Refusal::of(id, error))?;
    // A look at its health resumes nothing.
    let sandbox = match uri.path() {
        HEALTH if port == ENVD && sandbox.state != SandboxState::Running => return Err(Refusal::gone(id)),
        _ => sandboxes::running(app, &actor, sandbox).await?,
    };
    Ok((Inside { app: app.clone(), actor, sandbox }, port, revoked))
}

/// Commands and files want the one token; other ports take either.
async fn admit(
    app: &App,
    headers: &HeaderMap,
    id: &str,
    port: u16,
    named: Option<&Actor>,
) -> Result<Admitted> {
    let envd = text(headers, ENVD_TOKEN, LONGEST_TOKEN)?.map(|token| (Grant::Envd, token));
    let traffic = text(headers, TRAFFIC_TOKEN, LONGEST_TOKEN)?.map(|token| (Grant::Traffic, token));
    let shown = envd.into_iter().chain(traffic.filter(|_| port != ENVD));
    for (grant, token) in shown {
        if let Some(admitted) = grant.admit(app, id, token, named).await? {
            return Ok(admitted);
        }
    }
    Err(Refusal::unauthorized("the access token is missing, or is not one for this sandbox"))
}

/// The one value of a header.
fn text<'a>(headers: &'a HeaderMap, name: &str, longest: usize) -> Result<Option<&'a str>> {
    let mut given = headers.get_all(name).iter();
    let Some(value) = given.next() else { return Ok(None) };
    match value.to_str().ok().filter(|text| text.len() <= longest && given.next().is_none()) {
        Some(text) => Ok(Some(text)),
        None => {
            Err(Refusal::invalid(format!("the header {name} is given twice, is too long, or is no text")))
        }
    }
}

async fn envd(inside: Inside, request: Request) -> Result<Response> {
    let path = request.uri().path().to_string();
    let method = request.method().clone();
    if let Some(name) = path.strip_prefix("/process.Process/") {
        return Ok(match routes::process_call(name) {
            "Start" => process::start(inside, request).await,
            "Connect" => process::connect(inside, request).await,
            "StreamInput" => process_calls::stream_input(inside, request).await,
            _ => process_calls::answer(inside, name, request).await,
        });
    }
    if let Some(name) = path.strip_prefix("/filesystem.Filesystem/") {
        return Ok(filesystem::answer(inside, name, request).await);
    }
    match (method, path.as_str()) {
        (method, path) if !routes::is_of_agent(method.as_str(), path) => Err(not_of_agent(&method, path)),
        (Method::GET, HEALTH) => Ok(StatusCode::NO_CONTENT.into_response()),
        (Method::GET, FILES) => files::read(inside, request).await,
        (Method::POST, FILES) => files::write(inside, request).await,
        (method, path) => Err(not_of_agent(&method, path)),
    }
}

fn not_of_agent(method: &Method, path: &str) -> Refusal {
    let shown = shorten(path);
    if path.starts_with("/contexts") || path.starts_with("/execute") {
        return Refusal::invalid(format!(
            "{method} {shown} is for the code interpreter: the header E2b-Sandbox-Port has to be 49999"
        ));
    }
    let words = format!("this server's E2B dialect has no {method} {shown} of a sandbox");
    Refusal::new(StatusCode::NOT_IMPLEMENTED, "unsupported", words)
}

/// Another port inside: what listens there answers. The headers that open the sandbox do not go inside, nor does a key.
async fn through(inside: Inside, port: u16, mut request: Request, leash: Leash) -> Result<Response> {
    let peer = request.extensions().get::<Peer>().copied();
    let mut secrets = own_token::shown(&inside.app, request.headers()).await;
    for name in [ENVD_TOKEN, TRAFFIC_TOKEN] {
        secrets.extend(text(request.headers(), name, LONGEST_TOKEN)?.map(str::to_string));
    }
    secrets.extend(ports::take_own_tokens(&inside.app, &mut request).await);
    for name in [SANDBOX, PORT, ENVD_TOKEN, TRAFFIC_TOKEN] {
        request.headers_mut().remove(name);
    }
    own_token::clean_headers(request.headers_mut(), &secrets);
    if own_token::holds(request.uri().path().as_bytes(), &secrets) {
        return Err(Refusal::invalid("the path holds a token of this server, which does not go inside"));
    }
    let place = proxy::Inside {
        sandbox: inside.id().to_string(),
        port,
        prefix: String::new(),
        rest: request.uri().path().to_string(),
        query: own_token::clean_query(request.uri().query(), &secrets),
    };
    let answered = proxy::forward(&inside.app, &inside.actor, &place, request, peer, Some(leash)).await;
    answered.map_err(|failure| match failure.code {
        "port_closed" => Refusal::port_closed(inside.id()),
        "sandbox_not_found" | "sandbox_ended" | "guest_lost" => Refusal::gone(inside.id()),
        _ => failure.into(),
    })
}
