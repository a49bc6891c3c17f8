//! The output of one call for the audit: the beginning and the end of each stream, and the results of code. The thread
//! that writes timelines reads it from the journal, so that no call waits for it and nothing large is held until then.

use super::TrackedExec;
use crate::contexts::Answer;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use paddock_model::api::{CodeError, StreamName};
use paddock_records::journal::{Journal, Piece};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// The most bytes of each end of each stream.
const PART: u64 = 32 << 10;
/// The most bytes of all results of one call together.
const RESULTS: usize = 64 << 10;
/// A longer representation is kept as its digest.
const LONGEST_VALUE: usize = 4 << 10;
/// The most bytes of an exception's name, value and traceback each.
const LONGEST_ERROR: usize = 16 << 10;
/// The most bytes of an interpreter's messages that are searched for results.
const LOOKED_THROUGH: u64 = 4 << 20;

/// A call that has ended, and the length of its output by then.
pub struct Printed {
    tracked: Arc<TrackedExec>,
    stdout: u64,
    stderr: u64,
}

/// Serialized only to be sealed.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub stdout: Kept,
    pub stderr: Kept,
    #[serde(default)]
    pub results: Vec<Value>,
    #[serde(default)]
    pub results_left_out: u64,
    #[serde(default)]
    pub error: Option<CodeError>,
}

/// Base64, because output is bytes.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    pub first: String,
    pub left_out: u64,
    pub last: String,
}

impl Printed {
    /// Precondition: the call has ended.
    pub fn new(tracked: &Arc<TrackedExec>) -> Printed {
        let (stdout, stderr) = tracked.journal.lengths();
        Printed { tracked: tracked.clone(), stdout, stderr }
    }

    /// `None` if it printed and returned nothing.
    pub fn record(&self) -> Option<Vec<u8>> {
        let mut record = Record {
            stdout: kept(&self.tracked.journal, StreamName::Stdout, self.stdout),
            stderr: kept(&self.tracked.journal, StreamName::Stderr, self.stderr),
            ..Record::default()
        };
        self.add_answers(&mut record);
        if record == Record::default() {
            return None;
        }
        serde_json::to_vec(&record).ok()
    }

    pub fn exec(&self) -> u32 {
        self.tracked.number()
    }

    fn add_answers(&self, record: &mut Record) {
        record.error = self.tracked.death();
        let Some(said) = &self.tracked.said else { return };
        let (mut reader, mut room) = (said.reader(), RESULTS);
        while reader.read() <= LOOKED_THROUGH {
            match reader.next(said).ok().flatten().map(|placed| placed.answer) {
                None => break,
                Some(Answer::Error(error)) => record.error = Some(shortened(error)),
                Some(Answer::Result(result)) => {
                    let value = serde_json::to_value(&*result).map(bounded).unwrap_or_default();
                    let size = value.to_string().len();
                    if size > room {
                        record.results_left_out += 1;
                        continue;
                    }
                    room -= size;
                    record.results.push(value);
                }
                Some(Answer::Ready | Answer::Done { .. }) => {}
            }
        }
    }
}

fn kept(journal: &Journal, stream: StreamName, length: u64) -> Kept {
    let first = read(journal, stream, 0, length.min(PART));
    let rest = length.saturating_sub(PART);
    let last = read(journal, stream, length - rest.min(PART), length);
    let left_out = length - first.len() as u64 - last.len() as u64;
    Kept { first: STANDARD.encode(first), left_out, last: STANDARD.encode(last) }
}

/// The bytes, as far as they were kept without a gap.
fn read(journal: &Journal, stream: StreamName, from: u64, to: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while from + (bytes.len() as u64) < to {
        let at = from + bytes.len() as u64;
        match journal.read_at(stream, at, (to - at) as usize) {
            Ok(Piece::Bytes(piece)) => bytes.extend_from_slice(&piece),
            Ok(Piece::Gap { .. } | Piece::End) | Err(_) => break,
        }
    }
    bytes
}

/// Replaces long text, such as a picture, by its length and digest.
fn bounded(value: Value) -> Value {
    match value {
        Value::String(text) if text.len() > LONGEST_VALUE => {
            let digest = Sha256::digest(text.as_bytes());
            let sha256: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            json!({ "bytes": text.len(), "sha256": sha256 })
        }
        Value::Object(fields) => {
            Value::Object(fields.into_iter().map(|(name, value)| (name, bounded(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(bounded).collect()),
        other => other,
    }
}

fn shortened(error: CodeError) -> CodeError {
    let short = |text: String| text[..text.floor_char_boundary(LONGEST_ERROR)].to_string();
    CodeError { name: short(error.name), value: short(error.value), traceback: short(error.traceback) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &str) -> Vec<u8> {
        STANDARD.decode(text).unwrap()
    }

    #[test]
    fn both_ends_of_a_long_stream_are_kept_and_the_middle_is_counted() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::open(directory.path(), 8 << 20).unwrap();
        let text: Vec<u8> = (0..100_000u32).flat_map(|number| number.to_le_bytes()).collect();
        journal.append(StreamName::Stdout, &text).unwrap();
        let kept = kept(&journal, StreamName::Stdout, text.len() as u64);
        assert_eq!(decoded(&kept.first), &text[..PART as usize]);
        assert_eq!(decoded(&kept.last), &text[text.len() - PART as usize..]);
        assert_eq!(kept.left_out, text.len() as u64 - 2 * PART);
        // Up to this length the output is kept whole, to the byte.
        for length in [0, 1, PART - 1, PART, PART + 1, 2 * PART - 1, 2 * PART] {
            let kept = super::kept(&journal, StreamName::Stdout, length);
            let all = [decoded(&kept.first), decoded(&kept.last)].concat();
            assert_eq!((all.as_slice(), kept.left_out), (&text[..length as usize], 0), "{length}");
        }
    }

    #[test]
    fn what_the_journal_lost_is_left_out() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::open(directory.path(), 8 << 20).unwrap();
        journal.append(StreamName::Stderr, b"abc").unwrap();
        journal.skip(StreamName::Stderr, 7).unwrap();
        let kept = kept(&journal, StreamName::Stderr, 10);
        assert_eq!((decoded(&kept.first).as_slice(), kept.left_out), (&b"abc"[..], 7));
    }

    #[test]
    fn a_picture_is_kept_as_its_digest() {
        let value = bounded(json!({ "text": "42", "png": "x".repeat(5000), "data": { "rows": ["y"] } }));
        assert_eq!(value["text"], "42");
        assert_eq!(value["png"]["bytes"], 5000);
        assert_eq!(value["data"]["rows"][0], "y");
    }
}
