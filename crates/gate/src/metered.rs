//! A connection to the outside whose bytes are counted, and held to the rate and the sum that the rules allow.

use crate::flows::Flow;
use crate::shared::Shared;
use paddock_model::net::Denial;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

pub struct Metered {
    stream: TcpStream,
    shared: Arc<Shared>,
    flow: Arc<Flow>,
    /// One for each direction: a writer that waits does not stop the reader.
    waits: [Option<Pin<Box<Sleep>>>; 2],
}

const READ: usize = 0;
const WRITE: usize = 1;

impl Metered {
    pub fn new(stream: TcpStream, shared: Arc<Shared>, flow: Arc<Flow>) -> Metered {
        Metered { stream, shared, flow, waits: [None, None] }
    }

    fn poll_turn(&mut self, direction: usize, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if let Some(wait) = &mut self.waits[direction] {
                ready!(wait.as_mut().poll(context));
                self.waits[direction] = None;
            }
            let rules = self.shared.rules();
            if self.shared.meter.is_spent(&rules) {
                self.flow.deny(Denial::Bytes);
                return Poll::Ready(Err(io::Error::other(Denial::Bytes.to_string())));
            }
            match self.shared.meter.delay(&rules) {
                Some(delay) => self.waits[direction] = Some(Box::pin(tokio::time::sleep(delay))),
                None => return Poll::Ready(Ok(())),
            }
        }
    }

    fn count(&self, sent: u64, received: u64) {
        self.flow.count(sent, received);
        self.shared.meter.count(sent, received);
        self.shared.meter.spend(sent + received);
    }
}

impl AsyncRead for Metered {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_turn(READ, cx))?;
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buf))?;
        this.count(0, (buf.filled().len() - before) as u64);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Metered {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_turn(WRITE, cx))?;
        let written = ready!(Pin::new(&mut this.stream).poll_write(cx, bytes))?;
        this.count(written as u64, 0);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
