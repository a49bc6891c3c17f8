//! One exec of a sandbox: its record, its journal, and its waiters.

use super::followers::Followers;
use crate::FleetError;
use crate::contexts::{Answer, Part, Said};
use crate::idempotency::RequestKey;
use paddock_engine::Input;
use paddock_model::api::{CodeError, CodeResult, Exec, ExecCause, ExecState, StreamName};
use paddock_model::{Captured, ScanReport};
use paddock_records::journal::{Journal, JournalError, Piece};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// The bytes of a journal that are read at once.
const DIGEST_PIECE: usize = 256 * 1024;
/// The most results in one answer.
const MOST_RESULTS: usize = 1000;

/// The record of an exec, in the store from before its start on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ExecRecord {
    pub number: u32,
    pub command: String,
    pub started_at_ms: u64,
    pub ended_at_ms: Option<u64>,
    pub exit_code: Option<i32>,
    pub cause: Option<ExecCause>,
    pub timeout_ms: Option<u64>,
    /// Bytes kept of each stream.
    pub output_limit: u64,
    pub terminal: bool,
    /// The id of the token that started it.
    pub token: String,
    /// Tells a plain command, an interpreter and a call apart.
    #[serde(default)]
    pub part: Part,
    /// The findings of the scan before it ran.
    #[serde(default)]
    pub scanned: ScanReport,
    /// The bytes of its streams at its end: a journal that holds less has lost something.
    #[serde(default)]
    pub lengths: Option<Lengths>,
    /// The idempotency key of the request that started it.
    #[serde(default)]
    pub key: Option<RequestKey>,
}

/// Bytes of both streams, and of the messages of a context's runner.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lengths {
    pub stdout: u64,
    pub stderr: u64,
    pub said: u64,
}

pub struct TrackedExec {
    pub sandbox: String,
    pub journal: Journal,
    pub followers: Followers,
    /// The results of a call in a context.
    pub said: Option<Said>,
    pub input: Arc<tokio::sync::Mutex<TrackedInput>>,
    /// Held by the task that writes its output into the journal.
    pub pumping: tokio::sync::Mutex<()>,
    record: Mutex<ExecRecord>,
    ended: watch::Sender<bool>,
    /// True if a call ended it.
    killed: AtomicBool,
    out_of_time: AtomicBool,
    /// True if the store has its end.
    stored: AtomicBool,
    digests: Mutex<Option<(Sha256, Sha256)>>,
}

#[derive(Default)]
pub struct TrackedInput {
    /// Bytes that were handed to the exec so far.
    pub offset: u64,
    /// `None` if its standard input is closed.
    pub input: Option<Input>,
}

impl TrackedExec {
    pub fn new(sandbox: &str, record: ExecRecord, journal: Journal) -> TrackedExec {
        let stored = record.cause.is_some();
        let (ended, _) = watch::channel(stored);
        let digests = (journal.lengths() == (0, 0)).then(|| (Sha256::new(), Sha256::new()));
        TrackedExec {
            sandbox: sandbox.into(),
            journal,
            followers: Followers::default(),
            said: None,
            input: Arc::default(),
            pumping: tokio::sync::Mutex::default(),
            record: Mutex::new(record),
            ended,
            killed: false.into(),
            out_of_time: false.into(),
            stored: stored.into(),
            digests: Mutex::new(digests),
        }
    }

    pub fn with_said(self, said: Said) -> TrackedExec {
        TrackedExec { said: Some(said), ..self }
    }

    /// Writes into the journal, and into the digest for the timeline.
    pub fn append(&self, stream: StreamName, bytes: &[u8]) -> Result<(), JournalError> {
        if let Some((stdout, stderr)) = &mut *self.digests.lock().unwrap_or_else(PoisonError::into_inner) {
            let digest = if stream == StreamName::Stdout { stdout } else { stderr };
            digest.update(bytes);
        }
        self.journal.append(stream, bytes)
    }

    /// The digests of all of stdout and stderr; `None` if an earlier server saw a part of it that was not kept.
    pub fn digests(&self) -> Option<(String, String)> {
        let seen = self.digests.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let digests =
            seen.or_else(|| Some((self.digest_of(StreamName::Stdout)?, self.digest_of(StreamName::Stderr)?)));
        let hex = |digest: Sha256| digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        digests.map(|(stdout, stderr)| (hex(stdout), hex(stderr)))
    }

    /// The digest from the journal, if all of the stream was kept.
    fn digest_of(&self, stream: StreamName) -> Option<Sha256> {
        let (mut digest, mut offset) = (Sha256::new(), 0);
        loop {
            match self.journal.read_at(stream, offset, DIGEST_PIECE).ok()? {
                Piece::Bytes(bytes) => {
                    digest.update(&bytes);
                    offset += bytes.len() as u64;
                }
                Piece::Gap { .. } => return None,
                Piece::End => return Some(digest),
            }
        }
    }

    /// Ends the journal: no more output comes.
    pub fn close(&self) {
        self.journal.finish();
        self.said.iter().for_each(Said::rest);
    }

    /// Closes its descriptors, though more output may come.
    pub fn rest(&self) {
        self.journal.rest();
        self.said.iter().for_each(Said::rest);
    }

    /// For a record that was read again: bytes that its files have lost since are counted as missing.
    pub fn compare_with_files(&self) {
        let Some(lengths) = self.record().lengths else { return };
        self.journal.had(lengths.stdout, lengths.stderr);
        if let Some(said) = &self.said {
            said.had(lengths.said);
        }
    }

