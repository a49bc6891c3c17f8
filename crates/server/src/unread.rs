//! Tells the client that a connection is closed after an answer to a request whose body was not read. A request that is
//! refused for its token, its route or its size is answered before the body has come, and the rest of the body cannot
//! be told from another request.
//!
//! The HTTP library closes such a connection; a client that was not told sends its next request into it.

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, Version, header};
use axum::response::Response;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

/// Knows if a request's body has been read to its end.
pub struct Unread(Option<Arc<AtomicBool>>);

impl Unread {
    pub fn watch(request: Request) -> (Request, Unread) {
        // Later versions have streams, which end one by one.
        if request.version() > Version::HTTP_11 || request.body().is_end_stream() {
            return (request, Unread(None));
        }
        let ended = Arc::new(AtomicBool::new(false));
        let watched = request.map(|body| Body::new(Watched { body, ended: ended.clone() }));
        (watched, Unread(Some(ended)))
    }

    /// Only for refusals: an answer that streams may begin while the request's body is still read.
    pub fn tell(&self, response: &mut Response) {
        let refused = response.status().is_client_error() || response.status().is_server_error();
        if refused && self.0.as_ref().is_some_and(|ended| !ended.load(Ordering::Relaxed)) {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
    }
}

struct Watched {
    body: Body,
    ended: Arc<AtomicBool>,
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
            self.ended.store(true, Ordering::Relaxed);
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
