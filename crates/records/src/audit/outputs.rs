//! The outputs of execs, beside the timelines. Each is sealed with the key of secrets, and the signed entry of its call
//! names its place and its digest.
//!
//! ```text
//! STATE/audit/outputs/ID/N    one sealed record after the other, from that of exec N on; what no entry names was cut off by a kill
//! ```
//!
//! Timelines are never removed, and outputs are: the oldest go when all of them together are too much. An entry whose
//! output has gone still has the digests.

use super::AuditError;
use super::line::hex;
use crate::vault::Vault;
use paddock_model::SandboxId;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::SystemTime;

/// The most bytes of one sandbox. Its later outputs are kept as digests only.
const MOST_OF_ONE: u64 = 16 << 20;
/// Longer than any record can be.
const LONGEST_RECORD: u64 = 4 << 20;

/// The place of one call's output.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum KeptOutput {
    /// There was no output.
    #[default]
    Nothing,
    /// A policy, or the owner of the server, keeps no outputs.
    Off,
    /// The sandbox has printed more than is kept of one sandbox.
    Full,
    /// The disk or the key failed; the server's log has the reason.
    Failed,
    Kept {
        /// The exec that its file is named after: a file that was removed is not begun anew.
        part: u32,
        at: u64,
        bytes: u64,
        /// The digest of the sealed record.
        sha256: String,
    },
}

pub struct Outputs {
    directory: PathBuf,
    vault: Arc<Vault>,
    /// The most bytes of all sandboxes together; 0: none are kept.
    most: u64,
    total: AtomicU64,
    /// Live sandboxes that have printed since the server began.
    /// Locked for writing only to add or remove sandboxes: the outputs of several are kept at the same time.
    open: RwLock<HashMap<SandboxId, Mutex<Open>>>,
}

struct Open {
    part: u32,
    /// The bytes of all its parts.
    bytes: u64,
}

struct Part {
    path: PathBuf,
    bytes: u64,
    written: SystemTime,
}

