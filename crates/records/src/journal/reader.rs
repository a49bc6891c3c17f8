use super::{Journal, JournalError, Published};
use paddock_model::Captured;
use paddock_model::api::StreamName;
use std::sync::PoisonError;
use tokio::sync::watch;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    Bytes(Vec<u8>),
    /// Bytes that were not kept.
    Gap {
        bytes: u64,
    },
    /// There are no bytes yet, or never once the journal is finished.
    End,
}

impl Journal {
    /// At most `max` bytes of one stream, from `offset` on. Precondition: `max` is not 0.
    pub fn read_at(&self, stream: StreamName, offset: u64, max: usize) -> Result<Piece, JournalError> {
        let length = self.published().position.of(stream);
        if offset >= length {
            return Ok(Piece::End);
        }
        let ring = &self.0.layout.data;
        let gap = ring.gap(length);
        if gap.contains(&offset) {
            return Ok(Piece::Gap { bytes: gap.end - offset });
        }
        let mut count = (length - offset).min(max as u64);
        if offset < gap.start && !gap.is_empty() {
            count = count.min(gap.start - offset);
        }
        match self.0.missing.read().unwrap_or_else(PoisonError::into_inner).at(stream, offset) {
            Err(bytes) => return Ok(Piece::Gap { bytes: bytes.min(length - offset) }),
            Ok(Some(present)) => count = count.min(present),
            Ok(None) => {}
        }
        let (place, count) = ring.place(offset, count);
        let bytes = self.0.data(stream).read_at(place, count as usize)?;
        // The ring may have come around meanwhile, but only over bytes that readers may not rely on any more.
        let gap = ring.gap(self.published().position.of(stream));
        if gap.contains(&offset) {
            return Ok(Piece::Gap { bytes: gap.end - offset });
        }
        if bytes.is_empty() {
            // This happens only if another process shortened the file.
            return Ok(Piece::Gap { bytes: count });
        }
        Ok(Piece::Bytes(bytes))
    }

    /// The offset up to which one stream was kept without a gap, from `offset` on.
    pub fn kept_until(&self, stream: StreamName, offset: u64) -> u64 {
        let length = self.published().position.of(stream);
        let gap = self.0.layout.data.gap(length);
        let until = if gap.is_empty() || offset >= gap.end { length } else { gap.start.max(offset) };
        match self.0.missing.read().unwrap_or_else(PoisonError::into_inner).at(stream, offset) {
            Err(_) => offset,
            Ok(Some(present)) => until.min(offset + present),
            Ok(None) => until,
        }
    }

    /// The kept bytes of one stream.
    pub fn captured(&self, stream: StreamName) -> Result<Captured, JournalError> {
        const STEP: usize = 1 << 20;
        let head_room = self.0.layout.data.head;
        let mut kept = Captured::default();
        let mut offset = 0;
        loop {
            match self.read_at(stream, offset, STEP)? {
                Piece::End => return Ok(kept),
                Piece::Gap { bytes } => {
                    // With several gaps, the bytes between them are not shown.
                    kept.missing += bytes + kept.tail.len() as u64;
                    kept.tail.clear();
                    offset += bytes;
                }
                Piece::Bytes(bytes) => {
                    let room = if kept.missing > 0 { 0 } else { head_room.saturating_sub(offset) };
                    let (head, tail) = bytes.split_at(bytes.len().min(room as usize));
                    kept.head.extend_from_slice(head);
                    kept.tail.extend_from_slice(tail);
                    offset += bytes.len() as u64;
                }
            }
        }
    }

    /// Follows the changes from here on.
    pub fn follow(&self) -> Follower {
        Follower { changes: self.0.published.subscribe(), _journal: self.clone() }
    }

    pub(super) fn published(&self) -> Published {
        *self.0.published.borrow()
    }
}

pub struct Follower {
    changes: watch::Receiver<Published>,
    // The journal holds the sender.
    _journal: Journal,
}

impl Follower {
    /// Waits for something new since the last call, which may have been read already; `false` once all is there. Can be
    /// dropped at any time without missing anything.
    pub async fn changed(&mut self) -> bool {
        if self.changes.has_changed().unwrap_or(false) {
            self.changes.mark_unchanged();
            return true;
        }
        if self.changes.borrow().finished {
            return false;
        }
        self.changes.changed().await.is_ok()
    }
}
