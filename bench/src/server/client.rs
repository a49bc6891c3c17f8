//! HTTP/1.1 on one connection that is kept. It is not `paddock-client`, which sends a call again when a connection is lost: what is
//! measured is one request as it was sent, and a lost connection is an error of the measurement.

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use std::path::PathBuf;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

pub enum Address {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

pub struct Client {
    sender: SendRequest<Full<Bytes>>,
    host: HeaderValue,
    authorization: Option<HeaderValue>,
}

impl Client {
    pub async fn connect(address: &Address, token: Option<&str>) -> Result<Client> {
        let (sender, host) = match address {
            Address::Unix(path) => (open(UnixStream::connect(path).await?).await?, "localhost".to_owned()),
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                (open(stream).await?, address.to_string())
            }
        };
        let authorization = token.map(|token| HeaderValue::from_str(&format!("Bearer {token}")));
        Ok(Client { sender, host: HeaderValue::from_str(&host)?, authorization: authorization.transpose()? })
    }

    /// The whole answer; a refusal of the server is an error with its message.
    pub async fn call(&mut self, method: Method, path: &str, body: impl Into<Bytes>) -> Result<Bytes> {
        let asked = format!("{method} {path}");
        let answer = self.open(method, path, body).await?;
        let status = answer.status();
        let body = answer.into_body().collect().await.context("the answer broke off")?.to_bytes();
        if !status.is_success() {
            bail!(
                "{asked}: {status}: {}",
                String::from_utf8_lossy(&body).chars().take(300).collect::<String>()
            );
        }
        Ok(body)
    }

    /// The head; the body is still to come. The connection takes no other call until it was read.
    pub async fn open(
        &mut self,
        method: Method,
        path: &str,
        body: impl Into<Bytes>,
    ) -> Result<Response<Incoming>> {
        let mut request = Request::new(Full::new(body.into()));
        *request.uri_mut() = path.parse()?;
        *request.method_mut() = method;
        let headers = request.headers_mut();
        headers.insert(HOST, self.host.clone());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(authorization) = &self.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        // The connection's own task may need a moment after the last answer.
        self.sender.ready().await.context("the connection was lost")?;
        self.sender.send_request(request).await.context("the connection was lost")
    }
}

async fn open<S>(stream: S) -> Result<SendRequest<Full<Bytes>>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    // The connection ends with the sender; the call sees its errors.
    tokio::spawn(async move {
        let _ = connection.await;
    });
    Ok(sender)
}
