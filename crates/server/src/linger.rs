//! An end of a connection that does not overtake its last answer.
//!
//! A client that still sends when its connection is closed gets a reset, and the reset can reach it before the answer that told it why: then the
//! client has a broken pipe in the place of the refusal. So after an answer to a request whose body was not read, the server says that it
//! sends nothing more, and reads what still comes until the client is at its end, within bounds.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// From the last answer to the close.
const LONGEST: Duration = Duration::from_secs(5);
const MOST_BYTES: usize = 64 << 20;
const PIECE: usize = 16 << 10;

/// Set where the last request of a connection was answered before its body had come.
#[derive(Clone, Default)]
pub struct Linger(Arc<AtomicBool>);

impl Linger {
    pub fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

pub struct Lingering<S> {
    stream: S,
    asked: Linger,
    has_shut_down: bool,
    deadline: Option<Pin<Box<Sleep>>>,
    passed: usize,
}

impl<S> Lingering<S> {
    pub fn new(stream: S, asked: Linger) -> Lingering<S> {
        Lingering { stream, asked, has_shut_down: false, deadline: None, passed: 0 }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Lingering<S> {
    /// Ready at the client's end, at an error, or at a bound.
    fn poll_pass_over(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(LONGEST)));
        if deadline.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        let mut space = [0; PIECE];
        while self.passed <= MOST_BYTES {
            let mut piece = ReadBuf::new(&mut space);
            let read = ready!(Pin::new(&mut self.stream).poll_read(context, &mut piece));
            if read.is_err() || piece.filled().is_empty() {
                break;
            }
            self.passed += piece.filled().len();
        }
        Poll::Ready(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Lingering<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Lingering<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.has_shut_down {
            ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
            self.has_shut_down = true;
        }
        if self.asked.is_asked() {
            ready!(self.poll_pass_over(context));
        }
        Poll::Ready(Ok(()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn what_a_refused_client_still_sends_is_read_to_its_end() {
        let (mut client, server) = tokio::io::duplex(1024);
        let asked = Linger::default();
        asked.ask();
        let mut server = Lingering::new(server, asked);
        let sends = tokio::spawn(async move {
            client.write_all(&[7; 100_000]).await.expect("the server reads on");
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).await.expect("an end");
            answer
        });
        server.write_all(b"no").await.expect("sent");
        server.shutdown().await.expect("closed");
        assert_eq!(server.passed, 100_000);
        assert_eq!(sends.await.expect("the client ends"), b"no");
    }

    #[tokio::test]
    async fn a_client_that_sends_without_end_is_cut_off() {
        let (mut client, server) = tokio::io::duplex(1 << 20);
        let asked = Linger::default();
        asked.ask();
        let mut server = Lingering::new(server, asked);
        let sends = tokio::spawn(async move {
            let piece = vec![7; 1 << 20];
            while client.write_all(&piece).await.is_ok() {}
        });
        server.shutdown().await.expect("closed");
        assert!(server.passed <= MOST_BYTES + PIECE, "{}", server.passed);
        drop(server);
        sends.await.expect("the client ends");
    }

    #[tokio::test]
    async fn a_connection_without_a_refusal_is_closed_at_once() {
        let (_client, server) = tokio::io::duplex(1024);
        Lingering::new(server, Linger::default()).shutdown().await.expect("closed, while its client sends");
    }
}
