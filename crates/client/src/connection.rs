//! One connection: TCP, TLS over TCP, or a unix socket.

use crate::address::Address;
use crate::connect_error::ConnectError;
use crate::error::ClientError;
use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustix::fs::{Mode, OFlags};
use rustix::net::sockopt;
use rustls_platform_verifier::BuilderVerifierExt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, Error as TlsError, crypto};

pub type Body = UnsyncBoxBody<Bytes, io::Error>;
pub type Sender = SendRequest<Body>;

const CONNECT: Duration = Duration::from_secs(15);

/// Names are looked up, streams opened and TLS agreed on within this time.
pub async fn open(address: &Address) -> Result<Sender, ClientError> {
    let silent = || ConnectError::Silent { address: address.clone(), seconds: CONNECT.as_secs() };
    let stream =
        tokio::time::timeout(CONNECT, connect(address, None)).await.unwrap_or_else(|_| Err(silent()))?;
    let (sender, connection) =
        handshake(TokioIo::new(stream)).await.map_err(|error| ClientError::Lost(error.into()))?;
    // The connection ends with the answer or with the sender; the call sees its errors.
    tokio::spawn(async move {
        let _ = connection.await;
    });
    Ok(sender)
}

pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// A stream to a server, for a caller that speaks HTTP itself. `dead_after`: a peer that acknowledges nothing for so long is taken for
/// dead, also on a quiet connection; else the kernel decides, after many minutes.
pub async fn connect(
    address: &Address,
    dead_after: Option<Duration>,
) -> Result<Box<dyn Stream>, ConnectError> {
    let failed = |source| ConnectError::of_stream(address, source);
    let (host, port, tls) = match address {
        Address::Unix(path) => {
            let (path, _held) = short_path(path).map_err(failed)?;
            return Ok(Box::new(UnixStream::connect(path).await.map_err(failed)?));
        }
        Address::Tcp { host, port, tls } => (host.trim_start_matches('[').trim_end_matches(']'), *port, *tls),
    };
    let unknown = |source| ConnectError::Name { address: address.clone(), host: host.to_string(), source };
    let found: Vec<SocketAddr> = tokio::net::lookup_host((host, port)).await.map_err(unknown)?.collect();
    let stream = TcpStream::connect(found.as_slice()).await.map_err(failed)?;
    // Keys that are typed are small pieces, and each is waited for.
    stream.set_nodelay(true).map_err(failed)?;
    if let Some(dead_after) = dead_after {
        watch_for_death(&stream, dead_after).map_err(failed)?;
    }
    if !tls {
        return Ok(Box::new(stream));
    }
    let no_name = |error| ConnectError::Tls { address: address.clone(), source: io::Error::other(error) };
    let name = ServerName::try_from(host.to_string()).map_err(no_name)?;
    let unarmed = |source| ConnectError::NoAuthorities { address: address.clone(), source };
    let connector = TlsConnector::from(tls_configuration().map_err(unarmed)?);
    let agreed = connector.connect(name, stream).await;
    Ok(Box::new(agreed.map_err(|source| ConnectError::of_handshake(address, source))?))
}

fn watch_for_death(stream: &TcpStream, dead_after: Duration) -> io::Result<()> {
    let probes = dead_after / 4;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, probes)?;
    sockopt::set_tcp_keepintvl(stream, probes)?;
    sockopt::set_tcp_keepcnt(stream, 3)?;
    // Also while bytes of ours are on their way, when no probes are sent.
    sockopt::set_tcp_user_timeout(stream, u32::try_from(dead_after.as_millis()).unwrap_or(u32::MAX))?;
    Ok(())
}

/// A socket's path may have no more than 107 bytes; a longer one is reached by its directory, which is held meanwhile.
pub fn short_path(path: &Path) -> io::Result<(PathBuf, Option<OwnedFd>)> {
    const LONGEST: usize = 107;
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok((path.to_path_buf(), None));
    };
    if path.as_os_str().len() <= LONGEST {
        return Ok((path.to_path_buf(), None));
    }
    let held = rustix::fs::open(directory, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let short = PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd())).join(name);
    Ok((short, Some(held)))
}

fn tls_configuration() -> Result<Arc<ClientConfig>, TlsError> {
    let provider = Arc::new(crypto::ring::default_provider());
    let mut configuration = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(BuilderVerifierExt::with_platform_verifier)?
        .with_no_client_auth();
    configuration.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(configuration))
}
