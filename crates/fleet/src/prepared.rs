//! Files of a sandbox that are made before a caller has it: its timeline, and the place of its first call's output.
//! Making them takes longer than writing to them.
//!
//! A timeline with only its opening entry tells them from those of sandboxes that a caller had.

use paddock_model::SandboxId;
use paddock_records::audit::{Audit, AuditError};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The interpreter's own exec is the first.
const FIRST_CALL: &str = "execs/2";
/// The files of a call that prints. An empty file counts as none.
const FILES: [&str; 3] = ["stdout", "order", "control"];

pub fn make(state: &Path, audit: &Audit, sandbox: &SandboxId) -> Result<(), AuditError> {
    let directory = directory(state, sandbox.as_str());
    let failed = |source| AuditError::io(&directory, source);
    let call = directory.join(FIRST_CALL);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&call).map_err(failed)?;
    for name in FILES {
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600).open(call.join(name)).map_err(failed)?;
    }
    audit.append(sandbox, &[])
}

pub fn remove(state: &Path, audit: &Audit, sandbox: &SandboxId) {
    let directory = directory(state, sandbox.as_str());
    let removed = match std::fs::remove_dir_all(&directory) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(AuditError::io(&directory, error)),
        _ => audit.remove(sandbox),
    };
    if let Err(error) = removed {
        tracing::warn!(%sandbox, %error, "what was made for it beforehand could not be removed");
    }
}

/// Removes the prepared files of a killed server's sandboxes that no caller got.
pub fn sweep(state: &Path, audit: &Audit, is_recorded: impl Fn(&SandboxId) -> bool) {
    for entry in std::fs::read_dir(state.join("sandboxes")).into_iter().flatten().flatten() {
        let name = entry.file_name().to_str().map(str::to_string);
        let Some(sandbox) = name.and_then(|name| SandboxId::try_from(name).ok()) else { continue };
        if !is_recorded(&sandbox) && audit.is_only_opened(&sandbox) {
            remove(state, audit, &sandbox);
        }
    }
}

fn directory(state: &Path, sandbox: &str) -> PathBuf {
    state.join("sandboxes").join(sandbox)
}

#[cfg(test)]
mod tests {
    use super::*;
    use paddock_model::api::StreamName;
    use paddock_records::audit::{AuditActor, AuditEntry, AuditEvent};
    use paddock_records::journal::Journal;

    #[test]
    fn only_what_nobody_got_is_swept() {
        let state = tempfile::tempdir().unwrap();
        let audit = Audit::open(state.path()).unwrap();
        let [ready, given, ended] = [1, 2, 3].map(SandboxId::from_random);
        for sandbox in [&ready, &given, &ended] {
            make(state.path(), &audit, sandbox).unwrap();
        }
        // A database that was lost does not know it any more.
        let event = AuditEvent::Lifecycle { change: "created".into(), detail: None };
        audit.append(&ended, &[AuditEntry::new(AuditActor::server(), event)]).unwrap();
        let call = directory(state.path(), given.as_str()).join(FIRST_CALL);
        Journal::open(&call, 1000).unwrap().append(StreamName::Stdout, b"x").unwrap();
        sweep(state.path(), &audit, |sandbox| *sandbox == given);
        assert!(!directory(state.path(), ready.as_str()).exists() && !audit.path(&ready).exists());
        for kept in [&given, &ended] {
            assert!(audit.path(kept).exists() && directory(state.path(), kept.as_str()).exists());
        }
        assert_eq!(Journal::open(&call, 1000).unwrap().lengths(), (1, 0));
    }
}
