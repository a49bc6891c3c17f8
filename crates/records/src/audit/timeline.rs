//! The end of one sandbox's timeline, at which entries are added.

use super::head::{self, Head};
use super::key::SigningKey;
use super::line::{self, Hash, NOTHING, hex};
use super::{AuditActor, AuditEntry, AuditError, AuditEvent, Digested, PublicKey};
use paddock_model::SandboxId;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The most entries that are written together: a killed server may leave this many without their head.
pub const MOST_AT_ONCE: usize = 16;

/// No file stays open: there may be thousands of timelines.
pub struct Timeline {
    path: PathBuf,
    sandbox: SandboxId,
    next: u64,
    bytes: u64,
    last: Hash,
    closed: bool,
    /// The timeline's own entries, which come before the next one.
    waiting: Vec<AuditEntry>,
}

#[derive(Serialize)]
struct Entry<'a> {
    seq: u64,
    at_ms: u64,
    actor: &'a AuditActor,
    #[serde(flatten)]
    event: &'a AuditEvent,
    previous: String,
}

/// The members of the last entry that resuming needs.
#[derive(Deserialize)]
struct Last {
    seq: u64,
    kind: String,
}

pub fn path(directory: &Path, sandbox: &SandboxId) -> PathBuf {
    directory.join(format!("{sandbox}.jsonl"))
}

impl Timeline {
    /// Makes a new timeline, or resumes the one of an earlier server. An unfinished entry is set aside, and an entry
    /// says so.
    pub fn open(directory: &Path, sandbox: &SandboxId, key: &SigningKey) -> Result<Timeline, AuditError> {
        let path = path(directory, sandbox);
        let mut timeline = Timeline {
            path,
            sandbox: sandbox.clone(),
            next: 0,
            bytes: 0,
            last: NOTHING,
            closed: false,
            waiting: Vec::new(),
        };
        let recovered = timeline.resume(key)?;
        if timeline.next == 0 {
            let opened =
                AuditEvent::Opened { sandbox: sandbox.to_string(), public_key: PublicKey::of(key).text() };
            timeline.waiting.push(AuditEntry::new(AuditActor::server(), opened));
        }
        if let Some(note) = recovered
            && !timeline.closed
        {
            timeline.waiting.push(AuditEntry::new(AuditActor::server(), note));
        }
        Ok(timeline)
    }

    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Adds all entries with one write and one head, or none of them.
    ///
    /// Precondition: at most [`MOST_AT_ONCE`], of which only the last may be the end.
    pub fn append(&mut self, key: &SigningKey, entries: &[AuditEntry]) -> Result<(), AuditError> {
        if self.waiting.is_empty() && entries.is_empty() {
            return Ok(());
        }
        if self.closed {
            return Err(AuditError::Closed { path: self.path.clone() });
        }
        let (mut lines, mut next, mut last, mut closed) = (String::new(), self.next, self.last, false);
        for AuditEntry { at_ms, actor, event } in self.waiting.iter().chain(entries) {
            let entry = Entry { seq: next, at_ms: *at_ms, actor, event, previous: hex(&last) };
            let object = serde_json::to_string(&entry)
                .map_err(|error| AuditError::io(&self.path, io::Error::other(error)))?;
            let (line, hash) = line::seal(key, &object);
            lines.push_str(&line);
            lines.push('\n');
            (next, last) = (next + 1, hash);
            closed = matches!(event, AuditEvent::Ended { .. });
        }
        let bytes = self.bytes + lines.len() as u64;
        let head = Head::new(self.sandbox.as_str(), next - 1, bytes, &last, closed);
        self.write(&lines, &head.line(key)).map_err(|source| AuditError::io(&self.path, source))?;
        self.waiting.clear();
        (self.next, self.bytes, self.last, self.closed) = (next, bytes, last, closed);
        Ok(())
    }

