//! When a token is revoked, everything ends that it opened: requests under way, answers that are still being written,
//! and connections that have become something else than HTTP.

use crate::errors::Failure;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::Version;
use axum::response::{IntoResponse, Response};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use paddock_fleet::Revoked;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio_util::sync::{CancellationToken, DropGuard};

/// An answer of so few bytes is on its way at once, and is not watched over.
const SMALL: u64 = 64 << 10;
/// How long an answer that was broken off may take to leave; a client that reads nothing is cut off then.
const LEAVING: Duration = Duration::from_millis(300);

/// Closes the connection that a request came over. Put into every request.
#[derive(Clone)]
pub struct Connection(pub CancellationToken);

/// How a request ends before its time.
#[derive(Clone)]
pub struct Leash {
    revoked: Revoked,
    /// Only of HTTP/1: in HTTP/2 a connection may carry requests of others.
    connection: Option<CancellationToken>,
}

impl Leash {
    pub fn new(revoked: Revoked, request: &Request) -> Leash {
        let alone = request.version() <= Version::HTTP_11;
        let connection = request.extensions().get::<Connection>().filter(|_| alone);
        Leash { revoked, connection: connection.map(|connection| connection.0.clone()) }
    }

    /// Ready when the token is revoked.
    pub async fn ends(&self) {
        self.revoked.clone().revoked().await;
    }
}

/// The answer, for as long as the token of the request is valid; without a token, the answer as it is.
pub async fn bounded(leash: Option<Leash>, answering: impl Future<Output = Response>) -> Response {
    let Some(leash) = leash else { return answering.await };
    tokio::select! {
        biased;
        () = leash.ends() => refused().into_response(),
        response = answering => {
            if response.body().size_hint().upper().is_some_and(|bytes| bytes <= SMALL) {
                return response;
            }
            response.map(|body| Body::new(Bounded::new(body, leash)))
        }
    }
}

fn refused() -> Failure {
    Failure::unauthorized("this token was revoked")
        .hint("Ask whoever manages the tenant's tokens for a new one.")
}

/// A body that breaks off when the token is revoked: half an answer never looks like a whole one.
struct Bounded {
    /// Taken away when the token is revoked, even while the client reads no more of it.
    body: Arc<Mutex<Option<Body>>>,
    ends: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Tells the watching task that this body is done with.
    _done: DropGuard,
}

impl Bounded {
    fn new(body: Body, leash: Leash) -> Bounded {
        let body = Arc::new(Mutex::new(Some(body)));
        let done = CancellationToken::new();
        tokio::spawn(watch_over(leash.clone(), body.clone(), done.clone()));
        let ends = Box::pin(async move { leash.ends().await });
        Bounded { body, ends, _done: done.drop_guard() }
    }

    fn with_body<T>(&self, with: impl FnOnce(&mut Option<Body>) -> T) -> T {
        with(&mut self.body.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A client that reads nothing holds neither the source of the answer nor its connection.
async fn watch_over(leash: Leash, body: Arc<Mutex<Option<Body>>>, done: CancellationToken) {
    tokio::select! {
        () = done.cancelled() => return,
        () = leash.ends() => {}
    }
    drop(body.lock().unwrap_or_else(PoisonError::into_inner).take());
    if let Some(connection) = &leash.connection
        && tokio::time::timeout(LEAVING, done.cancelled()).await.is_err()
    {
        connection.cancel();
    }
}

impl HttpBody for Bounded {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let broken_off = || axum::Error::new(std::io::Error::other("the token was revoked"));
        if self.ends.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(broken_off())));
        }
        self.with_body(|body| match body {
            Some(body) => Pin::new(body).poll_frame(context),
            None => Poll::Ready(Some(Err(broken_off()))),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.with_body(|body| body.as_ref().is_some_and(HttpBody::is_end_stream))
    }

    fn size_hint(&self) -> SizeHint {
        self.with_body(|body| body.as_ref().map(HttpBody::size_hint).unwrap_or_default())
    }
}
