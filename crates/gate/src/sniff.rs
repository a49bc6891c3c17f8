//! The first bytes of a client, held back until it is clear which name it asks for. Whoever answers first, such as a mail
//! server, is not waited for: only this direction is held.

use crate::flows::Flow;
use crate::secrets::Search;
use crate::shared::Shared;
use crate::wire::host::Host;
use crate::wire::{Incomplete, hello};
use paddock_model::net::Denial;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub struct Sniffed<C> {
    client: C,
    shared: Arc<Shared>,
    flow: Arc<Flow>,
    held: Vec<u8>,
    decided: bool,
    /// Of what goes out in the clear.
    search: Option<Search>,
}

impl<C: AsyncRead + AsyncWrite + Unpin> Sniffed<C> {
    /// `first`: what the client sent already.
    pub fn new(client: C, first: Vec<u8>, shared: Arc<Shared>, flow: Arc<Flow>) -> Sniffed<C> {
        // An address that a rule names stands for whatever is there.
        let decided = matches!(flow.target().host, Host::Address(_));
        let search = (!shared.secrets.is_empty()).then(|| Search::new(shared.secrets.clone()));
        Sniffed { client, shared, flow, held: first, decided, search }
    }

    /// `Ok(false)`: more bytes are needed.
    fn decide(&self, ended: bool) -> Result<bool, Denial> {
        if self.held.is_empty() {
            return Ok(ended);
        }
        if !hello::is_tls(&self.held) {
            return Ok(true);
        }
        match hello::server_name(&self.held) {
            Ok(None) => Ok(true),
            Ok(Some(name)) => {
                let rules = self.shared.rules();
                match rules.name(&name, self.flow.target().port) {
                    Ok(_) => Ok(true),
                    Err(_) => Err(Denial::ServerName(name.to_string())),
                }
            }
            Err(Incomplete::More) if !ended => Ok(false),
            Err(_) => Err(Denial::Malformed),
        }
    }

    fn cut(&self, denial: Denial) -> io::Error {
        self.shared.deny(self.flow.target(), self.flow.subject().address, denial.clone());
        self.flow.deny(denial.clone());
        io::Error::other(denial.to_string())
    }

    /// A placeholder that is about to go out is one that goes to the wrong host.
    fn looked_at(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.search.as_mut().and_then(|search| search.look(bytes)) {
            Some(name) => Err(self.cut(Denial::Placeholder(name))),
            None => Ok(()),
        }
    }

    fn poll_decision(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut ended = false;
        loop {
            match self.decide(ended) {
                Ok(true) => {
                    self.decided = true;
                    if hello::is_tls(&self.held) {
                        self.search = None;
                    }
                    return Poll::Ready(Ok(()));
                }
                Ok(false) => {}
                Err(denial) => return Poll::Ready(Err(self.cut(denial))),
            }
            let mut space = [0; 4096];
            let mut buffer = ReadBuf::new(&mut space);
            ready!(Pin::new(&mut self.client).poll_read(cx, &mut buffer))?;
            ended = buffer.filled().is_empty();
            self.held.extend_from_slice(buffer.filled());
        }
    }
}

impl<C: AsyncRead + AsyncWrite + Unpin> AsyncRead for Sniffed<C> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.decided {
            ready!(this.poll_decision(cx))?;
        }
        let before = buf.filled().len();
        if this.held.is_empty() {
            ready!(Pin::new(&mut this.client).poll_read(cx, buf))?;
        } else {
            let count = this.held.len().min(buf.remaining());
            buf.put_slice(&this.held[..count]);
            this.held.drain(..count);
            if this.held.is_empty() {
                this.held = Vec::new();
            }
        }
        let looked = this.looked_at(&buf.filled()[before..]);
        if looked.is_err() {
            buf.set_filled(before);
        }
        Poll::Ready(looked)
    }
}

impl<C: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Sniffed<C> {
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
