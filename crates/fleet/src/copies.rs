//! A copy of every record beside the files of its sandbox or snapshot, in case that the database is damaged and moved
//! aside. A server that finds an empty database takes over the sandboxes of the copies, and removes nothing.

use super::record::Record;
use super::snapshots::SnapshotRecord;
use super::{Fleet, FleetError};
use paddock_model::SandboxId;
use paddock_records::store::{SandboxRow, SnapshotRow};
use serde::de::DeserializeOwned;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const NAME: &str = "record.json";

/// Writes the body of a sandbox's record; `None` for a sandbox that has ended, which is not taken over again. Never
/// fails: without the copy the database is still whole.
pub fn keep(state: &Path, sandbox: &SandboxId, body: Option<&str>) {
    let path = state.join("sandboxes").join(sandbox.as_str()).join(NAME);
    let kept = match body {
        Some(body) => write(&path, body),
        None => remove(&path),
    };
    if let Err(error) = kept {
        tracing::warn!(%sandbox, %error, "the copy of its record could not be written");
    }
}

pub fn keep_snapshot(state: &Path, id: &str, body: &str) {
    if let Err(error) = write(&snapshot(state, id), body) {
        tracing::warn!(snapshot = id, %error, "the copy of its record could not be written");
    }
}

pub fn remove_snapshot(state: &Path, id: &str) {
    let _ = remove(&snapshot(state, id));
}

impl Fleet {
    /// Fills an empty database from the copies.
    pub(super) fn take_copies(&self) -> Result<(), FleetError> {
        let inner = &self.0;
        let state = &inner.options.state;
        if !inner.store.is_empty()? {
            return Ok(());
        }
        for (record, body) in all::<Record>(&state.join("sandboxes"), |entry| entry.join(NAME)) {
            tracing::warn!(sandbox = %record.id, "taken over from the copy of its record");
            inner.store.insert_sandbox(&SandboxRow {
                id: record.id.to_string(),
                tenant: record.tenant,
                name: record.name,
                state: record.state,
                created_ms: record.created_at_ms,
                ended_ms: None,
                body,
            })?;
        }
        for (record, body) in all::<SnapshotRecord>(&state.join("snapshots"), |entry| entry) {
            tracing::warn!(snapshot = %record.id, "taken over from the copy of its record");
            inner.store.insert_snapshot(&SnapshotRow {
                id: record.id,
                tenant: record.tenant,
                name: record.name,
                created_ms: record.created_at_ms,
                body,
            })?;
        }
        Ok(())
    }
}

fn all<T: DeserializeOwned>(directory: &Path, file: impl Fn(PathBuf) -> PathBuf) -> Vec<(T, String)> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let read = |path: PathBuf| {
        // Archives lie beside the records of snapshots.
        path.extension().filter(|extension| *extension == "json")?;
        let body = std::fs::read_to_string(path).ok()?;
        Some((serde_json::from_str(&body).ok()?, body))
    };
    entries.filter_map(|entry| read(file(entry.path()))).collect()
}

fn snapshot(state: &Path, id: &str) -> PathBuf {
    state.join("snapshots").join(format!("{id}.json"))
}

/// A reader sees the old file or the new one, never a part.
fn write(path: &Path, body: &str) -> std::io::Result<()> {
    let new = path.with_extension("new");
    let open = || std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new);
    let mut file = match (open(), path.parent()) {
        (Err(error), Some(parent)) if error.kind() == std::io::ErrorKind::NotFound => {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
            open()?
        }
        (opened, _) => opened?,
    };
    file.write_all(body.as_bytes())?;
    std::fs::rename(new, path)
}

fn remove(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
