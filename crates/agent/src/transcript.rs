//! The conversation on disk: one turn a line, each written whole before the next is asked for. It can be gone on with.

use crate::turn::{Call, Result as CallResult, Turn};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const LARGEST: u64 = 256 << 20;

#[derive(Debug, thiserror::Error)]
pub enum TranscriptError {
    #[error("transcript `{}` cannot be used", .path.display())]
    Unusable { path: PathBuf, source: io::Error },
    #[error("transcript `{}` is damaged in line {line}", .path.display())]
    Damaged { path: PathBuf, line: usize, source: serde_json::Error },
}

#[derive(Debug)]
pub struct Transcript {
    path: PathBuf,
    file: File,
}

impl Transcript {
    /// A new transcript; an existing file is never written over.
    pub fn create(path: &Path) -> Result<Transcript, TranscriptError> {
        let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(path);
        let file = file.map_err(|source| TranscriptError::Unusable { path: path.to_path_buf(), source })?;
        Ok(Transcript { path: path.to_path_buf(), file })
    }

    /// An existing transcript, and its turns. A last line that was cut off is left out.
    pub fn open(path: &Path) -> Result<(Transcript, Vec<Turn>), TranscriptError> {
        let unusable = |source| TranscriptError::Unusable { path: path.to_path_buf(), source };
        let mut text = String::new();
        let mut file = OpenOptions::new().read(true).append(true).open(path).map_err(unusable)?;
        if file.metadata().map_err(unusable)?.len() > LARGEST {
            return Err(unusable(io::Error::other("it is larger than 256 MiB")));
        }
        file.read_to_string(&mut text).map_err(unusable)?;
        let whole = text.rfind('\n').map_or(0, |at| at + 1);
        if whole < text.len() {
            file.set_len(whole as u64).map_err(unusable)?;
        }
        let mut turns = Vec::new();
        for (line, number) in text[..whole].lines().zip(1..) {
            let damaged =
                |source| TranscriptError::Damaged { path: path.to_path_buf(), line: number, source };
            turns.push(serde_json::from_str(line).map_err(damaged)?);
        }
        Ok((Transcript { path: path.to_path_buf(), file }, turns))
    }

    pub fn write(&mut self, turn: &Turn) -> Result<(), TranscriptError> {
        let written = serde_json::to_string(turn)
            .map_err(io::Error::from)
            .and_then(|line| self.file.write_all(format!("{line}\n").as_bytes()));
        written.map_err(|source| TranscriptError::Unusable { path: self.path.clone(), source })
    }
}

/// A run that was broken off may have left calls without answers, which no provider takes: they are answered.
pub fn mended(turns: &[Turn]) -> Option<Turn> {
    let Some(Turn::Model { calls, .. }) = turns.last() else { return None };
    let result = |call: &Call| CallResult {
        id: call.id.clone(),
        text: "the run was ended before this was done".into(),
        is_error: true,
    };
    (!calls.is_empty()).then(|| Turn::Results { results: calls.iter().map(result).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(calls: usize) -> Turn {
        let call = |number: usize| Call { id: number.to_string(), tool: "t".into(), arguments: "{}".into() };
        Turn::Model { text: "x\ny".into(), calls: (0..calls).map(call).collect() }
    }

    #[test]
    fn what_is_written_is_read_and_gone_on_with() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.jsonl");
        let task = Turn::Task { text: "do".into() };
        Transcript::create(&path).unwrap().write(&task).unwrap();
        let (mut transcript, turns) = Transcript::open(&path).unwrap();
        assert_eq!(turns, std::slice::from_ref(&task));
        transcript.write(&model(1)).unwrap();
        assert_eq!(Transcript::open(&path).unwrap().1, [task, model(1)]);
        assert!(Transcript::create(&path).unwrap_err().to_string().contains("cannot be used"));
    }

    #[test]
    fn half_a_line_is_left_out_and_a_damaged_one_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.jsonl");
        std::fs::write(&path, "{\"turn\":\"task\",\"text\":\"a\"}\n{\"turn\":\"ta").unwrap();
        let (mut transcript, turns) = Transcript::open(&path).unwrap();
        assert_eq!(turns.len(), 1);
        transcript.write(&model(0)).unwrap();
        assert_eq!(Transcript::open(&path).unwrap().1.len(), 2);
        std::fs::write(&path, "{\"turn\":\"task\",\"text\":\"a\"}\nnonsense\n").unwrap();
        assert!(Transcript::open(&path).unwrap_err().to_string().ends_with("is damaged in line 2"));
    }

    #[test]
    fn calls_without_answers_are_answered() {
        let Some(Turn::Results { results }) = mended(&[model(2)]) else { panic!("no results") };
        assert_eq!(results.iter().map(|result| result.is_error).collect::<Vec<_>>(), [true, true]);
        assert_eq!(mended(&[model(0)]), None);
        assert_eq!(mended(&[]), None);
    }
}
