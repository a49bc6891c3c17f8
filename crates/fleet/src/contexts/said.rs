//! The messages of a call's runner, on disk beside the call's output: the bytes as they came, and the position of the
//! output at that time. A new server knows from it how far the conversation was, and results can be read again.

use super::answer::{Answer, read_answer};
use super::frame::Frames;
use paddock_records::journal::{JournalError, LazyFile};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// The most bytes that are kept of one call; later bytes are only counted.
const MOST_BYTES_WRITTEN: u64 = 32 << 20;
/// The positions of stdout and stderr, and the number of bytes that follow.
const HEADER: usize = 20;
/// A bit of the length: the bytes were not kept.
const DROPPED: u32 = 1 << 31;

pub struct Said {
    file: LazyFile,
    written: Mutex<Written>,
    changed: watch::Sender<u64>,
    /// True if the file is shorter than it was.
    cut: AtomicBool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Written {
    /// The length of the file.
    length: u64,
    /// Bytes of the control stream, kept or not.
    consumed: u64,
}

/// An answer, and the position of the output when it came.
pub struct Placed {
    pub position: u64,
    pub answer: Answer,
}

impl Said {
    /// Opens the file; a record that a killed server left half written is cut off.
    pub fn open(directory: &Path) -> Result<Said, JournalError> {
        let file = LazyFile::new(directory, "control");
        let length = file.open_existing()?.unwrap_or(0);
        let mut written = Written::default();
        while let Some(record) = record_at(&file, written.length, length)? {
            written.length = record.end;
            written.consumed += record.consumed;
        }
        let (changed, _) = watch::channel(written.length);
        Ok(Said { file, written: Mutex::new(written), changed, cut: false.into() })
    }

    /// Compares the file with the bytes that had come when it was last looked at.
    pub fn had(&self, consumed: u64) {
        if self.consumed() < consumed {
            self.cut.store(true, Ordering::Relaxed);
        }
    }

    /// Closes the descriptor; readers open the file again.
    pub fn rest(&self) {
        self.file.rest();
    }

    pub fn consumed(&self) -> u64 {
        self.written().consumed
    }

    pub fn append(&self, stdout: u64, stderr: u64, bytes: &[u8]) -> Result<(), JournalError> {
        let mut written = self.written();
        let keep = written.length + bytes.len() as u64 <= MOST_BYTES_WRITTEN;
        let mut record = Vec::with_capacity(HEADER + if keep { bytes.len() } else { 0 });
        record.extend_from_slice(&stdout.to_le_bytes());
        record.extend_from_slice(&stderr.to_le_bytes());
        let length = bytes.len() as u32 | if keep { 0 } else { DROPPED };
        record.extend_from_slice(&length.to_le_bytes());
        if keep {
            record.extend_from_slice(bytes);
        }
        // The bytes are counted even if they cannot be written: the runner does not repeat them.
        written.consumed += bytes.len() as u64;
        self.file.write_at(&record, written.length)?;
        written.length += record.len() as u64;
        self.changed.send_replace(written.length);
        Ok(())
    }

    /// Reads from the beginning.
    pub fn reader(&self) -> Reader {
        Reader { frames: Frames::default(), at: 0, position: 0, lost: false }
    }

    /// All kept bytes, for a parser that goes on behind them; `None` if some were not kept.
    pub fn bytes(&self) -> Result<Option<Vec<u8>>, JournalError> {
        let end = self.written().length;
        let (mut at, mut all) = (0, Vec::new());
        while let Some(record) = record_at(&self.file, at, end)? {
            match record.bytes(&self.file)? {
                Some(bytes) => all.extend(bytes),
                None => return Ok(None),
            }
            at = record.end;
        }
        Ok(Some(all))
    }

