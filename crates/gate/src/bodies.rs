//! Bodies on their way through the gate: outgoing bodies are searched for placeholders, and answers from a host that
//! has a secret are masked.

use crate::flows::Target;
use crate::refused::Refused;
use crate::secrets::{Mask, Masked, Search};
use crate::shared::Shared;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{HeaderMap, HeaderValue};
use paddock_model::net::Denial;
use std::error::Error as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// The body of a request.
pub struct Sent {
    body: Incoming,
    search: Option<Search>,
    shared: Arc<Shared>,
    target: Target,
}

impl Sent {
    /// `is_bound`: the host has a secret, and TLS is spoken with it.
    pub fn new(body: Incoming, shared: Arc<Shared>, target: Target, is_bound: bool) -> Sent {
        let secrets = shared.secrets();
        let searched = !is_bound && !secrets.is_empty();
        let search = searched.then(|| Search::new(secrets));
        Sent { body, search, shared, target }
    }

    /// No placeholder goes out in the clear.
    fn look(&mut self, frame: &Frame<Bytes>) -> io::Result<()> {
        let Some(search) = &mut self.search else { return Ok(()) };
        let found = match (frame.data_ref(), frame.trailers_ref()) {
            (Some(data), _) => search.look(data),
            (_, Some(trailers)) => trailers.values().find_map(|value| search.look(value.as_bytes())),
            _ => None,
        };
        let Some(name) = found else { return Ok(()) };
        let denial = self.shared.secrets().refusal_in_clear(&name, &self.target.host);
        self.shared.deny(&self.target, None, denial.clone());
        Err(io::Error::other(Refused::from(denial)))
    }
}

/// The denial that ended a body in the middle, out of the error of the request that had it.
pub fn denial_in(error: &hyper::Error) -> Option<Denial> {
    let body = error.source()?.downcast_ref::<io::Error>()?;
    body.get_ref()?.downcast_ref::<Refused>().map(|refused| refused.denial.clone())
}

impl Body for Sent {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = self.get_mut();
        match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
            Some(Ok(frame)) => Poll::Ready(Some(this.look(&frame).map(|()| frame))),
            Some(Err(error)) => Poll::Ready(Some(Err(io::Error::other(error)))),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of an answer.
pub enum Answered {
    /// The bytes as the host sent them.
    Plain(Incoming),
    Masked(Box<MaskedBody>),
    /// An answer of the gate itself.
    Own(Full<Bytes>),
}

pub struct MaskedBody {
    body: Incoming,
    mask: Mask,
    masked: Masked,
    trailers: Option<HeaderMap>,
    ended: bool,
}

impl MaskedBody {
    pub fn new(body: Incoming, mask: Mask) -> MaskedBody {
        MaskedBody { body, mask, masked: Masked::default(), trailers: None, ended: false }
    }

    fn poll_masked(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        loop {
            if self.ended {
                // The bytes that were held back come first, then the trailers, then the end.
                if self.masked.holds() {
                    return Poll::Ready(Some(Ok(Frame::data(self.masked.rest().into()))));
                }
                return Poll::Ready(self.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))));
            }
            let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(cx)) else {
                self.ended = true;
                continue;
            };
            match frame?.into_data() {
                Ok(data) => {
                    let passed = self.masked.push(&self.mask, data.into());
                    if !passed.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(passed.into()))));
                    }
                }
                Err(frame) => {
                    let trailers = frame.into_trailers().unwrap_or_default();
                    self.trailers = Some(masked_headers(trailers, &self.mask));
                    self.ended = true;
                }
            }
        }
    }
}

/// The same headers, with values of secrets masked. A header whose name holds a value is left out.
pub fn masked_headers(mut headers: HeaderMap, mask: &Mask) -> HeaderMap {
    let holds = |bytes: &[u8]| mask.apply(&mut bytes.to_vec());
    let named: Vec<_> = headers.keys().filter(|name| holds(name.as_str().as_bytes())).cloned().collect();
    for name in named {
        headers.remove(name);
    }
    for value in headers.values_mut() {
        let mut bytes = value.as_bytes().to_vec();
        if mask.apply(&mut bytes) {
            *value = HeaderValue::from_bytes(&bytes).unwrap_or(HeaderValue::from_static("****"));
        }
    }
    headers
}

impl Body for Answered {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.get_mut() {
            Answered::Plain(body) => Pin::new(body).poll_frame(cx),
            Answered::Masked(body) => body.poll_masked(cx),
            Answered::Own(body) => Pin::new(body).poll_frame(cx).map_err(|never| match never {}),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Answered::Plain(body) => body.is_end_stream(),
            Answered::Masked(body) => {
                (body.ended || body.body.is_end_stream()) && !body.masked.holds() && body.trailers.is_none()
            }
            Answered::Own(body) => body.is_end_stream(),
        }
    }

    /// A masked value keeps its length.
    fn size_hint(&self) -> SizeHint {
        match self {
            Answered::Plain(body) => body.size_hint(),
            Answered::Masked(body) => {
                let (inner, held) = (body.body.size_hint(), body.masked.held());
                let mut hint = SizeHint::new();
                hint.set_lower(inner.lower() + held);
                if let Some(upper) = inner.upper() {
                    hint.set_upper(upper + held);
                }
                hint
            }
            Answered::Own(body) => body.size_hint(),
        }
    }
}
