//! The connections to one node: kept open between requests, and given up when the node says nothing for too long.

use axum::body::Body;
use axum::extract::Request;
use axum::http::Uri;
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use paddock_client::{Address, ConnectError, Stream};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

const CONNECT: Duration = Duration::from_secs(2);
/// A node whose host is gone is noticed after so long, also while nothing is sent.
const DEAD_AFTER: Duration = Duration::from_secs(20);
/// Shorter than any server keeps a quiet connection, so that a request is not sent into one that is being closed.
const KEPT_QUIET: Duration = Duration::from_secs(8);
const MOST_KEPT: usize = 256;

pub struct Link {
    client: Client<Connector, Body>,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum LinkError {
    /// No byte of the request left this host.
    NotSent(String),
    /// The node may have done what it was asked.
    Lost(String),
}

impl LinkError {
    pub fn detail(&self) -> &str {
        match self {
            LinkError::NotSent(detail) | LinkError::Lost(detail) => detail,
        }
    }
}

impl Link {
    pub fn new(address: Address) -> Link {
        let client = Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(KEPT_QUIET)
            .pool_max_idle_per_host(MOST_KEPT)
            .build(Connector { address: Arc::new(address) });
        Link { client }
    }

    /// The target is a whole address; its host counts for nothing but the pool.
    pub async fn send(&self, request: Request) -> Result<hyper::Response<Incoming>, LinkError> {
        self.client.request(request).await.map_err(|error| of(&error))
    }
}

fn of(error: &Error) -> LinkError {
    let mut detail = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        detail = format!("{detail}: {cause}");
        source = cause.source();
    }
    match error.is_connect() {
        true => LinkError::NotSent(detail),
        false => LinkError::Lost(detail),
    }
}

#[derive(Clone)]
struct Connector {
    address: Arc<Address>,
}

impl tower_service::Service<Uri> for Connector {
    type Response = TokioIo<Wire>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TokioIo<Wire>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let address = self.address.clone();
        Box::pin(async move {
            let opening = paddock_client::connect(&address, Some(DEAD_AFTER));
            let silent = || ConnectError::Silent { address: (*address).clone(), seconds: CONNECT.as_secs() };
            let opened = tokio::time::timeout(CONNECT, opening).await.unwrap_or_else(|_| Err(silent()));
            opened.map(|stream| TokioIo::new(Wire(stream))).map_err(io::Error::other)
        })
    }
}

struct Wire(Box<dyn Stream>);

impl Connection for Wire {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, bytes)
    }
}
