//! A file that is made when the first byte goes into it, and that holds a descriptor only while it is written to.

use super::JournalError;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub struct LazyFile {
    path: PathBuf,
    state: Mutex<State>,
}

enum State {
    /// The file has not been written to.
    Absent,
    Open(Arc<File>),
    /// The file exists, and is opened for each read.
    Resting,
}

impl LazyFile {
    pub fn new(directory: &Path, name: &str) -> LazyFile {
        LazyFile { path: directory.join(name), state: Mutex::new(State::Absent) }
    }

    /// The file's length; `None` if it does not exist.
    pub fn open_existing(&self) -> Result<Option<u64>, JournalError> {
        match OpenOptions::new().read(true).write(true).open(&self.path) {
            Ok(file) => {
                let length = file.metadata().map_err(|source| self.failed(source))?.len();
                *self.state() = State::Open(Arc::new(file));
                Ok(Some(length))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(self.failed(source)),
        }
    }

    /// Closes the descriptor until the next write.
    pub fn rest(&self) {
        let mut state = self.state();
        if let State::Open(_) = *state {
            *state = State::Resting;
        }
    }

    /// Precondition: one writer at a time.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), JournalError> {
        let file = {
            let mut state = self.state();
            match &*state {
                State::Open(file) => file.clone(),
                State::Absent | State::Resting => {
                    let file = Arc::new(self.make().map_err(|source| self.failed(source))?);
                    *state = State::Open(file.clone());
                    file
                }
            }
        };
        file.write_all_at(bytes, offset).map_err(|source| self.failed(source))
    }

    /// The bytes in this range; fewer at the file's end.
    pub fn read_at(&self, offset: u64, length: usize) -> Result<Vec<u8>, JournalError> {
        let Some(file) = self.readable().map_err(|source| self.failed(source))? else {
            return Ok(Vec::new());
        };
        let mut bytes = vec![0; length];
        let mut filled = 0;
        while filled < length {
            match file.read_at(&mut bytes[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(self.failed(source)),
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }

    fn readable(&self) -> io::Result<Option<Arc<File>>> {
        match &*self.state() {
            State::Absent => return Ok(None),
            State::Open(file) => return Ok(Some(file.clone())),
            State::Resting => {}
        }
        match File::open(&self.path) {
            Ok(file) => Ok(Some(Arc::new(file))),
            // Another process removed the file: nothing of it can be read.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn make(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        match options.open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if let Some(directory) = self.path.parent() {
                    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
                }
                options.open(&self.path)
            }
            made => made,
        }
    }

    fn failed(&self, source: io::Error) -> JournalError {
        JournalError::new(&self.path, source)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