    /// Writes the entries, then the head that counts them; if the head fails, the entries are removed again.
    fn write(&self, lines: &str, head: &str) -> io::Result<()> {
        let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path)?;
        let written =
            file.write_all(lines.as_bytes()).and_then(|()| head::write(&head::path(&self.path), head));
        if written.is_err() {
            // If this fails as well, the next opening of the timeline sets the remains aside.
            let _ = file.set_len(self.bytes);
        }
        written
    }

    fn resume(&mut self, key: &SigningKey) -> Result<Option<AuditEvent>, AuditError> {
        let failed = |source| AuditError::io(&self.path, source);
        let file = match OpenOptions::new().read(true).write(true).open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return if head::read(&head::path(&self.path))?.is_some() {
                    Err(self.broken("its head is there, the timeline is not"))
                } else {
                    Ok(None)
                };
            }
            Err(source) => return Err(failed(source)),
        };
        let length = file.metadata().map_err(failed)?.len();
        let (start, end) = last_line(&file, length).map_err(failed)?;
        let aside = self.set_aside(&file, end, length).map_err(failed)?;
        self.bytes = end;
        if start < end {
            let mut line = vec![0; (end - start) as usize - 1];
            file.read_exact_at(&mut line, start).map_err(failed)?;
            let public = PublicKey::of(key);
            self.last = line::unseal(&public, &line)
                .map_err(|reason| self.broken(&format!("of its last entry, {reason}")))?;
            let last: Last =
                serde_json::from_slice(&line).map_err(|_| self.broken("its last line is not an entry"))?;
            self.next = last.seq + 1;
            self.closed = last.kind == "ended";
        }
        let beyond = self.beyond_head(key)?;
        // A kill between entries and their head leaves this state: nothing was lost.
        if aside.bytes == 0 && beyond <= MOST_AT_ONCE as u64 + 1 {
            return Ok(None);
        }
        Ok(Some(AuditEvent::Recovered {
            set_aside_bytes: aside.bytes,
            set_aside_sha256: (aside.bytes > 0).then_some(aside.sha256),
            entries_beyond_head: beyond,
        }))
    }

    /// The number of entries that the head does not count yet.
    fn beyond_head(&self, key: &SigningKey) -> Result<u64, AuditError> {
        let text = match head::read(&head::path(&self.path))? {
            Some(text) => text,
            // The server was killed after the very first entries.
            None if self.next <= MOST_AT_ONCE as u64 + 1 => return Ok(self.next),
            None => return Err(self.broken("its head is gone")),
        };
        let head = Head::parse(&PublicKey::of(key), &text).map_err(|reason| self.broken(reason))?;
        if head.head != self.sandbox.as_str() {
            return Err(self.broken("its head is of another sandbox"));
        }
        let counted = head.seq + 1;
        if counted > self.next || (counted == self.next && head.last != hex(&self.last)) {
            return Err(self.broken("entries at its end are gone or were replaced"));
        }
        Ok(self.next - counted)
    }

    fn set_aside(&self, file: &File, end: u64, length: u64) -> io::Result<Digested> {
        let mut torn = vec![0; (length - end) as usize];
        file.read_exact_at(&mut torn, end)?;
        if !torn.is_empty() {
            let name = format!("torn-{end}");
            let mut options = OpenOptions::new();
            let mut aside = options
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(self.path.with_extension(name))?;
            aside.write_all(&torn)?;
            file.set_len(end)?;
        }
        Ok(Digested::of(&torn))
    }

    fn broken(&self, reason: &str) -> AuditError {
        AuditError::Broken { path: self.path.clone(), reason: reason.to_string() }
    }
}

/// The start and the end of the last whole line, found from the back, because timelines get long.
fn last_line(file: &File, length: u64) -> io::Result<(u64, u64)> {
    let end = newline_before(file, length)?;
    let start = if end == 0 { 0 } else { newline_before(file, end - 1)? };
    Ok((start, end))
}

/// The position behind the last newline before `position`; 0 if there is none.
fn newline_before(file: &File, mut position: u64) -> io::Result<u64> {
    let mut block = vec![0; 64 * 1024];
    while position > 0 {
        let count = position.min(block.len() as u64);
        let part = &mut block[..count as usize];
        file.read_exact_at(part, position - count)?;
        if let Some(found) = part.iter().rposition(|byte| *byte == b'\n') {
            return Ok(position - count + found as u64 + 1);
        }
        position -= count;
    }
    Ok(0)
}
