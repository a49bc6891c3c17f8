//! The writer: nothing else changes the files and the published position.

use super::order::{self, Position};
use super::{JournalError, Shared};
use paddock_model::api::StreamName;
use std::sync::PoisonError;
use std::time::SystemTime;

#[derive(Debug)]
pub struct Writer {
    pub position: Position,
    pub entries: u64,
    /// The stream that alone moved in the last entry: more of the same stream goes into that entry.
    pub growing: Option<StreamName>,
    pub header_written: bool,
    /// True if a missing range or a position is not on disk yet.
    pub unsettled: bool,
}

impl Writer {
    pub fn append(&mut self, shared: &Shared, stream: StreamName, bytes: &[u8]) -> Result<(), JournalError> {
        let mut outcome = Ok(());
        for piece in bytes.chunks(shared.layout.data.piece as usize) {
            let start = self.position.of(stream);
            let end = start + piece.len() as u64;
            let written = self
                .settle(shared)
                .and_then(|()| write_data(shared, stream, start, piece))
                .and_then(|()| self.advance(shared, stream, end));
            if let Err(error) = written {
                self.lose(shared, stream, end);
                outcome = outcome.and(Err(error));
            }
            self.publish(shared);
        }
        outcome
    }

    pub fn skip(&mut self, shared: &Shared, stream: StreamName, bytes: u64) -> Result<(), JournalError> {
        if bytes == 0 {
            return Ok(());
        }
        let end = self.position.of(stream) + bytes;
        self.lose(shared, stream, end);
        let settled = self.settle(shared);
        self.publish(shared);
        settled
    }

    /// Writes the ranges and positions that a failure kept from the disk, or that a killed server did not count. This
    /// comes before any later byte, so that a file never has an unrecorded hole, and order is kept.
    pub fn settle(&mut self, shared: &Shared) -> Result<(), JournalError> {
        if !self.unsettled {
            return Ok(());
        }
        shared.missing.write().unwrap_or_else(PoisonError::into_inner).save(&shared.lost)?;
        self.write_entry(shared, self.position, None)
    }

    fn lose(&mut self, shared: &Shared, stream: StreamName, end: u64) {
        let start = self.position.of(stream);
        shared.missing.write().unwrap_or_else(PoisonError::into_inner).add(stream, start..end);
        self.position.set(stream, end);
        self.unsettled = true;
        self.growing = None;
    }

    fn advance(&mut self, shared: &Shared, stream: StreamName, end: u64) -> Result<(), JournalError> {
        let mut position = self.position;
        position.set(stream, end);
        self.write_entry(shared, position, Some(stream))
    }

    fn write_entry(
        &mut self,
        shared: &Shared,
        position: Position,
        alone: Option<StreamName>,
    ) -> Result<(), JournalError> {
        if !self.header_written {
            shared.order.write_at(&order::encode_header(shared.layout.limit), 0)?;
            self.header_written = true;
        }
        let grows = self.growing.is_some() && self.growing == alone;
        let index = if grows { self.entries - 1 } else { self.entries };
        let (place, _) = order::place(&shared.layout, index, 1);
        shared.order.write_at(&order::encode(position, now_ms()), place)?;
        self.position = position;
        self.entries = index + 1;
        self.growing = alone;
        self.unsettled = false;
        Ok(())
    }

    fn publish(&self, shared: &Shared) {
        shared.published.send_modify(|published| {
            published.position = self.position;
            published.entries = self.entries;
        });
    }
}

impl Position {
    pub fn of(&self, stream: StreamName) -> u64 {
        match stream {
            StreamName::Stdout => self.stdout,
            StreamName::Stderr => self.stderr,
        }
    }

    pub fn set(&mut self, stream: StreamName, to: u64) {
        match stream {
            StreamName::Stdout => self.stdout = to,
            StreamName::Stderr => self.stderr = to,
        }
    }
}

fn write_data(
    shared: &Shared,
    stream: StreamName,
    mut offset: u64,
    mut bytes: &[u8],
) -> Result<(), JournalError> {
    while !bytes.is_empty() {
        let (place, count) = shared.layout.data.place(offset, bytes.len() as u64);
        let (here, rest) = bytes.split_at(count as usize);
        shared.data(stream).write_at(here, place)?;
        offset += count;
        bytes = rest;
    }
    Ok(())
}

fn now_ms() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |elapsed| elapsed.as_millis() as u64)
}
