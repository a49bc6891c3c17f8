use super::order::{self, ENTRY, Position};
use super::{Follower, Journal, JournalError, Piece};
use paddock_model::api::StreamName;

/// Both streams from any pair of offsets, in the order in which they were written.
pub struct Ordered {
    journal: Journal,
    follower: Follower,
    /// The position up to which bytes were handed out.
    cursor: Position,
    /// The position up to which the order is known.
    target: Position,
    /// The next entry to look at.
    index: u64,
    /// Entries read ahead, the first of which is `index`.
    ahead: Vec<u8>,
    taken: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderedPiece {
    pub stream: StreamName,
    pub offset: u64,
    /// This is never `End`.
    pub piece: Piece,
}

const READ_AHEAD: u64 = 256;

impl Journal {
    pub fn ordered(&self, stdout_offset: u64, stderr_offset: u64) -> Ordered {
        Ordered {
            journal: self.clone(),
            follower: self.follow(),
            cursor: Position { stdout: stdout_offset, stderr: stderr_offset },
            target: Position::default(),
            index: 0,
            ahead: Vec::new(),
            taken: 0,
        }
    }
}

impl Ordered {
    /// At most `max` bytes; `None` if there is nothing more yet.
    pub fn next(&mut self, max: usize) -> Result<Option<OrderedPiece>, JournalError> {
        loop {
            for stream in [StreamName::Stdout, StreamName::Stderr] {
                let offset = self.cursor.of(stream);
                let known = self.target.of(stream).saturating_sub(offset);
                if known == 0 {
                    continue;
                }
                let most = usize::try_from(known).unwrap_or(usize::MAX).min(max);
                let piece = self.journal.read_at(stream, offset, most)?;
                let length = match &piece {
                    Piece::Bytes(bytes) => bytes.len() as u64,
                    Piece::Gap { bytes } => *bytes,
                    Piece::End => continue,
                };
                self.cursor.set(stream, offset + length);
                return Ok(Some(OrderedPiece { stream, offset, piece }));
            }
            if !self.look_further()? {
                return Ok(None);
            }
        }
    }

    /// As `next`, but waits for more; `None` once the journal is finished and all was handed out. Can be dropped at any
    /// time without losing anything.
    pub async fn follow(&mut self, max: usize) -> Result<Option<OrderedPiece>, JournalError> {
        loop {
            // This is read before the look, so that no byte can come unseen between the look and the end.
            let finished = self.journal.published().finished;
            if let Some(piece) = self.next(max)? {
                return Ok(Some(piece));
            }
            if finished {
                return Ok(None);
            }
            self.follower.changed().await;
        }
    }

    /// `false` if the target is already the end.
    fn look_further(&mut self) -> Result<bool, JournalError> {
        loop {
            let published = self.journal.published();
            let gap = self.journal.0.layout.order.gap(published.entries);
            if gap.contains(&self.index) {
                self.index = gap.end;
                self.ahead.clear();
                self.taken = 0;
            }
            // The last entry may still grow; its content is published.
            if self.index + 1 >= published.entries {
                let further = self.target != published.position;
                self.target = published.position;
                return Ok(further);
            }
            if self.taken == self.ahead.len() && !self.read_ahead(published.entries - 1)? {
                continue;
            }
            let entry = order::decode(&self.ahead[self.taken..self.taken + ENTRY]);
            self.taken += ENTRY;
            self.index += 1;
            // An unreadable entry costs only some order: the next one has both positions.
            if let Some(position) = entry
                && (position.stdout > self.cursor.stdout || position.stderr > self.cursor.stderr)
            {
                self.target = position;
                return Ok(true);
            }
        }
    }

    /// `false` if the ring came around meanwhile.
    fn read_ahead(&mut self, end: u64) -> Result<bool, JournalError> {
        let shared = &self.journal.0;
        let wanted = (end - self.index).min(READ_AHEAD);
        // At most up to the end of the head, so that all of the entries read ahead are overwritten, or none.
        let (place, count) = order::place(&shared.layout, self.index, wanted);
        let mut ahead = shared.order.read_at(place, count * ENTRY)?;
        ahead.resize(count * ENTRY, 0);
        let overwritten = shared.layout.order.gap(self.journal.published().entries).contains(&self.index);
        if !overwritten {
            self.ahead = ahead;
            self.taken = 0;
        }
        Ok(!overwritten)
    }
}
