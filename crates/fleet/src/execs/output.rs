//! The output of an exec, from any offset, and on as it prints.

use super::followers::{Follower, Wait};
use super::tracked::TrackedExec;
use crate::contexts::{Answer, SaidReader};
use crate::live::OpenStream;
use crate::{Fleet, FleetError};
use base64::Engine;
use bytes::Bytes;
use paddock_model::api::{OutputEvent, StreamName};
use paddock_records::journal::{JournalError, Ordered, OrderedPiece, Piece};
use std::sync::Arc;

/// The most bytes of one step.
const PIECE: usize = 128 * 1024;

#[derive(Debug, Clone, Copy, Default)]
pub struct OutputFrom {
    pub stdout: u64,
    pub stderr: u64,
    /// The number of results and errors of code that the reader has already.
    pub results: u64,
    pub follow: bool,
}

/// Reads both streams in the order in which they were written.
pub struct OutputReader {
    fleet: Fleet,
    tracked: Arc<TrackedExec>,
    reader: Ordered,
    /// Bytes of both streams that were passed.
    position: u64,
    changes: paddock_records::journal::Follower,
    follow: bool,
    follower: Option<Arc<Follower>>,
    finished: bool,
    answers: Option<Answers>,
    /// True if the end of its interpreter is still to be reported.
    death: bool,
    _open: Option<OpenStream>,
}

/// Results and errors, each in its place between the output.
struct Answers {
    reader: SaidReader,
    changes: tokio::sync::watch::Receiver<u64>,
    skip: u64,
    /// The next one, and its position.
    next: Option<(u64, OutputEvent)>,
}

impl OutputReader {
    pub(super) fn new(
        fleet: Fleet,
        tracked: Arc<TrackedExec>,
        from: OutputFrom,
        wait: Wait,
        open: Option<OpenStream>,
    ) -> OutputReader {
        let reader = tracked.journal.ordered(from.stdout, from.stderr);
        let follower = from.follow.then(|| tracked.followers.join(from.stdout + from.stderr, wait));
        let answers = tracked.said.as_ref().map(|said| Answers {
            reader: said.reader(),
            changes: said.follow(),
            skip: from.results,
            next: None,
        });
        OutputReader {
            fleet,
            changes: tracked.journal.follow(),
            tracked,
            reader,
            position: from.stdout + from.stderr,
            follow: from.follow,
            follower,
            finished: false,
            answers,
            death: true,
            _open: open,
        }
    }

    /// Safe to cancel. `None` after the last event; an unreadable part is an error, and the last event.
    pub async fn next(&mut self) -> Option<Result<OutputEvent, FleetError>> {
        match self.next_event().await {
            Ok(event) => event.map(Ok),
            Err(error) => {
                tracing::error!(exec = self.tracked.number(), %error, "output cannot be read");
                self.finished = true;
                Some(Err(FleetError::storage(&error)))
            }
        }
    }

    async fn next_event(&mut self) -> Result<Option<OutputEvent>, JournalError> {
        loop {
            if self.finished {
                return Ok(None);
            }
            // The end is read before the journal: everything printed before the end is in the journal by then.
            let ended = !self.tracked.runs();
            let most = match self.next_answer()? {
                Some((position, event)) if position <= self.position => return Ok(Some(event)),
                Some((position, event)) => {
                    let most = usize::try_from(position - self.position).unwrap_or(PIECE).min(PIECE);
                    if let Some(answers) = &mut self.answers {
                        answers.next = Some((position, event));
                    }
                    most
                }
                None => PIECE,
            };
            if let Some(OrderedPiece { stream, offset, piece }) = self.reader.next(most)? {
                match piece {
                    Piece::Bytes(bytes) => {
                        self.pass(bytes.len() as u64);
                        let data = base64::engine::general_purpose::STANDARD.encode(&bytes);
                        return Ok(Some(OutputEvent::Output { stream, offset, data }));
                    }
                    Piece::Gap { bytes } => {
                        self.pass(bytes);
                        return Ok(Some(OutputEvent::Gap { stream, offset, bytes }));
                    }
                    Piece::End => {}
                }
            }
            // The answer's place was in a part that was not kept: better late than never.
            if ended && let Some((_, event)) = self.next_answer()? {
                return Ok(Some(event));
            }
            if ended
                && std::mem::take(&mut self.death)
                && let Some(error) = self.tracked.death()
            {
                return Ok(Some(OutputEvent::Error { error }));
            }
            if ended {
                // The timeline has the end before it is told, even if the server is killed right after.
                self.fleet.written().await;
            }
            if ended || !self.follow {
                self.finished = true;
                return Ok(ended.then(|| OutputEvent::Ended { exec: Box::new(self.tracked.to_api()) }));
            }
            tokio::select! {
                _ = self.changes.changed() => {}
                () = answered(self.answers.as_mut()) => {}
                () = self.tracked.wait() => {}
            }
        }
    }