impl Outputs {
    /// Counts the existing bytes, once.
    pub fn open(state: &Path, vault: Arc<Vault>, most: u64) -> Result<Outputs, AuditError> {
        let directory = state.join("audit").join("outputs");
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory);
        made.map_err(|source| AuditError::io(&directory, source))?;
        let outputs = Outputs { directory, vault, most, total: AtomicU64::new(0), open: RwLock::default() };
        let there = outputs.all().iter().map(|part| part.bytes).sum();
        outputs.total.store(there, Ordering::Relaxed);
        Ok(outputs)
    }

    pub fn is_off(&self) -> bool {
        self.most == 0
    }

    /// Seals a record and writes it behind the existing ones. A failure is logged: the work does not stop for it.
    pub fn keep(&self, sandbox: &SandboxId, exec: u32, plain: &[u8]) -> KeptOutput {
        if self.is_off() {
            return KeptOutput::Off;
        }
        let sealed = match self.vault.seal_bytes(&owner(sandbox, exec), plain) {
            Ok(sealed) => sealed,
            Err(error) => {
                tracing::error!(%sandbox, exec, %error, "an output could not be sealed for the audit");
                return KeptOutput::Failed;
            }
        };
        match self.append(sandbox, exec, &sealed) {
            Ok(Some((part, at))) => {
                let sha256 = hex(&Sha256::digest(&sealed));
                KeptOutput::Kept { part, at, bytes: sealed.len() as u64, sha256 }
            }
            Ok(None) => KeptOutput::Full,
            Err(error) => {
                tracing::error!(%sandbox, exec, %error, "an output could not be kept for the audit");
                KeptOutput::Failed
            }
        }
    }

    /// The part, and the offset in it; `None` if the sandbox has no room left.
    fn append(&self, sandbox: &SandboxId, exec: u32, sealed: &[u8]) -> io::Result<Option<(u32, u64)>> {
        let directory = self.directory.join(sandbox.as_str());
        let mut all = self.open.read().unwrap_or_else(PoisonError::into_inner);
        while !all.contains_key(sandbox) {
            drop(all);
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
            let bytes = parts(&directory).iter().map(|part| part.bytes).sum();
            let open = Mutex::new(Open { part: exec, bytes });
            self.open.write().unwrap_or_else(PoisonError::into_inner).entry(sandbox.clone()).or_insert(open);
            all = self.open.read().unwrap_or_else(PoisonError::into_inner);
        }
        let Some(open) = all.get(sandbox) else { return Err(ErrorKind::NotFound.into()) };
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = sealed.len() as u64;
        if open.bytes + bytes > MOST_OF_ONE {
            return Ok(None);
        }
        let path = directory.join(open.part.to_string());
        let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        let at = file.metadata()?.len();
        if let Err(error) = file.write_all(sealed) {
            // Bytes that no entry names would only take room.
            let _ = file.set_len(at);
            return Err(error);
        }
        open.bytes += bytes;
        self.total.fetch_add(bytes, Ordering::Relaxed);
        Ok(Some((open.part, at)))
    }

    /// The sandbox has ended, and prints nothing more.
    pub fn close(&self, sandbox: &SandboxId) {
        self.open.write().unwrap_or_else(PoisonError::into_inner).remove(sandbox);
    }

    /// The record that a signed entry names; `None` if it was removed. The error says which part does not fit.
    pub fn read(&self, sandbox: &SandboxId, exec: u32, kept: &KeptOutput) -> Result<Option<Vec<u8>>, String> {
        let KeptOutput::Kept { part, at, bytes, sha256 } = kept else { return Ok(None) };
        if *bytes > LONGEST_RECORD {
            return Err("its entry names more bytes than any output has".into());
        }
        let file = match File::open(self.directory.join(sandbox.as_str()).join(part.to_string())) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let mut sealed = vec![0; *bytes as usize];
        file.read_exact_at(&mut sealed, *at).map_err(|_| "it was cut off".to_string())?;
        if hex(&Sha256::digest(&sealed)) != *sha256 {
            return Err("it is not what its entry was signed for".into());
        }
        let plain = self.vault.unseal_bytes(&owner(sandbox, exec), &sealed);
        plain.map(|plain| Some(plain.to_vec())).map_err(|error| error.to_string())
    }

    /// True if the oldest outputs have to go.
    pub fn is_too_much(&self) -> bool {
        !self.is_off() && self.total.load(Ordering::Relaxed) > self.most
    }

    /// Removes the parts that were written to longest ago, until an eighth is free again, so that this is rare.
    pub fn make_room(&self) {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        let mut all = self.all();
        all.sort_by_key(|part| part.written);
        let mut total: u64 = all.iter().map(|part| part.bytes).sum();
        for Part { path, bytes, .. } in all {
            if total <= self.most / 8 * 7 {
                break;
            }
            match remove(&path) {
                Ok(()) => total = total.saturating_sub(bytes),
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "an old output could not be removed")
                }
            }
        }
        self.total.store(total, Ordering::Relaxed);
        // Each sandbox begins a new part, so that no record takes the place of a removed one.
        open.clear();
    }

    /// Removes the outputs of sandboxes whose timeline was moved away.
    pub fn sweep(&self, has_timeline: impl Fn(&SandboxId) -> bool) {
        for part in self.all() {
            let name = part.path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
            let Some(sandbox) = name.and_then(|name| SandboxId::try_from(name.to_string()).ok()) else {
                continue;
            };
            if !has_timeline(&sandbox) && remove(&part.path).is_ok() {
                self.total.fetch_sub(part.bytes.min(self.total.load(Ordering::Relaxed)), Ordering::Relaxed);
            }
        }
    }

    fn all(&self) -> Vec<Part> {
        let sandboxes = std::fs::read_dir(&self.directory).into_iter().flatten().flatten();
        sandboxes.flat_map(|sandbox| parts(&sandbox.path())).collect()
    }
}

/// A part that another thread is just removing is left out.
fn parts(directory: &Path) -> Vec<Part> {
    let files = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let part = |entry: std::fs::DirEntry| {
        let found = entry.metadata().ok()?;
        Some(Part { path: entry.path(), bytes: found.len(), written: found.modified().ok()? })
    };
    files.filter_map(part).collect()
}

/// Removes a part, and its directory if it was the last one in it.
fn remove(part: &Path) -> io::Result<()> {
    std::fs::remove_file(part)?;
    if let Some(directory) = part.parent() {
        let _ = std::fs::remove_dir(directory);
    }
    Ok(())
}

