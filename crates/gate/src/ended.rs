//! TLS that is ended at the gate, for hosts that a secret is bound to: one conversation with the client inside, with a
//! certificate of the sandbox's own authority, and one with the host, whose certificate is checked as any client would.

use crate::forward;
use crate::metered::Metered;
use crate::refused::Refused;
use crate::rewound::Rewound;
use crate::shared::{Shared, Upstream};
use paddock_model::net::{Denial, DomainName};
use rustls::pki_types::ServerName;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_rustls::{LazyConfigAcceptor, TlsConnector, client};

const LONGEST_HANDSHAKE: Duration = Duration::from_secs(20);

/// Precondition: a secret is bound to the host.
pub async fn run<C>(shared: Arc<Shared>, client: C, first: Vec<u8>, upstream: Upstream, name: DomainName)
where
    C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Upstream { stream, flow } = upstream;
    let target = flow.target().clone();
    let both = async {
        let mut client = accept(&shared, Rewound::new(first, client), &name, target.port).await?;
        match connect(&shared, stream, &name, target.port).await {
            Ok(host) => Ok((client, host)),
            Err(denial) => {
                // Said to the program too, which has seen nothing wrong so far.
                let (status, text) = Refused::from(denial.clone()).explained(Some(&target));
                let head = format!("HTTP/1.1 {status} Refused\r\nContent-Length: {}", text.len());
                let answer = format!("{head}\r\nConnection: close\r\n\r\n{text}");
                let _ = client.write_all(answer.as_bytes()).await;
                let _ = client.shutdown().await;
                Err(denial)
            }
        }
    };
    let both = tokio::select! {
        both = both => both,
        () = flow.cut() => return,
    };
    match both {
        Ok((client, host)) => forward::serve_bound(shared, client, host, flow, name).await,
        Err(denial) => {
            shared.deny(&target, flow.subject().address, denial.clone());
            flow.deny(denial);
        }
    }
}

/// True if the client begins with letters and not with a record of TLS. The bytes that were read are in `first`.
pub async fn speaks_in_clear<C: AsyncRead + Unpin>(client: &mut C, first: &mut Vec<u8>) -> bool {
    if first.is_empty() {
        let mut space = [0; 4096];
        if let Ok(Ok(count)) = tokio::time::timeout(LONGEST_HANDSHAKE, client.read(&mut space)).await {
            first.extend_from_slice(&space[..count]);
        }
    }
    first.first().is_some_and(u8::is_ascii_alphabetic)
}

/// Accepts TLS in the host's place, for a client that asks for no other.
async fn accept<C>(
    shared: &Shared,
    client: C,
    name: &DomainName,
    port: u16,
) -> Result<tokio_rustls::server::TlsStream<C>, Denial>
where
    C: AsyncRead + AsyncWrite + Unpin,
{
    let secrets = shared.secrets();
    let (authority, _) = secrets.ended_for(name, port).ok_or(Denial::Malformed)?;
    let handshake = async {
        let start = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), client).await;
        let start = start.map_err(|_| Denial::Malformed)?;
        let asked = start.client_hello().server_name().map(str::to_string);
        if let Some(asked) = asked
            && DomainName::from_wire(asked.as_bytes()).as_ref() != Ok(name)
        {
            return Err(Denial::ServerName(asked.chars().take(80).collect()));
        }
        let config = authority.server(name).map_err(|_| Denial::Malformed)?;
        start.into_stream(config).await.map_err(|_| Denial::Malformed)
    };
    tokio::time::timeout(LONGEST_HANDSHAKE, handshake).await.map_err(|_| Denial::Malformed)?
}

/// To the host itself, which has to be it.
pub async fn connect(
    shared: &Shared,
    stream: Metered,
    name: &DomainName,
    port: u16,
) -> Result<client::TlsStream<Metered>, Denial> {
    let secrets = shared.secrets();
    let (_, trust) = secrets.ended_for(name, port).ok_or(Denial::Malformed)?;
    let server = ServerName::try_from(name.to_string()).map_err(|_| Denial::NotAName)?;
    let handshake = TlsConnector::from(trust.clone()).connect(server, stream);
    match tokio::time::timeout(LONGEST_HANDSHAKE, handshake).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => Err(untrusted(&error).unwrap_or(Denial::Unreachable)),
        Err(_) => Err(Denial::Unreachable),
    }
}

fn untrusted(error: &std::io::Error) -> Option<Denial> {
    match error.get_ref()?.downcast_ref::<rustls::Error>()? {
        rustls::Error::InvalidCertificate(why) => {
            Some(Denial::Certificate(format!("{why:?}").chars().take(200).collect()))
        }
        _ => None,
    }
}
