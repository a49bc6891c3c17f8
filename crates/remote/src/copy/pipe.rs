use crate::client::Upload;
use bytes::{Buf, Bytes};
use std::io::{self, Read, Write};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

const PIECE: usize = 64 << 10;

/// Bytes that come from the connection, for a thread that blocks.
pub struct PipeReader {
    pieces: mpsc::Receiver<Bytes>,
    current: Bytes,
    /// Set when the sender has said that this was all: a connection that breaks must not look like the end.
    whole: bool,
}

pub fn pipe() -> (mpsc::Sender<Bytes>, PipeReader) {
    let (sender, pieces) = mpsc::channel(8);
    (sender, PipeReader { pieces, current: Bytes::new(), whole: false })
}

impl Read for PipeReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            if self.whole {
                return Ok(0);
            }
            match self.pieces.blocking_recv() {
                // An empty piece is the end.
                Some(piece) if piece.is_empty() => self.whole = true,
                Some(piece) => self.current = piece,
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        let count = buffer.len().min(self.current.len());
        self.current.copy_to_slice(&mut buffer[..count]);
        Ok(count)
    }
}

/// The body of a request, for a thread that blocks.
pub struct UploadWriter {
    upload: Upload,
    runtime: Handle,
    waiting: Vec<u8>,
}

impl UploadWriter {
    pub fn new(upload: Upload, runtime: Handle) -> UploadWriter {
        UploadWriter { upload, runtime, waiting: Vec::with_capacity(PIECE) }
    }

    /// An unfinished upload is incomplete: the server has to throw it away.
    pub fn abort(self, error: &io::Error) {
        self.upload.abort(io::Error::new(error.kind(), error.to_string()));
    }
}

impl Write for UploadWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let piece = Bytes::from(std::mem::replace(&mut self.waiting, Vec::with_capacity(PIECE)));
        let sent = self.runtime.block_on(self.upload.send_data(piece));
        // The server has answered already; its answer says why.
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}
