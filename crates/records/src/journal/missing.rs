//! Ranges that are not on the disk: it was full, or the guest had lost them.

use super::file::LazyFile;
use super::order::{self, ENTRY};
use super::{JournalError, Position};
use paddock_model::api::StreamName;
use std::ops::Range;

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The ranges in the order of the file; none is adjacent to the one before.
    ranges: Vec<(StreamName, Range<u64>)>,
    /// How many of the ranges are in the file, as they are here.
    written: usize,
}

/// The most ranges. Beyond it, a range grows over the bytes up to the next one: disk and memory stay bounded, and
/// nothing wrong is read.
const MOST: usize = 1024;

impl Missing {
    pub fn add(&mut self, stream: StreamName, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let full = self.ranges.len() >= MOST;
        let same = self.ranges.iter().rposition(|(of, _)| *of == stream);
        if let Some(index) = same
            && (full || self.ranges[index].1.end == range.start)
        {
            self.ranges[index].1.end = range.end;
            self.written = self.written.min(index);
            return;
        }
        self.ranges.push((stream, range));
    }

    /// The number of missing bytes from `offset` on; or else the number of bytes before the next missing one.
    pub fn at(&self, stream: StreamName, offset: u64) -> Result<Option<u64>, u64> {
        let mut next = None;
        for (_, range) in self.ranges.iter().filter(|(of, _)| *of == stream) {
            if range.contains(&offset) {
                return Err(range.end - offset);
            }
            if range.start > offset && next.is_none_or(|next| range.start - offset < next) {
                next = Some(range.start - offset);
            }
        }
        Ok(next)
    }

    pub fn end(&self) -> Position {
        let end = |stream| {
            self.ranges.iter().filter(|(of, _)| *of == stream).map(|(_, range)| range.end).max().unwrap_or(0)
        };
        Position { stdout: end(StreamName::Stdout), stderr: end(StreamName::Stderr) }
    }

    /// Writes the ranges that the file does not have yet.
    pub fn save(&mut self, file: &LazyFile) -> Result<(), JournalError> {
        while let Some((stream, range)) = self.ranges.get(self.written) {
            let entry = order::encode_numbers([*stream as u64, range.start, range.end]);
            file.write_at(&entry, (self.written * ENTRY) as u64)?;
            self.written += 1;
        }
        Ok(())
    }

    pub fn load(file: &LazyFile) -> Result<Missing, JournalError> {
        let mut missing = Missing::default();
        if file.open_existing()?.is_none() {
            return Ok(missing);
        }
        for entry in file.read_at(0, (MOST + 2) * ENTRY)?.chunks(ENTRY) {
            let Some([stream, start, end]) = order::decode_numbers(entry) else { break };
            let stream =
                if stream == StreamName::Stderr as u64 { StreamName::Stderr } else { StreamName::Stdout };
            missing.ranges.push((stream, start..end));
        }
        missing.written = missing.ranges.len();
        Ok(missing)
    }
}
