//! Moves the content of the write-ahead log into the database, on a thread of its own: only that thread waits for the
//! disk.
//!
//! The usual checkpoint lets writers go on. SQLite begins the log anew only when a writer finds everything moved. Under
//! load there is always a write meanwhile, and the log would grow for as long as the load lasts. So a long log is cut
//! off while writers wait. Their wait is short: almost everything has been moved just before.
//!
//! Lock order: the writers' lock before the checkpointer's.

use rusqlite::Connection;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// A write is about two pages: the log is then around 4 MiB long.
const WRITES_PER_CHECKPOINT: u32 = 500;
/// Large records fill the log with fewer writes.
const BYTES_PER_CHECKPOINT: u64 = 4 << 20;
/// A longer log is cut off.
const LONG_LOG_BYTES: u64 = 16 << 20;
/// A writer that makes the log longer than this waits for the disk.
pub(super) const LONGEST_LOG_BYTES: u64 = 32 << 20;

pub struct Checkpointer {
    log: PathBuf,
    writes: AtomicU32,
    /// The length of the log when a checkpoint was last asked for.
    asked_at_bytes: AtomicU64,
    connection: Arc<Mutex<Connection>>,
    // None only while it is dropped.
    due: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    /// `connection` is the checkpointer's own; a writer holds `writer` while it writes.
    pub fn start(
        log: PathBuf,
        connection: Connection,
        writer: Arc<Mutex<Connection>>,
    ) -> io::Result<Checkpointer> {
        let (due, asked) = sync_channel(1);
        // A command that reads beside the server may be in the middle of the log: then it is cut off another time.
        let _ = connection.busy_timeout(Duration::ZERO);
        let connection = Arc::new(Mutex::new(connection));
        let checkpoints = Checkpoints { log: log.clone(), connection: connection.clone(), writer };
        let thread = Builder::new().name("store".into()).spawn(move || checkpoints.run(&asked))?;
        Ok(Checkpointer {
            log,
            writes: AtomicU32::new(0),
            asked_at_bytes: AtomicU64::new(0),
            connection,
            due: Some(due),
            thread: Some(thread),
        })
    }

    /// Precondition: the caller holds the writers' lock.
    pub fn written(&self) {
        let many =
            self.writes.fetch_add(1, Ordering::Relaxed) % WRITES_PER_CHECKPOINT == WRITES_PER_CHECKPOINT - 1;
        let mut bytes = length(&self.log);
        if bytes > LONGEST_LOG_BYTES {
            cut_off(&self.connection);
            bytes = length(&self.log);
        }
        let asked_at = self.asked_at_bytes.load(Ordering::Relaxed);
        // A log that was cut off counts from its beginning.
        let grown = bytes.saturating_sub(if bytes < asked_at { 0 } else { asked_at });
        if !many && grown < BYTES_PER_CHECKPOINT {
            return;
        }
        self.asked_at_bytes.store(bytes, Ordering::Relaxed);
        if let Some(due) = &self.due {
            // A full channel means that a checkpoint is due already.
            let _ = due.try_send(());
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.due = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Checkpoints {
    log: PathBuf,
    connection: Arc<Mutex<Connection>>,
    writer: Arc<Mutex<Connection>>,
}

impl Checkpoints {
    fn run(&self, asked: &Receiver<()>) {
        while asked.recv().is_ok() {
            checkpoint(&self.connection, "PRAGMA wal_checkpoint(PASSIVE)");
            if length(&self.log) > LONG_LOG_BYTES {
                let _no_writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
                cut_off(&self.connection);
            }
        }
    }
}

/// Precondition: the caller holds the writers' lock.
fn cut_off(connection: &Mutex<Connection>) {
    checkpoint(connection, "PRAGMA wal_checkpoint(TRUNCATE)");
}

/// A failure leaves the log longer, which the next checkpoint makes good; a damaged database is reported to its
/// readers.
fn checkpoint(connection: &Mutex<Connection>, how: &str) {
    let connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = connection.query_row(how, [], |_| Ok(()));
}

/// 0 if there is no log yet.
fn length(log: &Path) -> u64 {
    std::fs::metadata(log).map_or(0, |found| found.len())
}