    pub fn follow(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads answers in their order.
pub struct Reader {
    frames: Frames,
    at: u64,
    position: u64,
    /// True if bytes were not kept, or do not parse: nothing more can be read.
    lost: bool,
}

impl Reader {
    /// `None` if there is nothing more yet.
    pub fn next(&mut self, said: &Said) -> Result<Option<Placed>, JournalError> {
        loop {
            if self.lost {
                return Ok(None);
            }
            match self.frames.next_frame() {
                Ok(Some(frame)) => match read_answer(frame) {
                    Some(answer) => return Ok(Some(Placed { position: self.position, answer })),
                    None => continue,
                },
                Ok(None) => {}
                Err(_) => {
                    self.lost = true;
                    continue;
                }
            }
            let end = said.written().length;
            let Some(record) = record_at(&said.file, self.at, end)? else {
                // Nothing follows a record that was cut off, and the reader must know that there was more.
                self.lost = self.at < end || said.cut.load(Ordering::Relaxed);
                return Ok(None);
            };
            self.at = record.end;
            self.position = record.position;
            match record.bytes(&said.file)? {
                Some(bytes) => self.frames.push(&bytes),
                None => self.lost = true,
            }
        }
    }

    /// The bytes of the file that were read.
    pub fn read(&self) -> u64 {
        self.at
    }

    /// True if a message cannot be read.
    pub fn has_lost(&self) -> bool {
        self.lost
    }
}

struct Record {
    begin: u64,
    end: u64,
    consumed: u64,
    position: u64,
    kept: bool,
}

impl Record {
    fn bytes(&self, file: &LazyFile) -> Result<Option<Vec<u8>>, JournalError> {
        if !self.kept {
            return Ok(None);
        }
        file.read_at(self.begin, (self.end - self.begin) as usize).map(Some)
    }
}

fn record_at(file: &LazyFile, at: u64, end: u64) -> Result<Option<Record>, JournalError> {
    if at + HEADER as u64 > end {
        return Ok(None);
    }
    let header = file.read_at(at, HEADER)?;
    if header.len() < HEADER {
        return Ok(None);
    }
    let number = |from: usize, length: usize| {
        header[from..from + length].iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte))
    };
    let length = number(16, 4) as u32;
    let kept = length & DROPPED == 0;
    let consumed = u64::from(length & !DROPPED);
    let begin = at + HEADER as u64;
    let record_end = begin + if kept { consumed } else { 0 };
    if record_end > end {
        return Ok(None);
    }
    let position = number(0, 8).saturating_add(number(8, 8));
    Ok(Some(Record { begin, end: record_end, consumed, position, kept }))
}

#[cfg(test)]
mod tests {
    use super::super::frame::Frame;
    use super::*;

    #[test]
    fn what_was_said_is_read_again_by_the_next_server() {
        let directory = tempfile::tempdir().unwrap();
        let result = Frame::new("result").with("text/plain", "42").encode();
        let said = Said::open(directory.path()).unwrap();
        said.append(3, 4, &result[..5]).unwrap();
        said.append(5, 4, &result[5..]).unwrap();
        drop(said);
        // The next record was cut by a crash.
        let file = directory.path().join("control");
        let mut bytes = std::fs::read(&file).unwrap();
        bytes.extend_from_slice(&[1; HEADER + 1]);
        std::fs::write(&file, bytes).unwrap();
        let said = Said::open(directory.path()).unwrap();
        assert_eq!(said.consumed(), result.len() as u64);
        assert_eq!(said.bytes().unwrap(), Some(result));
        let mut reader = said.reader();
        let placed = reader.next(&said).unwrap().unwrap();
        assert_eq!(placed.position, 9);
        assert!(matches!(placed.answer, Answer::Result(result) if result.text.as_deref() == Some("42")));
        assert!(reader.next(&said).unwrap().is_none());
        said.append(5, 4, &Frame::new("done").encode()).unwrap();
        assert!(matches!(reader.next(&said).unwrap(), Some(Placed { answer: Answer::Done { .. }, .. })));
    }

    #[test]
    fn what_was_cut_off_is_told_to_be_lost() {
        let directory = tempfile::tempdir().unwrap();
        let said = Said::open(directory.path()).unwrap();
        let result = Frame::new("result").with("text/plain", "42").encode();
        for _ in 0..2 {
            said.append(0, 0, &result).unwrap();
        }
        let (consumed, length) = (said.consumed(), said.written().length);
        said.rest();
        let file = std::fs::OpenOptions::new().write(true).open(directory.path().join("control")).unwrap();
        file.set_len(length / 2).unwrap();
        let reopened = Said::open(directory.path()).unwrap();
        reopened.had(consumed);
        for said in [said, reopened] {
            let mut reader = said.reader();
            assert!(reader.next(&said).unwrap().is_some() && reader.next(&said).unwrap().is_none());
            assert!(reader.has_lost());
        }
    }

    #[test]
    fn more_than_is_kept_is_counted() {
        let directory = tempfile::tempdir().unwrap();
        let said = Said::open(directory.path()).unwrap();
        let piece = vec![0; 1 << 20];
        for _ in 0..40 {
            said.append(0, 0, &piece).unwrap();
        }
        assert_eq!(said.consumed(), 40 << 20);
        assert_eq!(said.bytes().unwrap(), None);
        assert!(std::fs::metadata(directory.path().join("control")).unwrap().len() < 33 << 20);
        assert_eq!(Said::open(directory.path()).unwrap().consumed(), 40 << 20);
    }
}
