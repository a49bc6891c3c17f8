//! One request to one node: streamed both ways, upgrades included; or a short question whose answer is read whole.

use crate::failures;
use crate::head::{self, Origins, RequestKind, Toward};
use crate::link::LinkError;
use crate::node::Node;
use crate::who::{Holder, Who};
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use paddock_server::front::{self, App, Failure, Leash, Peer, RequestId};
use std::time::Duration;

/// The pause between two looks at a node that has not answered yet.
const LOOK: Duration = Duration::from_millis(250);
/// A request to a node that was silent before waits so long: it may be back.
const SHORTEST: Duration = Duration::from_secs(2);

/// In whose name a request is passed on.
#[derive(Default, Clone)]
pub struct Pass {
    pub caller: Option<HeaderValue>,
    /// The node has to check a right first: what it refuses is no word about the gateway.
    pub is_derived: bool,
    pub leash: Option<Leash>,
    pub for_port: ForPort,
}

/// Where a request goes that is not for a route of the node's.
#[derive(Debug, Default, Clone)]
pub enum ForPort {
    #[default]
    No,
    ByHost,
    E2b {
        sandbox: String,
        port: Option<u16>,
    },
}

impl Pass {
    pub fn of(who: &Who) -> Pass {
        Pass { caller: Some(who.header.clone()), leash: who.leash.clone(), ..Pass::default() }
    }

    /// For a right that the node checks.
    pub fn of_holder(holder: Option<Holder>) -> Pass {
        let Some(Holder { header, leash }) = holder else { return Pass::default() };
        Pass { caller: Some(header), is_derived: true, leash, ..Pass::default() }
    }
}

/// The node's answer, which ends before its time when the token behind the request is revoked.
pub async fn pass(app: &App, node: &Node, request: Request, pass: Pass) -> Response {
    let leash = pass.leash.clone();
    let answering = async {
        let answered = pass_on(app, node, request, pass).await;
        answered.unwrap_or_else(IntoResponse::into_response)
    };
    front::bounded(leash, answering).await
}

async fn pass_on(app: &App, node: &Node, mut request: Request, pass: Pass) -> Result<Response, Failure> {
    let upgrade = front::wanted_upgrade(&request);
    let outside = upgrade.is_some().then(|| hyper::upgrade::on(&mut request));
    let (mut parts, body) = request.into_parts();
    let peer = parts.extensions.get::<Peer>().copied();
    let id = parts.extensions.get::<RequestId>().cloned();
    parts.extensions.clear();
    let origins = head::for_node(&mut parts, &toward(node, &pass, peer, id.as_ref()))?;
    if let Some(protocol) = &upgrade {
        parts.headers.insert(axum::http::header::CONNECTION, HeaderValue::from_static("upgrade"));
        parts.headers.insert(axum::http::header::UPGRADE, protocol.clone());
    }
    let may_repeat = is_repeatable(&parts.method, &parts.headers);
    let sending = unless_silent(node, node.link.send(Request::from_parts(parts, body)));
    let answer = tokio::select! {
        () = app.ending().cancelled() => return Err(Failure::shutting_down()),
        answer = sending => answer.map_err(|error| failures::no_answer(node, &error, may_repeat))?,
    };
    let mut response = answer.map(Body::new);
    let switched = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    if switched {
        let Some(outside) = outside else {
            return Err(failures::unreachable(node, "it switched protocols without being asked to"));
        };
        let within = hyper::upgrade::on(&mut response);
        front::join(app, outside, within, pass.leash);
    }
    believed(node, pass.caller.is_some() && !pass.is_derived, response.status())?;
    finish(&mut response, &origins, switched);
    Ok(response)
}

/// Requests that change nothing, and those that a node does once however often they come.
fn is_repeatable(method: &Method, headers: &HeaderMap) -> bool {
    matches!(*method, Method::GET | Method::HEAD) || headers.contains_key("idempotency-key")
}

/// An answer may take as long as it takes (a command to its end, room in a quota), but only of a node that lives: each is asked every second
/// how it is.
async fn unless_silent<T>(
    node: &Node,
    answering: impl Future<Output = Result<T, LinkError>>,
) -> Result<T, LinkError> {
    let began = tokio::time::Instant::now();
    let mut answering = std::pin::pin!(answering);
    loop {
        if let Ok(answered) = tokio::time::timeout(LOOK, &mut answering).await {
            return answered;
        }
        if began.elapsed() >= SHORTEST && node.seen().is_silent() {
            return Err(LinkError::Lost("it has fallen silent".into()));
        }
    }
}

/// A node that knows the gateway lets every caller in that the gateway names.
fn believed(node: &Node, is_named: bool, status: StatusCode) -> Result<(), Failure> {
    match is_named && status == StatusCode::UNAUTHORIZED {
        true => Err(failures::refuses_gateway(node)),
        false => Ok(()),
    }
}

fn finish(response: &mut Response, origins: &Origins, switched: bool) {
    head::for_client(response.headers_mut(), origins, switched);
    response.extensions_mut().clear();
}

fn toward<'a>(node: &'a Node, pass: &'a Pass, peer: Option<Peer>, id: Option<&'a RequestId>) -> Toward<'a> {
    Toward {
        address: &node.source.address,
        key: &node.source.key,
        caller: pass.caller.as_ref(),
        request_id: id.map(|id| id.0.as_str()),
        scheme: peer.map_or("http", |peer| peer.scheme()),
        kind: match &pass.for_port {
            ForPort::No => RequestKind::Api,
            ForPort::ByHost => RequestKind::PortByHost,
            ForPort::E2b { sandbox, port } => RequestKind::E2bData { sandbox, port: *port },
        },
    }
}