    /// Takes the next answer: the caller hands it out, or puts it back.
    fn next_answer(&mut self) -> Result<Option<(u64, OutputEvent)>, JournalError> {
        let (Some(answers), Some(said)) = (self.answers.as_mut(), self.tracked.said.as_ref()) else {
            return Ok(None);
        };
        if let Some(next) = answers.next.take() {
            return Ok(Some(next));
        }
        loop {
            let Some(placed) = answers.reader.next(said)? else { return Ok(None) };
            let event = match placed.answer {
                Answer::Result(result) => OutputEvent::Result { result },
                Answer::Error(error) => OutputEvent::Error { error },
                Answer::Ready | Answer::Done { .. } => continue,
            };
            match answers.skip.checked_sub(1) {
                Some(less) => answers.skip = less,
                None => return Ok(Some((placed.position, event))),
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

async fn answered(answers: Option<&mut Answers>) {
    if let Some(answers) = answers
        && answers.changes.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

/// The exact bytes of one stream.
pub struct RawReader {
    fleet: Fleet,
    tracked: Arc<TrackedExec>,
    stream: StreamName,
    offset: u64,
    /// The reader stops at this offset.
    end: u64,
    follow: bool,
    follower: Option<Arc<Follower>>,
    changes: paddock_records::journal::Follower,
    _open: Option<OpenStream>,
}

pub enum RawPiece {
    Bytes(Bytes),
    /// This many bytes were not kept.
    Gap(u64),
}

impl RawReader {
    pub(super) fn new(
        fleet: Fleet,
        tracked: Arc<TrackedExec>,
        stream: StreamName,
        offset: u64,
        (follow, wait): (bool, Wait),
        open: Option<OpenStream>,
    ) -> RawReader {
        let (stdout, stderr) = tracked.journal.lengths();
        let other = if stream == StreamName::Stdout { stderr } else { stdout };
        let follower = follow.then(|| tracked.followers.join(offset + other, wait));
        let changes = tracked.journal.follow();
        RawReader { fleet, tracked, stream, offset, end: u64::MAX, follow, follower, changes, _open: open }
    }

    /// Safe to cancel. `None` at the end.
    pub async fn next(&mut self) -> Option<Result<RawPiece, FleetError>> {
        loop {
            if self.offset >= self.end {
                return None;
            }
            let ended = !self.tracked.runs();
            let most = usize::try_from(self.end - self.offset).unwrap_or(PIECE).min(PIECE);
            match self.tracked.journal.read_at(self.stream, self.offset, most) {
                Err(error) => return Some(Err(FleetError::storage(&error))),
                Ok(Piece::Bytes(bytes)) => {
                    self.pass(bytes.len() as u64);
                    return Some(Ok(RawPiece::Bytes(bytes.into())));
                }
                Ok(Piece::Gap { bytes }) => {
                    self.pass(bytes);
                    return Some(Ok(RawPiece::Gap(bytes)));
                }
                // The other stream may have grown meanwhile.
                Ok(Piece::End) => self.pass(0),
            }
            if ended {
                // As above: the end of the stream tells the end of the exec.
                self.fleet.written().await;
            }
            if ended || !self.follow {
                return None;
            }
            tokio::select! {
                _ = self.changes.changed() => {}
                () = self.tracked.wait() => {}
            }
        }
    }

    /// Stops before the next gap from `offset` on. Returns the place of the gap, and the length of the stream.
    pub fn stop_at_gap(&mut self, offset: u64) -> (u64, u64) {
        let (stdout, stderr) = self.tracked.journal.lengths();
        self.end = self.tracked.journal.kept_until(self.stream, offset);
        (self.end, if self.stream == StreamName::Stdout { stdout } else { stderr })
    }

    /// The other stream is not read here, so it counts as read.
    fn pass(&mut self, bytes: u64) {
        self.offset += bytes;
        if let Some(follower) = &self.follower {
            let (stdout, stderr) = self.tracked.journal.lengths();
            let other = if self.stream == StreamName::Stdout { stderr } else { stdout };
            follower.passed(self.offset + other);
        }
    }
}