    /// The record to store, if more was printed since its end was told.
    pub fn printed_more(&self) -> Option<ExecRecord> {
        let lengths = self.lengths();
        let mut record = self.record();
        if record.lengths.is_none() || record.lengths == Some(lengths) {
            return None;
        }
        record.lengths = Some(lengths);
        Some(record.clone())
    }

    fn lengths(&self) -> Lengths {
        let (stdout, stderr) = self.journal.lengths();
        Lengths { stdout, stderr, said: self.said.as_ref().map_or(0, Said::consumed) }
    }

    /// The kept bytes of both streams.
    pub fn captured(&self) -> Result<(Captured, Captured), JournalError> {
        Ok((self.journal.captured(StreamName::Stdout)?, self.journal.captured(StreamName::Stderr)?))
    }

    pub fn record(&self) -> MutexGuard<'_, ExecRecord> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn number(&self) -> u32 {
        self.record().number
    }

    pub fn runs(&self) -> bool {
        !*self.ended.borrow()
    }

    pub fn mark_killed(&self) {
        self.killed.store(true, Ordering::Relaxed);
    }

    /// The host ends it at its time limit, where its guest keeps no time for it.
    pub fn mark_out_of_time(&self) {
        self.out_of_time.store(true, Ordering::Relaxed);
    }

    pub fn was_out_of_time(&self) -> bool {
        self.out_of_time.load(Ordering::Relaxed)
    }

    pub fn was_killed(&self) -> bool {
        self.killed.load(Ordering::Relaxed)
    }

    pub fn mark_stored(&self) {
        self.stored.store(true, Ordering::Relaxed);
    }

    pub fn is_stored(&self) -> bool {
        self.stored.load(Ordering::Relaxed)
    }

    /// Sets how it ended; only the first call counts. Returns the record to store.
    pub fn end(&self, cause: ExecCause, exit_code: i32, at_ms: u64) -> Option<ExecRecord> {
        let lengths = self.lengths();
        let mut record = self.record();
        if record.cause.is_some() {
            return None;
        }
        record.lengths = Some(lengths);
        record.cause = Some(cause);
        record.exit_code = Some(exit_code);
        record.ended_at_ms = Some(at_ms);
        Some(record.clone())
    }

    /// Tells the waiters, after the record is in the store.
    pub fn announce_end(&self) {
        self.ended.send_replace(true);
    }

    pub async fn wait(&self) {
        let mut ended = self.ended.subscribe();
        let _ = ended.wait_for(|ended| *ended).await;
    }

    /// The exec without its output.
    pub fn to_api(&self) -> Exec {
        self.described(Default::default(), Answers::default())
    }

    /// The exec with the kept output, if it has ended.
    pub fn with_output(&self) -> Result<Exec, FleetError> {
        if self.record().cause.is_none() {
            return Ok(self.to_api());
        }
        let failed = |error: JournalError| FleetError::storage(&error);
        Ok(self.described(self.captured().map_err(failed)?, self.answers().map_err(failed)?))
    }

    fn described(&self, (stdout, stderr): (Captured, Captured), answers: Answers) -> Exec {
        let record = self.record().clone();
        let ended = record.cause.is_some();
        let (stdout_bytes, stderr_bytes) = self.journal.lengths();
        Exec {
            exec: record.number,
            sandbox: self.sandbox.clone(),
            state: if ended { ExecState::Ended } else { ExecState::Running },
            command: record.command,
            started_at_ms: record.started_at_ms,
            ended_at_ms: record.ended_at_ms,
            exit_code: record.exit_code,
            timed_out: matches!(record.cause, Some(ExecCause::TimeLimit { .. })),
            cause: record.cause,
            stdout: stdout.to_text(),
            stderr: stderr.to_text(),
            stdout_bytes,
            stderr_bytes,
            stdout_missing_bytes: stdout.missing,
            stderr_missing_bytes: stderr.missing,
            context: match &record.part {
                Part::Command => None,
                Part::Runner(runner) => Some(runner.context.clone()),
                Part::Call(call) => Some(call.context.clone()),
            },
            results: answers.results,
            results_missing: answers.missing,
            error: self.death().or(answers.error),
            context_restarted: match record.part {
                Part::Call(call) => call.restarted,
                _ => None,
            },
            findings: record.scanned.findings,
            findings_missing: record.scanned.findings_missing,
        }
    }

    /// The end of its interpreter, as an error of the code.
    pub fn death(&self) -> Option<CodeError> {
        let record = self.record();
        let Part::Call(call) = &record.part else { return None };
        let died = call.died.as_ref().filter(|_| record.cause.is_some())?;
        let value = format!("{died}; what the context remembered is gone");
        Some(CodeError { name: "ContextDied".into(), value, traceback: String::new() })
    }

    fn answers(&self) -> Result<Answers, JournalError> {
        let mut answers = Answers::default();
        let Some(said) = &self.said else { return Ok(answers) };
        let mut reader = said.reader();
        while let Some(placed) = reader.next(said)? {
            match placed.answer {
                Answer::Result(result) if answers.results.len() < MOST_RESULTS => {
                    answers.results.push(*result)
                }
                Answer::Result(_) => answers.missing += 1,
                Answer::Error(error) => answers.error = Some(error),
                Answer::Ready | Answer::Done { .. } => {}
            }
        }
        answers.missing += u64::from(reader.has_lost());
        Ok(answers)
    }
}

/// The answers of code in a context, read again.
#[derive(Default)]
struct Answers {
    results: Vec<CodeResult>,
    missing: u64,
    error: Option<CodeError>,
}
