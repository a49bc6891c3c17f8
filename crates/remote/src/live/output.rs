//! The output of a command, from any byte on. It runs beside the loop, so that no other event can tear it apart.

use super::{Place, Retry};
use crate::client::{Answer, Call, Client, ClientError, Lines, Target};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use paddock_model::api::{Exec, OutputEvent, StreamName};
use std::sync::Arc;
use tokio::sync::mpsc;

/// The pieces that wait while the caller's terminal takes its time.
const WAITING: usize = 4;

#[derive(Debug)]
pub enum Piece {
    Bytes {
        stream: StreamName,
        bytes: Vec<u8>,
    },
    /// So many bytes were not kept.
    Gap {
        stream: StreamName,
        bytes: u64,
    },
    Ended(Box<Exec>),
}

/// The first byte of each stream to read.
#[derive(Debug, Clone, Copy, Default)]
pub struct Start {
    pub stdout: u64,
    pub stderr: u64,
}

pub struct Output {
    pieces: mpsc::Receiver<Result<Piece, ClientError>>,
}

impl Output {
    /// Without `follow`, ends at the last byte that exists now.
    pub fn read(client: Arc<Client>, place: Place, start: Start, follow: bool) -> Output {
        let (sender, pieces) = mpsc::channel(WAITING);
        tokio::spawn(async move {
            let mut reader = Reader { client, place, next: start, follow, sender };
            if let Err(error) = reader.run().await {
                let _ = reader.sender.send(Err(error)).await;
            }
        });
        Output { pieces }
    }

    /// `None` after the last one. May be dropped and asked again.
    pub async fn next(&mut self) -> Result<Option<Piece>, ClientError> {
        self.pieces.recv().await.transpose()
    }
}

struct Reader {
    client: Arc<Client>,
    place: Place,
    /// The first byte of each stream that has not been seen.
    next: Start,
    follow: bool,
    sender: mpsc::Sender<Result<Piece, ClientError>>,
}

impl Reader {
    async fn run(&mut self) -> Result<(), ClientError> {
        let mut retry = Retry::new();
        loop {
            let error = match self.open().await {
                Ok(answer) => match self.pass(answer.lines(), &mut retry).await {
                    Ok(true) => return Ok(()),
                    Ok(false) => ClientError::Lost("the answer ended before the command".into()),
                    Err(error) => error,
                },
                Err(error) => error,
            };
            retry.after(error).await?;
            self.client.revive().await?;
        }
    }

    async fn open(&self) -> Result<Answer, ClientError> {
        let target = Target::exec(&self.place.sandbox, self.place.exec)
            .part("output")
            .query("stdout_offset", &self.next.stdout.to_string())
            .query("stderr_offset", &self.next.stderr.to_string())
            .query("follow", if self.follow { "true" } else { "false" });
        self.client.send(Call::get(target)).await
    }

    /// Returns true if this was all.
    async fn pass(&mut self, mut lines: Lines, retry: &mut Retry) -> Result<bool, ClientError> {
        while let Some(event) = lines.next_lively::<OutputEvent>().await? {
            retry.succeeded();
            let piece = match event {
                // Values that code displayed are not printed output.
                OutputEvent::Alive | OutputEvent::Result { .. } | OutputEvent::Error { .. } => continue,
                OutputEvent::Output { stream, offset, data } => {
                    let bytes = STANDARD.decode(data).map_err(|error| ClientError::Lost(error.into()))?;
                    self.fresh(stream, offset, bytes)
                }
                OutputEvent::Gap { stream, offset, bytes } => self.gap(stream, offset.saturating_add(bytes)),
                OutputEvent::Ended { exec } => {
                    let _ = self.sender.send(Ok(Piece::Ended(exec))).await;
                    return Ok(true);
                }
            };
            let Some(piece) = piece else { continue };
            if self.sender.send(Ok(piece)).await.is_err() {
                return Ok(true);
            }
        }
        Ok(!self.follow)
    }

    /// Leaves out the bytes that were seen before the connection was lost.
    fn fresh(&mut self, stream: StreamName, offset: u64, mut bytes: Vec<u8>) -> Option<Piece> {
        let next = self.next_of(stream);
        let seen = next.saturating_sub(offset).min(bytes.len() as u64);
        *next = (*next).max(offset.saturating_add(bytes.len() as u64));
        bytes.drain(..seen as usize);
        (!bytes.is_empty()).then_some(Piece::Bytes { stream, bytes })
    }

    fn gap(&mut self, stream: StreamName, end: u64) -> Option<Piece> {
        let next = self.next_of(stream);
        let bytes = end.saturating_sub(*next);
        *next = (*next).max(end);
        (bytes > 0).then_some(Piece::Gap { stream, bytes })
    }

    fn next_of(&mut self, stream: StreamName) -> &mut u64 {
        match stream {
            StreamName::Stdout => &mut self.next.stdout,
            StreamName::Stderr => &mut self.next.stderr,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Address;

    fn reader() -> Reader {
        let client = Arc::new(Client::new(Address::Unix("/nonexistent".into()), None).unwrap());
        let place = Place { sandbox: "s".into(), exec: 1 };
        let next = Start { stdout: 10, stderr: 0 };
        Reader { client, place, next, follow: true, sender: mpsc::channel(1).0 }
    }

    #[test]
    fn what_comes_twice_after_a_lost_connection_is_seen_once() {
        let mut reader = reader();
        let Some(Piece::Bytes { bytes, .. }) = reader.fresh(StreamName::Stdout, 8, b"xxnew".to_vec()) else {
            panic!("nothing")
        };
        assert_eq!((bytes.as_slice(), reader.next.stdout, reader.next.stderr), (&b"new"[..], 13, 0));
        assert!(reader.fresh(StreamName::Stdout, 8, b"xxnew".to_vec()).is_none());
        assert!(reader.gap(StreamName::Stdout, 12).is_none());
        assert!(matches!(reader.gap(StreamName::Stdout, 20), Some(Piece::Gap { bytes: 7, .. })));
        assert_eq!(reader.next.stdout, 20);
    }
}
