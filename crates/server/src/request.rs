//! The outermost layer: a request's id, its span and its numbers, and the bodies of failures.

use crate::app::App;
use crate::dialects::e2b;
use crate::errors::{Failure, shorten};
use crate::peer::Peer;
use crate::unread::Unread;
use axum::body::{Body, Bytes};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use ring::rand::SecureRandom;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;
use tracing::Instrument;

pub const REQUEST_ID: &str = "x-request-id";

pub async fn answer(State(app): State<App>, request: Request, next: Next) -> Response {
    let active = app.activity().begin();
    let began = Instant::now();
    let id = request_id(&request);
    let method = request.method().clone();
    let owner = request.extensions().get::<Peer>().is_some_and(Peer::is_owner);
    let route = route(&app, &request);
    // Only the pattern of the route: paths hold secrets (signed URLs) and any text that a stranger typed.
    let span = tracing::info_span!("request", id = %id, %method, route, tenant = tracing::field::Empty);

    let (mut request, unread) = Unread::watch(request);
    request.extensions_mut().insert(RequestId(id.clone()));
    let mut response = next.run(request).instrument(span.clone()).await;
    unread.settle(&mut response).await;
    if !method.is_safe() {
        // No caller is told of a change before the timeline has it.
        app.fleet().written().await;
    }
    let failure = response.extensions_mut().remove::<Failure>();
    if let Some(failure) = &failure {
        let shown = if owner { failure } else { &failure.clone().without_host() };
        write_failure(&mut response, shown, &id, &method);
    }
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    let (status, took) = (response.status(), began.elapsed());
    app.metrics().count(&method, &route, status, took);
    span.in_scope(|| log(status, took.as_secs_f64() * 1000.0, failure.as_ref()));
    response.map(|body| Body::new(Held::new(body, active)))
}

/// Put into every request.
#[derive(Clone)]
pub struct RequestId(pub String);

/// The name of a request's route, where a front answers it.
#[derive(Clone, Copy)]
pub struct RouteName(pub &'static str);

/// A pattern of ours, never the path itself.
fn route(app: &App, request: &Request) -> String {
    if let Some(RouteName(name)) = request.extensions().get() {
        return (*name).into();
    }
    const PORTS: &str = "/v1/sandboxes/{id}/ports/{port}";
    match request.extensions().get::<MatchedPath>().map(MatchedPath::as_str) {
        Some(pattern) if pattern.starts_with(PORTS) => PORTS.into(),
        Some(pattern) => pattern.into(),
        None if e2b::is_for_sandbox(request.headers()) => e2b::ROUTE_NAME.into(),
        None if app.guard().port_name(request.uri(), request.headers()).is_some() => PORTS.into(),
        None => "unknown".into(),
    }
}

fn log(status: StatusCode, took_ms: f64, failure: Option<&Failure>) {
    let status = status.as_u16();
    match failure {
        Some(failure) if status >= 500 => {
            tracing::error!(status, took_ms, code = failure.code, message = ?shorten(&failure.message), "failed");
        }
        // Without its message, which quotes the request: the quoted part can be a secret in the wrong place.
        Some(failure) => tracing::info!(status, took_ms, code = failure.code, "refused"),
        None => tracing::info!(status, took_ms, "answered"),
    }
}

fn write_failure(response: &mut Response, failure: &Failure, id: &str, method: &Method) {
    // A body that was written already, such as a page for people, stays.
    if response.headers().contains_key(header::CONTENT_TYPE) {
        return;
    }
    let body = serde_json::to_vec(&failure.body(id)).unwrap_or_default();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    if *method != Method::HEAD {
        *response.body_mut() = Body::from(body);
    }
}

/// The caller's own id where it is safe to print everywhere, else a new one.
fn request_id(request: &Request) -> String {
    let safe = |text: &&str| {
        (1..=64).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    let given = request.headers().get(REQUEST_ID).and_then(|value| value.to_str().ok()).filter(safe);
    given.map_or_else(new_id, str::to_string)
}

fn new_id() -> String {
    let mut bytes = [0; 8];
    // An id that repeats is a nuisance in a log, and nothing worse.
    let _ = ring::rand::SystemRandom::new().fill(&mut bytes);
    format!("rq-{:016x}", u64::from_be_bytes(bytes))
}

/// A body that keeps something until it is out: its request is counted so long.
pub struct Held<T> {
    body: Body,
    _kept: T,
}

impl<T> Held<T> {
    pub fn new(body: Body, kept: T) -> Held<T> {
        Held { body, _kept: kept }
    }
}

impl<T: Unpin> HttpBody for Held<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_safe_id_is_echoed() {
        let with = |value: &[u8]| {
            let value = HeaderValue::from_bytes(value).expect("a header");
            request_id(&Request::builder().header(REQUEST_ID, value).body(Body::empty()).expect("a request"))
        };
        assert_eq!(with(b"trace-7.a_B"), "trace-7.a_B");
        for bad in [&b""[..], b"a b", b"<script>", b"\xff", &[b'x'; 65]] {
            assert!(with(bad).starts_with("rq-"), "{bad:?}");
        }
        assert_ne!(new_id(), new_id());
    }
}
