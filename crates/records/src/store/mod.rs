//! The server's records: one SQLite database in the state directory, used by one server at a time.
//!
//! ```text
//! STATE/server.lock    held for the life of the server, with its process id in it
//! STATE/server.note    what that server does
//! STATE/paddock.db     records (with -wal and -shm beside it)
//! ```
//!
//! Bodies are the caller's own JSON; a value that queries look for has a column of its own. Calls are synchronous and
//! quick enough for asynchronous code: a write goes to the write-ahead log without a flush, and a thread does the
//! flushing. The log is bounded: writers that are faster than the disk wait for it.

mod checkpoint;
mod create_places;
mod cursor;
mod error;
mod execs;
mod idempotency;
mod jobs;
mod living;
mod lock;
mod past_calls;
mod resources;
mod sandboxes;
mod schema;
mod secrets;
mod settings;
mod snapshots;
mod templates;
mod tenants;
mod tokens;

#[cfg(test)]
mod tests;

pub use create_places::CreatePlaces;
pub use cursor::Cursor;
pub use error::StoreError;
pub use idempotency::{Begun, Unfinished};
pub use jobs::{JobChange, JobInserted, JobKey, JobRow, TaskRow};
pub use living::bodies_of_the_living;
pub use lock::{ServerHolder, ServerLock, ServerPhase};
pub use resources::ResourceRow;
pub use sandboxes::{SandboxQuery, SandboxRow};
pub use secrets::SecretRow;
pub use snapshots::{SnapshotFilter, SnapshotRow};
pub use templates::{TemplateBuildRow, TemplateRow};

use checkpoint::Checkpointer;
use rusqlite::{Connection, OpenFlags};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub struct Store {
    path: PathBuf,
    connection: Arc<Mutex<Connection>>,
    checkpointer: Checkpointer,
    // Dropped last, so that no other server opens the database before it is closed.
    lock: ServerLock,
}

/// A part of the rows; `next_cursor` leads to the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    pub rows: Vec<T>,
    pub next_cursor: Option<String>,
}

impl<T> Page<T> {
    /// Makes a page of up to `limit` + 1 rows: the one more says that there is a next page.
    fn cut(mut rows: Vec<T>, limit: usize, place: impl Fn(&T) -> Cursor) -> Page<T> {
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next_cursor = rows.last().filter(|_| more).map(|row| place(row).text());
        Page { rows, next_cursor }
    }
}

impl Store {
    /// Makes the state directory and the database if there are none, and brings an older database up to date.
    pub fn open(state: &Path) -> Result<Store, StoreError> {
        let failed = |source| StoreError::from_io(state, source);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(state).map_err(failed)?;
        Store::open_locked(state, ServerLock::take(state)?)
    }

    /// The same for a caller that has the lock already.
    pub fn open_locked(state: &Path, lock: ServerLock) -> Result<Store, StoreError> {
        let path = state.join("paddock.db");
        // SQLite gives its other files the mode of this one.
        std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(&path)
            .map_err(|source| StoreError::from_io(&path, source))?;
        prepare_index(state);
        let mut connection = connect(&path)?;
        schema::prepare(&path, &mut connection)?;
        let connection = Arc::new(Mutex::new(connection));
        let log = state.join("paddock.db-wal");
        let checkpointer = Checkpointer::start(log, connect(&path)?, connection.clone())
            .map_err(|source| StoreError::Unusable { path: path.clone(), source })?;
        Ok(Store { path, connection, checkpointer, lock })
    }

    /// Notes the server's phase, for clients and for the next server.
    pub fn note_phase(&self, phase: ServerPhase, addresses: &[String]) {
        self.lock.note(phase, addresses);
    }

    /// Flushes: every earlier write is on the disk afterwards. Blocks for as long as the disk takes.
    pub fn flush(&self) -> Result<(), StoreError> {
        let mut log = self.path.clone().into_os_string();
        log.push("-wal");
        let failed = |source| StoreError::from_io(&self.path, source);
        match std::fs::File::open(log) {
            Ok(log) => log.sync_data().map_err(failed),
            // Records that are not in a log are in the database, which was flushed.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(failed(error)),
        }
    }

    fn read<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        work(&self.connection()).map_err(|source| StoreError::from_sql(&self.path, source))
    }

    fn write<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        self.check_in_place()?;
        let connection = self.connection();
        let done = work(&connection).map_err(|source| StoreError::from_sql(&self.path, source))?;
        self.checkpointer.written();
        Ok(done)
    }

    /// Does all of `work` or nothing of it.
    fn transaction<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        self.check_in_place()?;
        let mut connection = self.connection();
        let done = connection.transaction().and_then(|transaction| {
            let done = work(&transaction)?;
            transaction.commit()?;
            Ok(done)
        });
        self.checkpointer.written();
        done.map_err(|source| StoreError::from_sql(&self.path, source))
    }

    /// A write to a removed directory would be lost with the server, and so it is refused.
    pub fn check_in_place(&self) -> Result<(), StoreError> {
        if self.lock.is_in_place() {
            return Ok(());
        }
        let state = self.path.parent().unwrap_or(&self.path).to_path_buf();
        Err(StoreError::Removed { state })
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// SQLite maps the index of its log. On btrfs a full disk refuses a write through such a mapping, and the kernel kills
/// the process for it (SIGBUS), unless the file is marked NOCOW. The mark has to be set before the first byte.
fn prepare_index(state: &Path) {
    let index = state.join("paddock.db-shm");
    let new = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(index);
    if let Ok(file) = new {
        let _ = paddock_storage::keep_from_being_copied(&file);
    }
}

fn connect(path: &Path) -> Result<Connection, StoreError> {
    let failed = |source| StoreError::from_sql(path, source);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    connection.busy_timeout(Duration::from_secs(5)).map_err(failed)?;
    connection.set_prepared_statement_cache_capacity(64);
    connection.pragma_update(None, "journal_mode", "WAL").map_err(failed)?;
    connection.pragma_update(None, "synchronous", "NORMAL").map_err(failed)?;
    connection.pragma_update(None, "wal_autocheckpoint", 0).map_err(failed)?;
    // A log that begins anew keeps no more room than this.
    connection.pragma_update(None, "journal_size_limit", 1 << 20).map_err(failed)?;
    connection.pragma_update(None, "cell_size_check", true).map_err(failed)?;
    Ok(connection)
}
