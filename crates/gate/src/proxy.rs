//! The proxy on the sandbox's own loopback: HTTP, CONNECT and SOCKS on one port, told apart by the first byte.

use crate::flows::{MOST_FLOWS, Target};
use crate::forward;
use crate::refused::Refused;
use crate::session;
use crate::shared::Shared;
use crate::wire::Incomplete;
use crate::wire::head::{self, Head, LONGEST_HEAD};
use crate::wire::socks::{self, Reply, Request};
use paddock_model::net::{Denial, Way};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// The time for a client to say its wish.
const REQUEST_HEAD_TIMEOUT: Duration = Duration::from_secs(60);

/// Takes clients until it is dropped.
pub async fn serve(shared: Arc<Shared>, listener: TcpListener) {
    let places = Arc::new(Semaphore::new(MOST_FLOWS));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((client, _)) => {
                let conversation = converse(shared.clone(), client);
                shared.spawn(async move {
                    let _place = place;
                    // A client that breaks off has ended its own connection.
                    let _ = conversation.await;
                });
            }
            // Too many open files, or a client that is gone already: a moment later it is better.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

async fn converse(shared: Arc<Shared>, mut client: TcpStream) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut seen = Vec::new();
    let first = tokio::time::timeout(REQUEST_HEAD_TIMEOUT, more(&mut client, &mut seen, LONGEST_HEAD)).await;
    first.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    if seen[0] == socks::VERSION {
        return speak_socks(shared, client, seen).await;
    }
    let head = tokio::time::timeout(REQUEST_HEAD_TIMEOUT, async {
        loop {
            match head::parse(&seen) {
                Err(Incomplete::More) => more(&mut client, &mut seen, LONGEST_HEAD).await?,
                decided => return Ok::<_, io::Error>(decided),
            }
        }
    });
    match head.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?? {
        Ok(Head::Forward) => forward::serve_proxy(shared, client, seen).await,
        Ok(Head::Tunnel { host, port, used }) => {
            let target = Target { host: shared.meant(host), port, way: Way::Tunnel };
            seen.drain(..used);
            match shared.open(target.clone()).await {
                Ok(upstream) => {
                    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
                    session::run(shared, client, seen, upstream).await;
                }
                Err(refused) => refuse(&mut client, Some(&target), &refused).await?,
            }
        }
        Err(_) => refuse(&mut client, None, &Denial::Malformed.into()).await?,
    }
    Ok(())
}

async fn refuse(client: &mut TcpStream, target: Option<&Target>, refused: &Refused) -> io::Result<()> {
    let (status, text) = refused.explained(target);
    // Clients of a tunnel show the first line and nothing else.
    let reason = text.trim_end().chars().filter(char::is_ascii).take(200).collect::<String>();
    let answer = format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{text}",
        text.len()
    );
    client.write_all(answer.as_bytes()).await?;
    client.shutdown().await
}

async fn speak_socks(shared: Arc<Shared>, mut client: TcpStream, mut seen: Vec<u8>) -> io::Result<()> {
    let asked = tokio::time::timeout(REQUEST_HEAD_TIMEOUT, async {
        let (used, fits) = whole(&mut client, &mut seen, socks::greeting).await?;
        seen.drain(..used);
        if !fits {
            client.write_all(&socks::NO_COMMON_LOGIN).await?;
            return Err(io::Error::from(io::ErrorKind::PermissionDenied));
        }
        client.write_all(&socks::NO_LOGIN).await?;
        let (used, request) = whole(&mut client, &mut seen, socks::request).await?;
        seen.drain(..used);
        Ok(request)
    });
    let reply = match asked.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?? {
        Request::Connect(host, port) => {
            let target = Target { host: shared.meant(host), port, way: Way::Socks };
            match shared.open(target).await {
                Ok(upstream) => {
                    client.write_all(&Reply::Granted.message()).await?;
                    session::run(shared, client, seen, upstream).await;
                    return Ok(());
                }
                Err(Refused { denial: Denial::NoAddress, .. }) => Reply::Unreachable,
                Err(Refused { denial: Denial::Unreachable, .. }) => Reply::Refused,
                Err(_) => Reply::Denied,
            }
        }
        Request::BadName => Reply::Denied,
        Request::OtherCommand => Reply::OtherCommand,
        Request::OtherAddress => Reply::OtherAddress,
    };
    client.write_all(&reply.message()).await?;
    client.shutdown().await
}

/// Reads until the parser has seen enough.
async fn whole<T>(
    client: &mut TcpStream,
    seen: &mut Vec<u8>,
    parse: impl Fn(&[u8]) -> Result<(usize, T), Incomplete>,
) -> io::Result<(usize, T)> {
    loop {
        match parse(seen) {
            Ok(found) => return Ok(found),
            Err(Incomplete::Malformed) => return Err(io::ErrorKind::InvalidData.into()),
            Err(Incomplete::More) => more(client, seen, socks::LONGEST).await?,
        }
    }
}

/// At least one byte more.
async fn more(client: &mut TcpStream, seen: &mut Vec<u8>, most: usize) -> io::Result<()> {
    if seen.len() >= most {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut space = [0; 2048];
    let count = client.read(&mut space).await?;
    if count == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    seen.extend_from_slice(&space[..count]);
    Ok(())
}
