//! Files of the host that keep the files of sandboxes if no disk keeps them, and lists of their content.
//!
//! Each appears whole or not at all: it is written beside its place, under a name that ends with `.new`. The next
//! server removes such remains of a killed one.

use super::changes::{CHANGES, LISTED};
use super::record::Record;
use super::snapshots::SnapshotRecord;
use super::{Fleet, FleetError};
use paddock_engine::Sandbox as Inside;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Result};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The bytes of one write.
const PIECE: usize = 128 * 1024;
/// The end of an unfinished file's name.
const UNFINISHED: &str = ".new";

/// How long a file must last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lasts {
    /// A killed server loses nothing of it, but a loss of power may.
    UntilPowerIsLost,
    AlsoThen,
}

/// Writes all of the sandbox's own disk into a file of the host, which appears whole or not at all.
pub(super) async fn export(
    inside: &Inside,
    archive: &Path,
    lasts: Lasts,
) -> std::result::Result<(), FleetError> {
    let new = unfinished(archive);
    let exported = export_to(inside, archive, &new, lasts).await;
    if exported.is_err() {
        let _ = std::fs::remove_file(&new);
    }
    exported
}

async fn export_to(
    inside: &Inside,
    archive: &Path,
    new: &Path,
    lasts: Lasts,
) -> std::result::Result<(), FleetError> {
    let failed = |error: std::io::Error| FleetError::storage(&error);
    let mut stream = inside.disk().export().await?;
    let mut file = tokio::fs::File::from_std(create(new).map_err(failed)?);
    while let Some(bytes) = stream.next().await? {
        file.write_all(&bytes).await.map_err(failed)?;
    }
    file.flush().await.map_err(failed)?;
    let file = file.into_std().await;
    let (new, archive) = (new.to_path_buf(), archive.to_path_buf());
    super::blocking(move || put_in_place(&file, &new, &archive, lasts).map_err(failed)).await
}

/// Unpacks the file of `export` into a sandbox in which nothing has run yet. Returns the moment from which changes are
/// its own.
pub(super) async fn import(inside: &Inside, archive: &Path) -> std::result::Result<u64, FleetError> {
    let failed = |error: std::io::Error| FleetError::storage(&error);
    let mut file = tokio::fs::File::open(archive).await.map_err(failed)?;
    let mut upload = inside.disk().import()?;
    let mut buffer = vec![0; PIECE];
    loop {
        let count = file.read(&mut buffer).await.map_err(failed)?;
        if count == 0 {
            return Ok(upload.finish().await?);
        }
        upload.write(&buffer[..count]).await?;
    }
}

pub(super) fn copy(from: &Path, to: &Path, lasts: Lasts) -> Result<()> {
    write(to, &mut File::open(from)?, lasts)
}

pub(super) fn write(path: &Path, content: &mut impl Read, lasts: Lasts) -> Result<()> {
    let new = unfinished(path);
    let written = create(&new).and_then(|mut file| {
        std::io::copy(content, &mut file)?;
        put_in_place(&file, &new, path, lasts)
    });
    written.inspect_err(|_| drop(std::fs::remove_file(&new)))
}

fn create(path: &Path) -> Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true).mode(0o600);
    match (options.open(path), path.parent()) {
        (Err(error), Some(parent)) if error.kind() == std::io::ErrorKind::NotFound => {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
            options.open(path)
        }
        (opened, _) => opened,
    }
}

fn put_in_place(file: &File, new: &Path, path: &Path, lasts: Lasts) -> Result<()> {
    if lasts == Lasts::AlsoThen {
        file.sync_all()?;
    }
    std::fs::rename(new, path)?;
    match path.parent().filter(|_| lasts == Lasts::AlsoThen) {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

/// Flushes every file below a directory of the engine's own to the host's disk.
pub(super) fn flush_directory(directory: &Path) -> Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        match entry.file_type()? {
            kind if kind.is_dir() => flush_directory(&entry.path())?,
            kind if kind.is_file() => File::open(entry.path())?.sync_all()?,
            _ => {}
        }
    }
    File::open(directory)?.sync_all()
}

fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(UNFINISHED);
    name.into()
}

/// The files that records of living sandboxes and of snapshots name. All others can be removed.
#[derive(Default)]
pub(super) struct Named {
    /// Sandboxes that are hibernated, or were about to be.
    pub sleeping: BTreeSet<String>,
    pub living: BTreeSet<String>,
    /// Snapshots, and files that sandboxes began with.
    pub kept: BTreeSet<String>,
    pub snapshots: BTreeSet<String>,
    pub baselines: BTreeSet<String>,
}

impl Named {
    pub fn add_sandbox(&mut self, record: &Record, sleeps: bool) {
        self.living.insert(record.id.to_string());
        self.kept.extend(record.base.clone());
        self.baselines.extend(record.baseline.clone());
        if sleeps {
            self.sleeping.insert(record.id.to_string());
        }
    }

    pub fn add_snapshot(&mut self, snapshot: &SnapshotRecord) {
        self.kept.insert(snapshot.id.clone());
        self.snapshots.insert(snapshot.id.clone());
        self.baselines.extend(snapshot.baseline.clone());
    }
}

impl Fleet {
    /// Removes archives and lists that a killed server left half written, or that no record names.
    pub(super) fn sweep_archives(&self, named: &Named) {
        let state = &self.0.options.state;
        sweep(&state.join("hibernated"), |name, kind| match kind {
            CHANGES => named.living.contains(name),
            "tar" | LISTED => named.sleeping.contains(name),
            _ => false,
        });
        sweep(&state.join("snapshots"), |name, kind| match kind {
            "tar" => named.kept.contains(name),
            "json" => named.snapshots.contains(name),
            _ => false,
        });
        sweep(&state.join("baselines"), |name, kind| named.baselines.contains(&format!("{name}.{kind}")));
    }
}

/// `keep` gets a name and its ending.
fn sweep(directory: &Path, keep: impl Fn(&str, &str) -> bool) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name.to_str().and_then(|name| name.rsplit_once('.')).is_some_and(|(name, kind)| keep(name, kind)) {
            continue;
        }
        match std::fs::remove_file(entry.path()) {
            Ok(()) => tracing::info!(file = %entry.path().display(), "removed what a killed server left"),
            Err(error) => {
                tracing::warn!(file = %entry.path().display(), %error, "what was left could not be removed");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_whole_and_leaves_nothing_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("below/one.tar");
        write(&path, &mut &b"first"[..], Lasts::AlsoThen).unwrap();
        copy(&path, &directory.path().join("two.tar"), Lasts::UntilPowerIsLost).unwrap();
        assert_eq!(std::fs::read(directory.path().join("two.tar")).unwrap(), b"first");
        assert!(copy(&directory.path().join("none"), &path, Lasts::AlsoThen).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"first");
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn only_what_is_named_stays() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["sb-1.tar", "sb-1.tar.new", "sb-2.tar", "sb-1.new", "bare"] {
            std::fs::write(directory.path().join(name), name).unwrap();
        }
        sweep(directory.path(), |name, kind| name == "sb-1" && kind == "tar");
        let left: Vec<_> =
            std::fs::read_dir(directory.path()).unwrap().flatten().map(|e| e.file_name()).collect();
        assert_eq!(left, ["sb-1.tar"]);
    }
}
