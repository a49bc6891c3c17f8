//! Places in files that do not grow for ever: a head that stays, then a ring.
//!
//! A ring is larger than its tail by the most that may be written at a time, so that a write never touches bytes that
//! readers may rely on.

use std::ops::Range;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ring {
    /// The amounts that are kept of the beginning, and of the end.
    pub head: u64,
    pub tail: u64,
    /// The most that may be written at a time.
    pub piece: u64,
}

impl Ring {
    /// The range of the first `length` that is not kept any more.
    pub fn gap(&self, length: u64) -> Range<u64> {
        self.head..length.saturating_sub(self.tail).max(self.head)
    }

    /// The largest size of the file.
    pub fn size(&self) -> u64 {
        self.head + self.ring()
    }

    /// The place of an offset in the file, and how many of `count` lie there one after another.
    pub fn place(&self, offset: u64, count: u64) -> (u64, u64) {
        if offset < self.head {
            return (offset, count.min(self.head - offset));
        }
        let within = (offset - self.head) % self.ring();
        (self.head + within, count.min(self.ring() - within))
    }

    fn ring(&self) -> u64 {
        self.tail + self.piece
    }
}

/// The layout of one journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    pub limit: u64,
    /// The ring of data, in bytes.
    pub data: Ring,
    /// The ring of the order, in entries.
    pub order: Ring,
}

impl Layout {
    pub fn new(limit: u64) -> Layout {
        let tail = limit / 2;
        let entries = (limit / 256).clamp(1 << 10, 1 << 16);
        Layout {
            limit,
            data: Ring { head: limit - tail, tail, piece: (tail / 4).clamp(64 << 10, 1 << 20) },
            order: Ring { head: entries, tail: entries, piece: 1 },
        }
    }
}
