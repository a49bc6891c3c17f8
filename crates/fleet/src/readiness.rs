//! Checks that a sandbox could be created now. Memory is watched all the time ([`super::pressure`]). Each other part of
//! the check takes a little of a resource that every create needs, and gives it back: descriptors, processes, room in
//! the state directory and in the storage, the database.

use super::{Fleet, FleetError, Kind};
use paddock_records::store::Store;
use paddock_storage::Storage;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Requests within this time get the same answer again.
const ANSWER_KEPT_FOR: Duration = Duration::from_secs(1);
/// A disk that hangs must not make callers hang.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);
/// About the peak use of one create.
const DESCRIPTORS: usize = 32;
const TASKS: usize = 4;
const PROBE_BYTES: usize = 256 << 10;
const PROBE_STACK: usize = 64 << 10;
const PROBE_FILE: &str = "ready.probe";

#[derive(Default)]
pub(super) struct Readiness {
    last: tokio::sync::Mutex<Option<(Instant, Result<(), FleetError>)>>,
    /// True while a check is under way, also one that no caller waits for any more.
    under_way: Arc<AtomicBool>,
}

impl Fleet {
    /// Tried at most once a second, however often it is called.
    pub async fn can_create(&self) -> Result<(), FleetError> {
        self.ready()?;
        self.unless_short_of_memory()?;
        let readiness = &self.0.readiness;
        let mut last = readiness.last.lock().await;
        if let Some((_, answer)) = last.as_ref().filter(|(at, _)| at.elapsed() < ANSWER_KEPT_FOR) {
            return answer.clone();
        }
        let answer = self.try_parts().await;
        if let Err(error) = &answer {
            tracing::warn!(code = error.code, message = %error.message, "no sandbox could be created now");
        }
        *last = Some((Instant::now(), answer.clone()));
        answer
    }

    async fn try_parts(&self) -> Result<(), FleetError> {
        let hangs = || {
            FleetError::new(
                Kind::Unavailable,
                "storage_failed",
                "the disk of the state directory does not answer",
            )
            .hint("look at the host's disk, and at the kernel's log")
        };
        let under_way = self.0.readiness.under_way.clone();
        if under_way.swap(true, Ordering::AcqRel) {
            return Err(hangs());
        }
        let inner = self.0.clone();
        let check = tokio::task::spawn_blocking(move || {
            let answer = try_all(&inner.options.state, &inner.storage, &inner.store);
            drop(inner);
            under_way.store(false, Ordering::Release);
            answer
        });
        match tokio::time::timeout(CHECK_TIMEOUT, check).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => {
                self.0.readiness.under_way.store(false, Ordering::Release);
                Err(FleetError::internal(&error))
            }
            Err(_) => Err(hangs()),
        }
    }
}

fn try_all(state: &Path, storage: &Storage, store: &Store) -> Result<(), FleetError> {
    FleetError::unless_descriptors_are_left()?;
    let descriptors = try_descriptors().map_err(|error| {
        FleetError::new(
            Kind::Unavailable,
            "too_many_open_files",
            format!("the server can open no more files: {error}"),
        )
        .hint("raise its limit of open files (LimitNOFILE of a unit, `ulimit -n`), or end sandboxes")
    })?;
    drop(descriptors);
    try_tasks().map_err(|error| {
        FleetError::new(
            Kind::Unavailable,
            "too_many_processes",
            format!("no more processes can be started: {error}"),
        )
        .hint("raise the limit of processes (TasksMax of a unit, `ulimit -u`), or end sandboxes")
    })?;
    let mut places = vec![state.to_path_buf()];
    places.extend(storage.file_system().map(Path::to_path_buf));
    for place in &places {
        try_writing(place).map_err(|error| cannot_write(place, &error))?;
    }
    store.setting("ready").map(drop).map_err(FleetError::from)
}

/// Opens all at one time, as a create needs them.
fn try_descriptors() -> io::Result<Vec<File>> {
    (0..DESCRIPTORS).map(|_| File::open("/dev/null")).collect()
}

/// A thread counts against the limits of processes as a process does, and costs less.
fn try_tasks() -> io::Result<()> {
    let mut waiting = Vec::new();
    let mut failure = None;
    for _ in 0..TASKS {
        let (release, released) = mpsc::channel::<()>();
        let builder = std::thread::Builder::new().name("ready-probe".into()).stack_size(PROBE_STACK);
        let wait = move || {
            let _ = released.recv();
        };
        match builder.spawn(wait) {
            Ok(thread) => waiting.push((release, thread)),
            Err(error) => {
                failure = Some(error);
                break;
            }
        }
    }
    for (release, thread) in waiting {
        drop(release);
        let _ = thread.join();
    }
    failure.map_or(Ok(()), Err)
}

fn try_writing(directory: &Path) -> io::Result<()> {
    let path: PathBuf = directory.join(PROBE_FILE);
    let tried = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(&path)
        .and_then(|mut file| file.write_all(&vec![0; PROBE_BYTES]));
    match (tried, std::fs::remove_file(&path)) {
        (Ok(()), removed) => removed,
        (tried, _) => tried,
    }
}

fn cannot_write(place: &Path, error: &io::Error) -> FleetError {
    use io::ErrorKind;
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            FleetError::new(Kind::Unavailable, "disk_full", "there is no room left for new sandboxes").hint(
                "free some space on the state directory's disk; `paddock top` shows what sandboxes hold",
            )
        }
        _ => FleetError::new(
            Kind::Unavailable,
            "storage_failed",
            format!("`{}` cannot be written: {error}", place.display()),
        )
        .hint("make it writable again"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_tried_is_undone() {
        let directory = tempfile::tempdir().expect("a directory");
        try_writing(directory.path()).expect("writable");
        assert_eq!(std::fs::read_dir(directory.path()).expect("reads").count(), 0);
        assert_eq!(try_descriptors().expect("descriptors").len(), DESCRIPTORS);
        try_tasks().expect("threads");
    }

    #[test]
    fn a_directory_that_is_gone_is_not_ready() {
        let error = try_writing(Path::new("/nonexistent/state")).expect_err("not there");
        assert_eq!(cannot_write(Path::new("/nonexistent/state"), &error).code, "storage_failed");
        let full = io::Error::from_raw_os_error(libc::ENOSPC);
        assert_eq!(cannot_write(Path::new("/s"), &full).code, "disk_full");
    }
}