/// A request whose answer is read whole.
pub struct Ask {
    pub method: Method,
    pub target: String,
    pub caller: Option<HeaderValue>,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// For the whole of the answer.
    pub patience: Duration,
    pub most_bytes: usize,
    pub request_id: Option<RequestId>,
    /// The client's own address, for redirects; a question has none.
    pub peer: Option<Peer>,
}

impl Ask {
    pub fn new(method: Method, target: impl Into<String>) -> Ask {
        Ask {
            method,
            target: target.into(),
            caller: None,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            patience: Duration::from_secs(5),
            most_bytes: 1 << 20,
            request_id: None,
            peer: None,
        }
    }
}

#[derive(Debug)]
pub struct Answered {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answered {
    /// The code of a failure, or an empty text.
    pub fn code(&self) -> String {
        let body: serde_json::Value = serde_json::from_slice(&self.body).unwrap_or_default();
        // E2B's clients are told the code in another field.
        let code = body["error_code"].as_str().or_else(|| body["code"].as_str());
        code.unwrap_or_default().to_string()
    }

    /// The same answer for the client. Lengths are set anew.
    pub fn into_response(mut self) -> Response {
        self.headers.remove(axum::http::header::CONTENT_LENGTH);
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}

/// Words for why there is no answer.
pub async fn ask(node: &Node, ask: Ask) -> Result<Answered, String> {
    ask_carefully(node, ask).await.map_err(|error| error.detail().to_string())
}

/// The same, with the difference between what was surely not asked and what may have been done.
pub async fn ask_carefully(node: &Node, ask: Ask) -> Result<Answered, LinkError> {
    let patience = ask.patience;
    let answering = unless_silent(node, exchange(node, ask));
    tokio::time::timeout(patience, answering)
        .await
        .unwrap_or_else(|_| Err(LinkError::Lost(format!("no answer within {} s", patience.as_secs_f64()))))
}

/// A question whose answer is read as it comes.
pub async fn open(
    node: &Node,
    target: &str,
    caller: &HeaderValue,
    request_id: Option<&RequestId>,
) -> Result<hyper::Response<Incoming>, String> {
    let ask = Ask {
        caller: Some(caller.clone()),
        request_id: request_id.cloned(),
        ..Ask::new(Method::GET, target)
    };
    let patience = ask.patience;
    let opened = tokio::time::timeout(patience, send(node, ask)).await;
    let opened = opened.map_err(|_| format!("no answer within {} s", patience.as_secs_f64()))?;
    opened.map(|(answer, _)| answer).map_err(|error| error.detail().to_string())
}

async fn exchange(node: &Node, ask: Ask) -> Result<Answered, LinkError> {
    let most_bytes = ask.most_bytes;
    let (answer, origins) = send(node, ask).await?;
    let (mut parts, body) = answer.into_parts();
    head::for_client(&mut parts.headers, &origins, false);
    let body = Limited::new(body, most_bytes).collect().await;
    let body = body.map_err(|error| LinkError::Lost(format!("its answer broke off: {error}")))?;
    Ok(Answered { status: parts.status, headers: parts.headers, body: body.to_bytes() })
}

async fn send(node: &Node, ask: Ask) -> Result<(hyper::Response<Incoming>, Origins), LinkError> {
    let not_sent = |failure: Failure| LinkError::NotSent(failure.message);
    let mut request = Request::new(Body::from(ask.body));
    *request.method_mut() = ask.method;
    *request.headers_mut() = ask.headers;
    *request.uri_mut() =
        ask.target.parse().map_err(|_| LinkError::NotSent("the path is not valid".into()))?;
    let (mut parts, body) = request.into_parts();
    let pass = Pass { caller: ask.caller, ..Pass::default() };
    let toward = toward(node, &pass, ask.peer, ask.request_id.as_ref());
    let origins = head::for_node(&mut parts, &toward).map_err(not_sent)?;
    let answer = node.link.send(Request::from_parts(parts, body)).await?;
    Ok((answer, origins))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_node::{FakeNode, Say};
    use crate::node::Trouble;

    #[tokio::test]
    async fn an_answer_is_waited_for_while_its_node_lives() {
        let stopped = FakeNode::start(1, &[Say::Nothing]).await;
        let asking = || ask_carefully(&stopped.node, Ask::new(Method::GET, "/v1/x"));
        let patient = tokio::time::timeout(SHORTEST * 2, asking());
        patient.await.expect_err("its report is fresh: the answer may be long in coming");
        stopped.node.heard(Err(Trouble::Silent("no answer".into())));
        stopped.node.was_silent_for_long();
        let given_up = tokio::time::timeout(SHORTEST * 2, asking()).await.expect("it is silent");
        assert!(matches!(given_up, Err(LinkError::Lost(_))));
    }

    #[test]
    fn what_may_be_sent_again_is_told_from_what_may_not() {
        let mut headers = HeaderMap::new();
        assert!(is_repeatable(&Method::GET, &headers) && !is_repeatable(&Method::POST, &headers));
        headers.insert("idempotency-key", HeaderValue::from_static("k"));
        assert!(is_repeatable(&Method::POST, &headers));
        let node = Node::new(crate::nodes::tests::source("http://a:1"));
        let status = |error: LinkError, may| failures::no_answer(&node, &error, may).status.as_u16();
        assert_eq!(status(LinkError::NotSent("refused".into()), false), 503);
        assert_eq!(status(LinkError::Lost("broken".into()), true), 503);
        assert_eq!(status(LinkError::Lost("broken".into()), false), 502);
    }
}
