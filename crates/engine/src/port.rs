//! A connection to a port inside a sandbox, made by its guest.

use crate::exec::Input;
use crate::file_error::FileError;
use crate::link::Link;
use crate::tool::{Place, ToolRun};
use paddock_model::User;
use paddock_protocol::{Records, Tool};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};
use tokio::sync::oneshot;

const BUFFER: usize = 64 * 1024;

/// Bytes in both directions, each closed on its own. Dropping it closes the connection.
pub struct PortStream {
    near: DuplexStream,
    _held: oneshot::Sender<()>,
}

pub(crate) async fn connect(link: &Link, port: u16) -> Result<PortStream, FileError> {
    let place = Place { user: User::Agent, cwd: None };
    let mut run = ToolRun::start(link, Tool::Connect { port }, &place, &format!("port {port}"))?;
    let mut records = Records::default();
    run.record::<()>(&mut records).await?.ok_or_else(|| run.broken("it gave no answer"))?;
    let (near, far) = tokio::io::duplex(BUFFER);
    let (held, dropped) = oneshot::channel();
    tokio::spawn(async move {
        tokio::select! {
            () = shuttle(run, records.into_rest(), far) => {}
            // The caller dropped the stream; the end of this future ends the tool.
            _ = dropped => {}
        }
    });
    Ok(PortStream { near, _held: held })
}

async fn shuttle(mut run: ToolRun, first: Vec<u8>, far: DuplexStream) {
    let (reader, mut writer) = tokio::io::split(far);
    let inwards = pass_in(reader, run.input());
    let outwards = async move {
        if writer.write_all(&first).await.is_err() {
            return;
        }
        while let Ok(Some(bytes)) = run.next_whenever().await {
            if writer.write_all(&bytes).await.is_err() {
                return;
            }
        }
        let _ = writer.shutdown().await;
    };
    tokio::pin!(outwards);
    // The inside has the last word: bytes that it does not read any more need not be sent.
    tokio::select! {
        () = &mut outwards => {}
        () = inwards => outwards.await,
    }
}

async fn pass_in(mut reader: tokio::io::ReadHalf<DuplexStream>, input: Input) {
    let mut buffer = vec![0; Input::PIECE];
    while let Ok(count) = reader.read(&mut buffer).await {
        if count == 0 || !input.write(&buffer[..count]).await {
            break;
        }
    }
    input.close();
}

impl AsyncRead for PortStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.near).poll_read(context, buffer)
    }
}

impl AsyncWrite for PortStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.near).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.near).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.near).poll_shutdown(context)
    }
}
