//! One server per state directory, and per path of one, and a note of the server's phase: for clients that wait for it,
//! and for the next server.
//!
//! ```text
//! STATE/server.lock    locked; in it the process id, for people
//! STATE/server.note    process id, phase and addresses, one per line; the lock counts, the note only helps
//! ```

use super::StoreError;
use paddock_fences::{Claim, StateClaim};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A client that tests the lock holds it for a moment: 20 tries outlast that.
const TRIES: u32 = 20;
const BETWEEN_TRIES: Duration = Duration::from_millis(5);
/// The most bytes of a note: a reader takes no more of the file.
const LONGEST_NOTE: u64 = 16 << 10;
const NOTE: &str = "server.note";

/// The lock ends with the process, however it ends.
#[derive(Debug)]
pub struct ServerLock {
    // Dropped first, so that a server that waits for the file finds this claim free.
    _claim: StateClaim,
    path: PathBuf,
    /// The device and the number of the file, which tell it from another file at its path.
    identity: (u64, u64),
    _file: File,
    note: PathBuf,
}

/// The life of the server that has the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerPhase {
    Starting,
    Serving,
    /// The server was told to end, and finishes the work that is under way.
    Ending,
}

/// The server that has a state directory, by its note.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerHolder {
    pub process: Option<u32>,
    /// `None` in the note of an older server.
    pub phase: Option<ServerPhase>,
    /// The addresses that it listens at, for people.
    pub addresses: Vec<String>,
}

impl ServerPhase {
    const ALL: [ServerPhase; 3] = [ServerPhase::Starting, ServerPhase::Serving, ServerPhase::Ending];

    pub fn name(self) -> &'static str {
        match self {
            ServerPhase::Starting => "starting",
            ServerPhase::Serving => "serving",
            ServerPhase::Ending => "ending",
        }
    }
}

impl ServerLock {
    pub fn take(state: &Path) -> Result<ServerLock, StoreError> {
        let path = place(state);
        let failed = |source| StoreError::from_io(&path, source);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(failed)?;
        let mut tries = 0;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if tries < TRIES => std::thread::sleep(BETWEEN_TRIES),
                Err(TryLockError::WouldBlock) => {
                    return Err(StoreError::Locked { state: state.to_path_buf(), pid: process(&file) });
                }
                Err(TryLockError::Error(source)) => return Err(failed(source)),
            }
            tries += 1;
        }
        let claim = match StateClaim::take(state).map_err(failed)? {
            Claim::Taken(claim) => claim,
            Claim::Held { pid } => return Err(StoreError::Orphaned { state: state.to_path_buf(), pid }),
        };
        let identity = file.metadata().map(|found| (found.dev(), found.ino())).map_err(failed)?;
        // On a full disk the lock holds all the same, and the database reports the error.
        let _ = write(&file, &format!("{}\n", std::process::id()));
        let note = state.join(NOTE);
        let lock = ServerLock { _claim: claim, path, identity, _file: file, note };
        lock.note(ServerPhase::Starting, &[]);
        Ok(lock)
    }

    pub fn note(&self, phase: ServerPhase, addresses: &[String]) {
        let mut text = format!("{}\n{}\n", std::process::id(), phase.name());
        for address in addresses {
            text.extend([address.as_str(), "\n"]);
        }
        let open = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&self.note);
        // The note only helps: without it the lock still holds.
        let _ = open.and_then(|file| write(&file, &text));
    }

    /// True while the state directory is the one that was opened. An error of the disk counts as true: it says nothing
    /// about the directory.
    pub fn is_in_place(&self) -> bool {
        match std::fs::symlink_metadata(&self.path) {
            Ok(found) => (found.dev(), found.ino()) == self.identity,
            Err(error) => !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
        }
    }
}

fn write(mut file: &File, text: &str) -> std::io::Result<()> {
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    file.write_all(text.as_bytes())
}

impl ServerHolder {
    /// `None`: no server has this state directory.
    pub fn of(state: &Path) -> Option<ServerHolder> {
        let file = File::open(place(state)).ok()?;
        if !matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)) {
            return None;
        }
        let process = process(&file);
        let noted = File::open(state.join(NOTE)).ok().map(|note| text(&note)).unwrap_or_default();
        let mut lines = noted.lines();
        // A note with another process id is from an earlier server.
        let current = lines.next().and_then(|line| line.parse().ok()) == process;
        if !current {
            return Some(ServerHolder { process, ..ServerHolder::default() });
        }
        let word = lines.next().unwrap_or_default();
        let phase = ServerPhase::ALL.into_iter().find(|phase| phase.name() == word);
        Some(ServerHolder { process, phase, addresses: lines.map(str::to_string).collect() })
    }
}

fn place(state: &Path) -> PathBuf {
    state.join("server.lock")
}

fn process(file: &File) -> Option<u32> {
    text(file).trim().parse().ok()
}

fn text(mut file: &File) -> String {
    let mut bytes = Vec::new();
    let _ = file.seek(SeekFrom::Start(0)).and_then(|_| file.take(LONGEST_NOTE).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_says_what_the_holder_of_the_lock_does() {
        let state = tempfile::tempdir().expect("a directory");
        assert_eq!(ServerHolder::of(state.path()), None);
        let lock = ServerLock::take(state.path()).expect("free");
        let found = ServerHolder::of(state.path()).expect("held");
        assert_eq!((found.process, found.phase), (Some(std::process::id()), Some(ServerPhase::Starting)));
        lock.note(ServerPhase::Serving, &["unix:/run/a".into(), "http://127.0.0.1:1".into()]);
        let found = ServerHolder::of(state.path()).expect("held");
        assert_eq!(found.phase, Some(ServerPhase::Serving));
        assert_eq!(found.addresses, ["unix:/run/a", "http://127.0.0.1:1"]);
        lock.note(ServerPhase::Ending, &[]);
        assert_eq!(ServerHolder::of(state.path()).expect("held").addresses, [""; 0]);
        drop(lock);
        assert_eq!(ServerHolder::of(state.path()), None);
    }

    #[test]
    fn the_note_of_an_older_server_has_a_process_only() {
        let state = tempfile::tempdir().expect("a directory");
        let lock = ServerLock::take(state.path()).expect("free");
        std::fs::remove_file(state.path().join(NOTE)).expect("removes");
        let found = ServerHolder::of(state.path()).expect("held");
        assert_eq!((found.process, found.phase), (Some(std::process::id()), None));
        // And the note of another server does not count.
        std::fs::write(state.path().join(NOTE), "1\nending\n").expect("writes");
        assert_eq!(ServerHolder::of(state.path()).expect("held").phase, None);
        drop(lock);
    }
}