/// A record can only be opened as that of its own call.
fn owner(sandbox: &SandboxId, exec: u32) -> String {
    format!("audit output\0{sandbox}\0{exec}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(most: u64) -> (tempfile::TempDir, Outputs) {
        let state = tempfile::tempdir().unwrap();
        let vault = Arc::new(Vault::open(&state.path().join("secrets.key")).unwrap());
        let outputs = Outputs::open(state.path(), vault, most).unwrap();
        (state, outputs)
    }

    #[test]
    fn an_output_opens_as_its_own_call_only_and_lies_sealed() {
        let (state, outputs) = place(1 << 20);
        let [one, two] = [1, 2].map(SandboxId::from_random);
        let first = outputs.keep(&one, 1, b"the first words");
        let second = outputs.keep(&one, 2, b"the second words");
        assert_eq!(outputs.read(&one, 1, &first).unwrap().unwrap(), b"the first words");
        assert_eq!(outputs.read(&one, 2, &second).unwrap().unwrap(), b"the second words");
        assert!(outputs.read(&one, 2, &first).is_err());
        assert_eq!(outputs.read(&two, 1, &first), Ok(None));
        let path = state.path().join("audit/outputs").join(one.as_str()).join("1");
        let bytes = std::fs::read(&path).unwrap();
        assert!(!bytes.windows(5).any(|window| window == b"words"));
        // One byte of the record is changed, or its end cut off.
        let mut changed = bytes.clone();
        changed[30] ^= 1;
        std::fs::write(&path, &changed).unwrap();
        assert!(outputs.read(&one, 1, &first).unwrap_err().contains("signed"));
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        assert!(outputs.read(&one, 2, &second).unwrap_err().contains("cut off"));
        assert!(outputs.read(&one, 1, &first).unwrap().is_some());
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many() {
        let (state, outputs) = place(100_000);
        let ids: Vec<SandboxId> = (0..12).map(SandboxId::from_random).collect();
        let kept: Vec<KeptOutput> = ids.iter().map(|id| outputs.keep(id, 1, &[7; 10_000])).collect();
        assert!(outputs.is_too_much());
        for (age, id) in ids.iter().rev().enumerate() {
            let file = File::open(state.path().join("audit/outputs").join(id.as_str()).join("1")).unwrap();
            file.set_modified(SystemTime::now() - std::time::Duration::from_secs(age as u64 * 60)).unwrap();
        }
        outputs.make_room();
        assert!(!outputs.is_too_much());
        assert_eq!(outputs.read(&ids[0], 1, &kept[0]), Ok(None));
        assert!(outputs.read(&ids[11], 1, &kept[11]).unwrap().is_some());
        // A later output does not take the place of a removed one.
        let later = outputs.keep(&ids[0], 2, b"later");
        assert_eq!(outputs.read(&ids[0], 1, &kept[0]), Ok(None));
        assert!(outputs.read(&ids[0], 2, &later).unwrap().is_some());
        // A new instance counts the same, and outputs without a timeline go.
        let vault = Arc::new(Vault::open(&state.path().join("secrets.key")).unwrap());
        let again = Outputs::open(state.path(), vault, 100_000).unwrap();
        assert_eq!(again.total.load(Ordering::Relaxed), outputs.total.load(Ordering::Relaxed));
        again.sweep(|id| *id == ids[11]);
        assert_eq!(again.all().len(), 1);
        assert_eq!(again.total.load(Ordering::Relaxed), again.all()[0].bytes);
    }

    #[test]
    fn one_sandbox_has_its_share_and_a_new_server_knows_it() {
        let (state, outputs) = place(1 << 30);
        let id = SandboxId::from_random(1);
        let piece = vec![7; 1 << 20];
        let kept = (1..20).filter(|exec| outputs.keep(&id, *exec, &piece) != KeptOutput::Full).count();
        assert_eq!(kept, 15);
        let vault = Arc::new(Vault::open(&state.path().join("secrets.key")).unwrap());
        let again = Outputs::open(state.path(), vault, 1 << 30).unwrap();
        assert_eq!(again.keep(&id, 20, &piece), KeptOutput::Full);
        assert!(matches!(again.keep(&id, 21, b"short"), KeptOutput::Kept { part: 20, .. }));
        assert!(matches!(again.keep(&SandboxId::from_random(2), 1, &piece), KeptOutput::Kept { .. }));
    }

    #[test]
    fn a_server_that_keeps_none_writes_none() {
        let (state, outputs) = place(0);
        assert_eq!(outputs.keep(&SandboxId::from_random(1), 1, b"words"), KeptOutput::Off);
        assert_eq!(std::fs::read_dir(state.path().join("audit/outputs")).unwrap().count(), 0);
    }
}
