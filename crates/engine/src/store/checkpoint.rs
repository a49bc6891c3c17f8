//! Moves what the write-ahead log has gathered into the database, away from callers: this is where the disk is waited for.

use rusqlite::Connection;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

/// About two pages each: the log stays around 4 MiB.
const WRITES_PER_CHECKPOINT: u32 = 500;

pub struct Checkpointer {
    writes: AtomicU32,
    // None only while it is dropped.
    due: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    pub fn start(connection: Connection) -> io::Result<Checkpointer> {
        let (due, asked) = sync_channel(1);
        let thread = Builder::new().name("store".into()).spawn(move || run(&connection, &asked))?;
        Ok(Checkpointer { writes: AtomicU32::new(0), due: Some(due), thread: Some(thread) })
    }

    pub fn written(&self) {
        if self.writes.fetch_add(1, Ordering::Relaxed) % WRITES_PER_CHECKPOINT == WRITES_PER_CHECKPOINT - 1
            && let Some(due) = &self.due
        {
            // Full means that one is due already.
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

fn run(connection: &Connection, asked: &Receiver<()>) {
    while asked.recv().is_ok() {
        // Passive: writers go on. A failure leaves the log longer, which the next one makes good; a damaged database is
        // reported to whoever reads it.
        let _ = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
    }
}
