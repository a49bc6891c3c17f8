//! A file that is made when the first byte goes into it.

use super::JournalError;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

pub struct LazyFile {
    path: PathBuf,
    file: OnceLock<File>,
}

impl LazyFile {
    pub fn new(directory: &Path, name: &str) -> LazyFile {
        LazyFile { path: directory.join(name), file: OnceLock::new() }
    }

    /// Its length, where it exists.
    pub fn open_existing(&self) -> Result<Option<u64>, JournalError> {
        match OpenOptions::new().read(true).write(true).open(&self.path) {
            Ok(file) => {
                let length = file.metadata().map_err(|source| self.failed(source))?.len();
                let _ = self.file.set(file);
                Ok(Some(length))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(self.failed(source)),
        }
    }

    /// Precondition: one writer at a time.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), JournalError> {
        let file = match self.file.get() {
            Some(file) => file,
            None => {
                let file = self.make().map_err(|source| self.failed(source))?;
                self.file.get_or_init(|| file)
            }
        };
        file.write_all_at(bytes, offset).map_err(|source| self.failed(source))
    }

    /// What is there of it; shorter at the file's end.
    pub fn read_at(&self, offset: u64, length: usize) -> Result<Vec<u8>, JournalError> {
        let Some(file) = self.file.get() else { return Ok(Vec::new()) };
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
}
