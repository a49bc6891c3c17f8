//! The rest of a request that was answered before its body had come: one that was refused for its token, its route or its size, or whose
//! handler had no use for the body. The rest cannot be told from another request, so that the HTTP library closes such a connection; and a client
//! that was not told sends its next request into it.
//!
//! So a short rest is read, and the connection stays. If the rest is long or late, the client is told that the connection is closed, and it is
//! closed in a way that leaves the answer readable ([`crate::linger`]).

use crate::linger::Linger;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, Version, header};
use axum::response::Response;
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

/// How long the rest of a body is waited for.
const MOMENT: Duration = Duration::from_millis(200);
const MOST_BYTES: u64 = 1 << 20;

/// Marks an answer as a refusal although its status is 200: in a protocol of streams the error is in the body.
#[derive(Clone)]
pub struct RefusedInBody;

/// Knows if a request's body has been read to its end.
pub struct Unread {
    /// `None`: there is nothing to know.
    rest: Option<Arc<Rest>>,
    linger: Option<Linger>,
}

struct Rest {
    ended: AtomicBool,
    /// The body, where it was dropped before its end.
    left: Mutex<Option<Body>>,
    /// The client sends its body only when it is read, and a client that was refused is not to send it.
    waits_to_be_asked: bool,
}

impl Unread {
    pub fn watch(request: Request) -> (Request, Unread) {
        let linger = request.extensions().get::<Linger>().cloned();
        // Later versions have streams, which end one by one.
        if request.version() > Version::HTTP_11 || request.body().is_end_stream() {
            return (request, Unread { rest: None, linger });
        }
        let waits_to_be_asked = request.headers().contains_key(header::EXPECT);
        let rest = Rest { ended: AtomicBool::new(false), left: Mutex::default(), waits_to_be_asked };
        let rest = Arc::new(rest);
        let watched = request.map(|body| Body::new(Watched { body, rest: rest.clone() }));
        (watched, Unread { rest: Some(rest), linger })
    }

    /// Before the answer is sent. The body of a request may still be read while its answer streams; only a refusal ends that.
    pub async fn settle(&self, response: &mut Response) {
        let in_body = response.extensions_mut().remove::<RefusedInBody>().is_some();
        let refused = in_body || response.status().is_client_error() || response.status().is_server_error();
        let Some(rest) = &self.rest else { return };
        let left = rest.left.lock().unwrap_or_else(PoisonError::into_inner).take();
        let was_dropped = left.is_some();
        if let Some(body) = left.filter(|_| !rest.waits_to_be_asked) {
            rest.read(body).await;
        }
        if (refused || was_dropped) && !rest.ended.load(Ordering::Relaxed) {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            if let Some(linger) = &self.linger {
                linger.ask();
            }
        }
    }
}

impl Rest {
    /// To the end of the body, or up to a bound.
    async fn read(&self, mut body: Body) {
        if body.size_hint().lower() > MOST_BYTES {
            return;
        }
        let reading = async {
            let mut bytes = 0;
            while bytes <= MOST_BYTES {
                match body.frame().await {
                    Some(Ok(frame)) => bytes += frame.data_ref().map_or(0, |data| data.len() as u64),
                    Some(Err(_)) => return,
                    None => return self.ended.store(true, Ordering::Relaxed),
                }
            }
        };
        let _ = tokio::time::timeout(MOMENT, reading).await;
    }
}

struct Watched {
    body: Body,
    rest: Arc<Rest>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        if !self.rest.ended.load(Ordering::Relaxed) {
            let body = std::mem::take(&mut self.body);
            *self.rest.left.lock().unwrap_or_else(PoisonError::into_inner) = Some(body);
        }
    }
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if matches!(frame, Poll::Ready(None)) || self.body.is_end_stream() {
            self.rest.ended.store(true, Ordering::Relaxed);
        }
        frame
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
    use axum::response::IntoResponse;
    use futures_util::stream;

    fn in_pieces(count: usize, bytes: usize) -> Request {
        let pieces =
            stream::iter((0..count).map(move |_| Ok::<_, std::io::Error>(Bytes::from(vec![7; bytes]))));
        Request::new(Body::from_stream(pieces))
    }

    fn endless() -> Request {
        Request::new(Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>()))
    }

    fn closes(response: &Response) -> bool {
        response.headers().get(header::CONNECTION).is_some_and(|value| value == "close")
    }

    fn refused_in_body() -> Response {
        let mut refused = ().into_response();
        refused.extensions_mut().insert(RefusedInBody);
        refused
    }

    #[tokio::test]
    async fn a_refusal_while_the_body_is_still_read_closes_the_connection() {
        let (_request, unread) = Unread::watch(endless());
        let mut refused = refused_in_body();
        unread.settle(&mut refused).await;
        assert!(closes(&refused));
        let mut streams_along = ().into_response();
        unread.settle(&mut streams_along).await;
        assert!(!closes(&streams_along));
    }

    #[tokio::test]
    async fn a_short_rest_is_read_and_the_connection_stays() {
        for mut response in [().into_response(), refused_in_body()] {
            let (request, unread) = Unread::watch(in_pieces(8, 100));
            drop(request);
            unread.settle(&mut response).await;
            assert!(!closes(&response));
        }
    }

    #[tokio::test]
    async fn a_long_rest_and_one_that_does_not_come_close_it_and_the_end_waits_for_the_client() {
        for mut request in [in_pieces(8, 1 << 20), endless()] {
            let linger = Linger::default();
            request.extensions_mut().insert(linger.clone());
            let (request, unread) = Unread::watch(request);
            drop(request);
            let mut response = ().into_response();
            unread.settle(&mut response).await;
            assert!(closes(&response) && linger.is_asked());
        }
    }

    #[tokio::test]
    async fn a_client_that_waits_to_be_asked_for_its_body_is_not_asked() {
        let mut request = in_pieces(1, 1);
        request.headers_mut().insert(header::EXPECT, HeaderValue::from_static("100-continue"));
        let (request, unread) = Unread::watch(request);
        drop(request);
        let mut refused = refused_in_body();
        unread.settle(&mut refused).await;
        assert!(closes(&refused));
    }

    #[tokio::test]
    async fn after_a_body_that_was_read_whole_the_connection_stays() {
        let (request, unread) = Unread::watch(in_pieces(8, 100));
        axum::body::to_bytes(request.into_body(), 1 << 20).await.expect("a body");
        let mut refused = refused_in_body();
        unread.settle(&mut refused).await;
        assert!(!closes(&refused));
    }
}
