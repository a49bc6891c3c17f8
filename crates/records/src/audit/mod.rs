//! One timeline per sandbox; a change in it is always found.
//!
//! ```text
//! STATE/audit.key          the private key (0600)
//! STATE/audit.pub          the public one, base64: what `verify` needs, on any machine
//! STATE/audit/ID.jsonl     one line per entry, each with the hash of the line before and a signature
//! STATE/audit/ID.head      how many entries there are, signed: finds a timeline that was cut off at its end
//! STATE/audit/ID.torn-N    what a killed server left of an entry it was writing
//! STATE/audit/outputs/     what calls printed and returned, sealed (`outputs`)
//! ```
//!
//! One attack is not found: an older timeline that is put back together with the head of that time. A copy elsewhere
//! (`export`) reveals it.

mod error;
mod event;
mod head;
mod key;
mod line;
mod outputs;
mod timeline;
mod verify;

#[cfg(test)]
mod tests;

pub use error::AuditError;
pub use event::{AuditActor, AuditEntry, AuditEvent, Digested, Text};
pub use key::PublicKey;
pub(crate) use key::write_new as write_key;
pub use line::is_signed;
pub use outputs::{KeptOutput, Outputs};
pub use verify::{Verdict, Verified, verify};

use head::Head;
use key::SigningKey;
use paddock_model::SandboxId;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use timeline::{MOST_AT_ONCE, Timeline};

/// A timeline as it is at one moment.
pub struct Exported {
    pub file: std::fs::File,
    /// The bytes of the file that belong to it.
    pub bytes: u64,
    /// The head, as the line that comes behind.
    pub head: Vec<u8>,
}

pub struct Audit {
    directory: PathBuf,
    key: SigningKey,
    open: Mutex<HashMap<SandboxId, Arc<Mutex<Option<Timeline>>>>>,
}

impl Audit {
    /// Opens the audit with the keys of this state directory, and makes missing ones.
    pub fn open(state: &Path) -> Result<Audit, AuditError> {
        let directory = state.join("audit");
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory)
            .map_err(|source| AuditError::io(&directory, source))?;
        Ok(Audit { directory, key: key::load_or_make(state)?, open: Mutex::default() })
    }

    pub fn public_key(&self) -> PublicKey {
        PublicKey::of(&self.key)
    }

    /// Adds entries. The first entry of a sandbox is preceded by one that names the sandbox and the key; with an empty
    /// list that one comes alone. After [`AuditEvent::Ended`] nothing more can be added.
    pub fn append(&self, sandbox: &SandboxId, entries: &[AuditEntry]) -> Result<(), AuditError> {
        if entries.is_empty() {
            return self.append_together(sandbox, entries);
        }
        let mut appended = Ok(());
        let is_end = |entry: &AuditEntry| matches!(entry.event, AuditEvent::Ended { .. });
        for part in entries.split_inclusive(is_end).flat_map(|part| part.chunks(MOST_AT_ONCE)) {
            let outcome = self.append_together(sandbox, part);
            appended = appended.and(outcome);
        }
        appended
    }

    fn append_together(&self, sandbox: &SandboxId, entries: &[AuditEntry]) -> Result<(), AuditError> {
        let slot = self
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(sandbox.clone())
            .or_default()
            .clone();
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        let timeline = match &mut *slot {
            Some(timeline) => timeline,
            empty => empty.insert(Timeline::open(&self.directory, sandbox, &self.key)?),
        };
        let appended = timeline.append(&self.key, entries);
        let closed = timeline.is_closed();
        if appended.is_err() || closed {
            // After a failure the files tell how far the append came.
            *slot = None;
        }
        if closed {
            // A caller that still holds the slot finds the timeline closed as well.
            self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(sandbox);
        }
        appended
    }

    /// Verifies the timeline in this state directory; `None` if the sandbox has none.
    pub fn verify(&self, sandbox: &SandboxId) -> Result<Option<Verdict>, AuditError> {
        let path = self.path(sandbox);
        if !path.exists() {
            return Ok(None);
        }
        let verdict = verify(&path, &self.public_key())?;
        Ok(Some(verdict.of_sandbox(sandbox.as_str())))
    }

    /// The timeline's file, one JSON object per line.
    pub fn path(&self, sandbox: &SandboxId) -> PathBuf {
        timeline::path(&self.directory, sandbox)
    }

    /// The timeline with its head as its last line: one file that `verify` takes anywhere.
    pub fn export(&self, sandbox: &SandboxId, to: &mut dyn Write) -> Result<(), AuditError> {
        let path = self.path(sandbox);
        let failed = |source| AuditError::io(&path, source);
        let Exported { file, bytes, head } = self.exported(sandbox)?;
        std::io::copy(&mut file.take(bytes), to).map_err(failed)?;
        to.write_all(&head).map_err(failed)
    }

    /// The same, for callers that read it piece by piece.
    pub fn exported(&self, sandbox: &SandboxId) -> Result<Exported, AuditError> {
        let path = self.path(sandbox);
        let slot = self.open.lock().unwrap_or_else(PoisonError::into_inner).get(sandbox).cloned();
        // The slot's lock keeps writers away while the head is read.
        let _unchanged = slot.as_ref().map(|slot| slot.lock().unwrap_or_else(PoisonError::into_inner));
        // The head is read first: entries that are added meanwhile stay out, so that both fit together.
        let text =
            head::read(&head::path(&path))?.ok_or_else(|| AuditError::Missing { path: path.clone() })?;
        let head = Head::parse(&self.public_key(), &text)
            .map_err(|reason| AuditError::Broken { path: path.clone(), reason: reason.to_string() })?;
        let file = std::fs::File::open(&path).map_err(|source| AuditError::io(&path, source))?;
        Ok(Exported { file, bytes: head.bytes, head: text })
    }

    /// Checks that an exported timeline is whole, by its links and its head.
    pub fn check(&self, sandbox: &SandboxId, exported: &Exported) -> Result<Verdict, AuditError> {
        let path = self.path(sandbox);
        let failed = |source| AuditError::io(&path, source);
        let file = std::fs::File::open(&path).map_err(failed)?.take(exported.bytes);
        let lines = std::io::BufReader::new(file).chain(exported.head.as_slice());
        let verdict = verify::verify_links(lines, &self.public_key()).map_err(failed)?;
        Ok(verdict.of_sandbox(sandbox.as_str()))
    }

    /// True if the timeline exists, and has only its opening entry.
    pub fn is_only_opened(&self, sandbox: &SandboxId) -> bool {
        let text = head::read(&head::path(&self.path(sandbox))).ok().flatten();
        text.is_some_and(|text| Head::parse(&self.public_key(), &text).is_ok_and(|head| head.seq == 0))
    }

    /// Removes the timeline, together with its sandbox's records.
    pub fn remove(&self, sandbox: &SandboxId) -> Result<(), AuditError> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(sandbox);
        let path = self.path(sandbox);
        for path in [head::path(&path), path] {
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(AuditError::io(&path, error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
