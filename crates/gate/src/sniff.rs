//! The first bytes of a client, held back until it is clear which host it asks for, and a watch on its later bytes. A
//! server that speaks first, such as a mail server, is not waited for: only this direction is held.

use crate::flows::Flow;
use crate::own::is_own;
use crate::secrets::Search;
use crate::shared::Shared;
use crate::wire::Incomplete;
use crate::wire::host::Host;
use crate::wire::opening::{Opening, opening};
use crate::wire::records::{ClientRecords, Hello};
use paddock_model::net::{Denial, DomainName};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

/// The verdict on a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spoken {
    /// Each of its requests is to be judged.
    Http,
    Tls,
    Other,
}

/// True if the rules judge names that are spoken on this connection. An address that a rule names stands for every host
/// there, unless a rule denies names.
pub fn is_judged(shared: &Shared, flow: &Flow) -> bool {
    matches!(flow.target().host, Host::Name(_)) || shared.rules().denies_names()
}

/// Reads into `first` until the client's protocol is clear; the host's bytes are passed on meanwhile.
pub async fn begin<C, U>(
    shared: &Shared,
    flow: &Flow,
    client: &mut C,
    host: &mut U,
    first: &mut Vec<u8>,
) -> io::Result<Result<Spoken, Denial>>
where
    C: AsyncRead + AsyncWrite + Unpin,
    U: AsyncRead + Unpin,
{
    let (mut spoken, mut silent) = (false, false);
    let (mut from_client, mut from_host) = ([0; 4096], [0; 4096]);
    loop {
        match opening(first, spoken) {
            Ok(found) => return Ok(judged(shared, flow, found)),
            Err(Incomplete::Malformed) => return Ok(Err(Denial::Malformed)),
            Err(Incomplete::More) => {}
        }
        tokio::select! {
            count = client.read(&mut from_client) => match count? {
                0 => return Ok(unfinished(first)),
                count => first.extend_from_slice(&from_client[..count]),
            },
            count = host.read(&mut from_host), if !silent => match count? {
                0 => {
                    silent = true;
                    client.shutdown().await?;
                }
                count => {
                    spoken = true;
                    client.write_all(&from_host[..count]).await?;
                }
            },
        }
    }
}

/// The client ended in the middle of it: a ClientHello that is never whole has no business outside.
fn unfinished(first: &[u8]) -> Result<Spoken, Denial> {
    match crate::wire::hello::is_tls(first) {
        true => Err(Denial::Malformed),
        false => Ok(Spoken::Other),
    }
}

fn judged(shared: &Shared, flow: &Flow, found: Opening) -> Result<Spoken, Denial> {
    match found {
        Opening::Http => Ok(Spoken::Http),
        Opening::Other => Ok(Spoken::Other),
        Opening::Tls(None) => Ok(Spoken::Tls),
        Opening::Tls(Some(name)) => judge_name(shared, flow, &name).map(|()| Spoken::Tls),
        // Passes only if no rule judges the names in it.
        Opening::ClearHttp2 => match is_named_by_address(shared, flow) && !shared.rules().denies_names() {
            true => Ok(Spoken::Other),
            false => Err(Denial::ClearHttp2),
        },
    }
}

fn judge_name(shared: &Shared, flow: &Flow, name: &DomainName) -> Result<(), Denial> {
    let (rules, target) = (shared.rules(), flow.target());
    let allowed = match &target.host {
        Host::Name(_) => rules.name(name, target.port).is_ok(),
        Host::Address(_) => rules.denied_name(name, target.port).is_none(),
    };
    if allowed { Ok(()) } else { Err(Denial::ServerName(name.to_string())) }
}

/// A rule names the very address that was dialled.
fn is_named_by_address(shared: &Shared, flow: &Flow) -> bool {
    let address = flow.subject().address;
    address
        .is_some_and(|address| shared.rules().address(address, flow.target().port, is_own(address)).is_ok())
}

/// A client whose first bytes were judged, and whose further ones are looked at as they pass.
pub struct Watched<C> {
    client: C,
    shared: Arc<Shared>,
    flow: Arc<Flow>,
    first: Vec<u8>,
    watch: Watch,
}

enum Watch {
    Nothing,
    /// A placeholder in bytes that go out in the clear.
    Placeholders(Search),
    /// A name in another ClientHello.
    Hellos(ClientRecords),
}

impl<C: AsyncRead + AsyncWrite + Unpin> Watched<C> {
    /// `first`: the bytes that the client sent already.
    pub fn new(
        client: C,
        first: Vec<u8>,
        spoken: Spoken,
        shared: Arc<Shared>,
        flow: Arc<Flow>,
    ) -> Watched<C> {
        let watch = match spoken {
            Spoken::Tls => Watch::Hellos(ClientRecords::default()),
            Spoken::Http | Spoken::Other => match shared.secrets() {
                none if none.is_empty() => Watch::Nothing,
                some => Watch::Placeholders(Search::new(some)),
            },
        };
        Watched { client, shared, flow, first, watch }
    }

    fn look(&mut self, bytes: &[u8]) -> Result<(), Denial> {
        match &mut self.watch {
            Watch::Nothing => Ok(()),
            Watch::Placeholders(search) => match search.look(bytes) {
                Some(name) => Err(self.shared.secrets().refusal_in_clear(&name, &self.flow.target().host)),
                None => Ok(()),
            },
            Watch::Hellos(records) => {
                for hello in records.feed(bytes) {
                    match hello {
                        Hello::Malformed => return Err(Denial::Malformed),
                        Hello::Names(None) => {}
                        Hello::Names(Some(name)) => judge_name(&self.shared, &self.flow, &name)?,
                    }
                }
                Ok(())
            }
        }
    }
}

/// The connection ends, and the reason is told.
pub fn cut(shared: &Shared, flow: &Flow, denial: Denial) {
    shared.deny(flow.target(), flow.subject().address, denial.clone());
    flow.deny(denial);
}

impl<C: AsyncRead + AsyncWrite + Unpin> AsyncRead for Watched<C> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        if this.first.is_empty() {
            ready!(Pin::new(&mut this.client).poll_read(cx, buf))?;
        } else {
            let count = this.first.len().min(buf.remaining());
            buf.put_slice(&this.first[..count]);
            this.first.drain(..count);
            if this.first.is_empty() {
                this.first = Vec::new();
            }
        }
        if let Err(denial) = this.look(&buf.filled()[before..]) {
            buf.set_filled(before);
            cut(&this.shared, &this.flow, denial.clone());
            return Poll::Ready(Err(io::Error::other(denial.to_string())));
        }
        Poll::Ready(Ok(()))
    }
}

impl<C: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Watched<C> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().client).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().client).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().client).poll_shutdown(cx)
    }
}
