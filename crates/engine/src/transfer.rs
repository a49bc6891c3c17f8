//! Content on its way out of a sandbox or into it, piece by piece: never more in memory than a window.

use crate::exec::Input;
use crate::file_error::{FileError, FileErrorKind};
use crate::tool::ToolRun;
use paddock_protocol::Records;
use serde::de::DeserializeOwned;

/// Bytes from inside. Dropping it stops the tool that reads them.
pub struct Download {
    run: ToolRun,
    first: Option<Vec<u8>>,
    size: Option<u64>,
}

impl Download {
    pub(crate) fn new(run: ToolRun, first: Vec<u8>, size: Option<u64>) -> Download {
        Download { run, first: Some(first).filter(|bytes| !bytes.is_empty()), size }
    }

    /// The number of bytes to come, if it was known at the beginning. The inside may still send fewer.
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// The next piece; `None` at the end. The pieces before count as dealt with.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, FileError> {
        match self.first.take() {
            Some(bytes) => Ok(Some(bytes)),
            None => self.run.next().await,
        }
    }
}

/// The mark of the end of the content.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// The end of the stream is the end of the content.
    Raw,
    /// Pieces with their length; without an empty one at the end, nothing is written.
    Pieces,
}

/// Bytes on their way in. Dropped before [`Upload::finish`], a single file is not written at all.
pub struct Upload {
    run: ToolRun,
    input: Input,
    framing: Framing,
    answer: Vec<u8>,
}

impl Upload {
    pub(crate) fn new(run: ToolRun, framing: Framing) -> Upload {
        let input = run.input();
        Upload { run, input, framing, answer: Vec::new() }
    }

    /// Waits while the inside does not take the bytes; an error there is returned as soon as it happens.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        const HEADER: usize = 4;
        for piece in bytes.chunks(Input::PIECE - HEADER) {
            match self.framing {
                Framing::Raw => self.send(piece).await?,
                Framing::Pieces => {
                    let mut framed = Vec::with_capacity(piece.len() + HEADER);
                    framed.extend_from_slice(&(piece.len() as u32).to_le_bytes());
                    framed.extend_from_slice(piece);
                    self.send(&framed).await?;
                }
            }
        }
        Ok(())
    }

    async fn send(&mut self, piece: &[u8]) -> Result<(), FileError> {
        loop {
            tokio::select! {
                biased;
                told = self.run.next_whenever() => match told? {
                    Some(bytes) => self.keep(&bytes)?,
                    None => return Err(self.run.broken("it ended before it had everything")),
                },
                written = self.input.write(piece) => {
                    let gone = || FileError::new(FileErrorKind::Lost, self.run.path(), "the sandbox has gone".into());
                    return if written { Ok(()) } else { Err(gone()) };
                }
            }
        }
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        if self.answer.len() + bytes.len() > paddock_protocol::MAX_RECORD {
            return Err(self.run.broken("its answer has no end"));
        }
        self.answer.extend_from_slice(bytes);
        Ok(())
    }

    async fn close(&mut self) -> Result<(), FileError> {
        if self.framing == Framing::Pieces {
            self.send(&0u32.to_le_bytes()).await?;
        }
        self.input.close();
        Ok(())
    }

    /// Ends the content; waits until it is in its place.
    pub(crate) async fn finish_with<T: DeserializeOwned>(mut self) -> Result<T, FileError> {
        self.close().await?;
        let mut records = Records::default();
        records.push(&self.answer);
        let answer = self.run.record(&mut records).await?;
        let answer = answer.ok_or_else(|| self.run.broken("it gave no answer"))?;
        self.run.finish().await?;
        Ok(answer)
    }

    pub(crate) async fn finish_without_answer(mut self) -> Result<(), FileError> {
        self.close().await?;
        self.run.finish().await
    }
}
