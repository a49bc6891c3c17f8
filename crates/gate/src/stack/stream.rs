//! One connection of a program inside, as a stream.

use super::table::Table;
use crate::wire::packet::Key;
use smoltcp::socket::tcp::{RecvError, Socket};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub struct Stream {
    table: Arc<Table>,
    key: Key,
    id: u64,
    /// Everything that will be said has been.
    ended: bool,
}

impl Stream {
    pub fn new(table: Arc<Table>, key: Key, id: u64) -> Stream {
        Stream { table, key, id, ended: false }
    }

    fn with<R>(&self, work: impl FnOnce(&mut Socket<'static>) -> Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        let gone = || Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        self.table.with(&self.key, self.id, work).unwrap_or_else(gone)
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.with(|socket| {
            if socket.can_recv() {
                let count = socket.recv_slice(buf.initialize_unfilled()).map_err(|_| broken())?;
                buf.advance(count);
                return Poll::Ready(Ok(()));
            }
            if opening(socket) || socket.may_recv() {
                socket.register_recv_waker(cx.waker());
                return Poll::Pending;
            }
            match socket.recv(|_| (0, ())) {
                Err(RecvError::Finished) => Poll::Ready(Ok(())),
                _ => Poll::Ready(Err(broken())),
            }
        })
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.with(|socket| {
            if socket.can_send() {
                return Poll::Ready(socket.send_slice(bytes).map_err(|_| broken()));
            }
            if opening(socket) || socket.may_send() {
                socket.register_send_waker(cx.waker());
                return Poll::Pending;
            }
            Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
        })
    }

    /// Written bytes belong to the stack from then on.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.ended = true;
        self.with(|socket| {
            socket.close();
            Poll::Ready(Ok(()))
        })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.table.leave(&self.key, self.id, self.ended);
    }
}

/// Between the first packet and its answer's answer nothing can be read or written, and neither has ended.
fn opening(socket: &Socket<'_>) -> bool {
    socket.state() == smoltcp::socket::tcp::State::SynReceived
}

fn broken() -> io::Error {
    io::ErrorKind::ConnectionReset.into()
}
