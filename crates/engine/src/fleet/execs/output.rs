//! What a command printed, from any offset, and on as it prints.

use super::followers::Follower;
use super::job::Job;
use crate::fleet::FleetError;
use crate::fleet::live::OpenStream;
use crate::journal::{Ordered, OrderedPiece, Piece};
use base64::Engine;
use bytes::Bytes;
use paddock_model::api::{OutputEvent, StreamName};
use std::sync::Arc;

/// How much one step hands out.
const PIECE: usize = 128 * 1024;

#[derive(Debug, Clone, Copy, Default)]
pub struct OutputFrom {
    pub stdout: u64,
    pub stderr: u64,
    pub follow: bool,
}

/// Both streams in the order in which they were written.
pub struct OutputReader {
    job: Arc<Job>,
    reader: Ordered,
    /// Bytes of both streams that were passed.
    position: u64,
    changes: crate::journal::Follower,
    follow: bool,
    follower: Option<Arc<Follower>>,
    finished: bool,
    _open: Option<OpenStream>,
}

impl OutputReader {
    pub(super) fn new(job: Arc<Job>, from: OutputFrom, open: Option<OpenStream>) -> OutputReader {
        let reader = job.journal.ordered(from.stdout, from.stderr);
        let follower = from.follow.then(|| job.followers.join(from.stdout + from.stderr));
        OutputReader {
            changes: job.journal.follow(),
            job,
            reader,
            position: from.stdout + from.stderr,
            follow: from.follow,
            follower,
            finished: false,
            _open: open,
        }
    }

    /// Safe to cancel. `None` after the last event.
    pub async fn next(&mut self) -> Option<OutputEvent> {
        loop {
            if self.finished {
                return None;
            }
            // Looked at before the journal: what was printed before the end is in it by then.
            let ended = !self.job.runs();
            match self.reader.next(PIECE) {
                Ok(Some(OrderedPiece { stream, offset, piece })) => match piece {
                    Piece::Bytes(bytes) => {
                        self.pass(bytes.len() as u64);
                        let data = base64::engine::general_purpose::STANDARD.encode(&bytes);
                        return Some(OutputEvent::Output { stream, offset, data });
                    }
                    Piece::Gap { bytes } => {
                        self.pass(bytes);
                        return Some(OutputEvent::Gap { stream, offset, bytes });
                    }
                    Piece::End => {}
                },
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(exec = self.job.number(), %error, "output cannot be read");
                    self.finished = true;
                    return None;
                }
            }
            if ended || !self.follow {
                self.finished = true;
                return ended.then(|| OutputEvent::Ended { exec: Box::new(self.job.to_api(false)) });
            }
            tokio::select! {
                _ = self.changes.changed() => {}
                () = self.job.wait() => {}
            }
        }
    }

    fn pass(&mut self, bytes: u64) {
        self.position += bytes;
        if let Some(follower) = &self.follower {
            follower.passed(self.position);
        }
    }
}

/// The exact bytes of one stream.
pub struct RawReader {
    job: Arc<Job>,
    stream: StreamName,
    offset: u64,
    follow: bool,
    follower: Option<Arc<Follower>>,
    changes: crate::journal::Follower,
    _open: Option<OpenStream>,
}

pub enum RawPiece {
    Bytes(Bytes),
    /// So many bytes were not kept.
    Gap(u64),
}

impl RawReader {
    pub(super) fn new(
        job: Arc<Job>,
        stream: StreamName,
        offset: u64,
        follow: bool,
        open: Option<OpenStream>,
    ) -> RawReader {
        let (stdout, stderr) = job.journal.lengths();
        let other = if stream == StreamName::Stdout { stderr } else { stdout };
        let follower = follow.then(|| job.followers.join(offset + other));
        let changes = job.journal.follow();
        RawReader { job, stream, offset, follow, follower, changes, _open: open }
    }

    /// Safe to cancel. `None` at the end.
    pub async fn next(&mut self) -> Option<Result<RawPiece, FleetError>> {
        loop {
            let ended = !self.job.runs();
            match self.job.journal.read_at(self.stream, self.offset, PIECE) {
                Err(error) => return Some(Err(FleetError::storage(&error))),
                Ok(Piece::Bytes(bytes)) => {
                    self.pass(bytes.len() as u64);
                    return Some(Ok(RawPiece::Bytes(bytes.into())));
                }
                Ok(Piece::Gap { bytes }) => {
                    self.pass(bytes);
                    return Some(Ok(RawPiece::Gap(bytes)));
                }
                Ok(Piece::End) => {}
            }
            if ended || !self.follow {
                return None;
            }
            tokio::select! {
                _ = self.changes.changed() => {}
                () = self.job.wait() => {}
            }
        }
    }

    /// The other stream is not looked at here, so it counts as read.
    fn pass(&mut self, bytes: u64) {
        self.offset += bytes;
        if let Some(follower) = &self.follower {
            let (stdout, stderr) = self.job.journal.lengths();
            let other = if self.stream == StreamName::Stdout { stderr } else { stdout };
            follower.passed(self.offset + other);
        }
    }
}
