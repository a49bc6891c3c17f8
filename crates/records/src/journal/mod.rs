//! The output of one exec: on disk, within a bound, with true offsets, and in the order in which it came.
//!
//! ```text
//! DIRECTORY/stdout   the head as it came, then a ring with the tail: as long as it fits, just the output
//! DIRECTORY/stderr
//! DIRECTORY/order    where both streams stood, after each change between them; bounded in the same manner
//! DIRECTORY/missing  ranges that could not be written
//! ```
//!
//! The tail is a ring, and not a file with holes punched behind the tail: a ring works on every file system and costs
//! no calls. No file is made before the first byte, and nothing is held in memory: appended bytes outlive the server.
//! Files are open only while they are written to: a sandbox has any number of execs that have ended.

mod error;
mod file;
mod layout;
mod missing;
mod order;
mod ordered;
mod reader;
mod recovery;
mod writer;

#[cfg(test)]
mod tests;

pub use error::JournalError;
pub use ordered::{Ordered, OrderedPiece};
pub use reader::{Follower, Piece};

pub use file::LazyFile;
use layout::Layout;
use missing::Missing;
use order::Position;
use paddock_model::api::StreamName;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use tokio::sync::watch;
use writer::Writer;

/// Cheap to clone; all clones are one journal.
#[derive(Clone)]
pub struct Journal(Arc<Shared>);

struct Shared {
    layout: Layout,
    stdout: LazyFile,
    stderr: LazyFile,
    order: LazyFile,
    lost: LazyFile,
    /// Only ranges of bytes that are not published yet are added.
    missing: RwLock<Missing>,
    writer: Mutex<Writer>,
    published: watch::Sender<Published>,
}

/// The facts that readers may rely on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Published {
    position: Position,
    /// The entries of the order. The last one may still grow: `position` is its content.
    entries: u64,
    finished: bool,
}

impl Journal {
    /// `limit` bytes are kept of each stream. Makes no file yet. The files of a killed server are mended, and their own
    /// limit stays in force.
    pub fn open(directory: &Path, limit: u64) -> Result<Journal, JournalError> {
        let file = |name| LazyFile::new(directory, name);
        let (stdout, stderr, order, lost) = (file("stdout"), file("stderr"), file("order"), file("missing"));
        let recovered = recovery::recover(limit, &stdout, &stderr, &order, &lost)?;
        let (published, _) = watch::channel(recovered.published);
        Ok(Journal(Arc::new(Shared {
            layout: recovered.layout,
            stdout,
            stderr,
            order,
            lost,
            missing: RwLock::new(recovered.missing),
            writer: Mutex::new(recovered.writer),
            published,
        })))
    }

    /// After an error the bytes are counted as missing, and the journal can be used on: an exec must not fail because
    /// of a full disk.
    pub fn append(&self, stream: StreamName, bytes: &[u8]) -> Result<(), JournalError> {
        self.writer().append(&self.0, stream, bytes)
    }

    /// Counts bytes that will never come.
    pub fn skip(&self, stream: StreamName, bytes: u64) -> Result<(), JournalError> {
        self.writer().skip(&self.0, stream, bytes)
    }

    /// Ends the journal: no more bytes come, and followers end.
    pub fn finish(&self) {
        // Entries that a full disk kept from being written are tried once more; readers of this process know them
        // anyway.
        let _ = self.writer().settle(&self.0);
        self.0.published.send_modify(|published| published.finished = true);
        self.rest();
    }

    /// Closes all descriptors; readers open the files again, and so does the next byte that comes.
    pub fn rest(&self) {
        let shared = &self.0;
        for file in [&shared.stdout, &shared.stderr, &shared.order, &shared.lost] {
            file.rest();
        }
    }

    /// Counts bytes as missing that had come before and are not in the files any more.
    pub fn had(&self, stdout: u64, stderr: u64) {
        let (now_stdout, now_stderr) = self.lengths();
        for (stream, lost) in [
            (StreamName::Stdout, stdout.saturating_sub(now_stdout)),
            (StreamName::Stderr, stderr.saturating_sub(now_stderr)),
        ] {
            // An error does no harm: the next opening of the journal finds the same loss again.
            let _ = self.skip(stream, lost);
        }
    }

    /// The number of bytes that came on (stdout, stderr), kept or not.
    pub fn lengths(&self) -> (u64, u64) {
        let position = self.0.published.borrow().position;
        (position.stdout, position.stderr)
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.0.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn data(&self, stream: StreamName) -> &LazyFile {
        match stream {
            StreamName::Stdout => &self.stdout,
            StreamName::Stderr => &self.stderr,
        }
    }
}
