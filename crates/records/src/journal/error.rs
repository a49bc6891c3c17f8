use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("there is no room left on the disk for output in `{}`", .path.display())]
    Full { path: PathBuf },
    #[error("the journal of output `{}` cannot be used", .path.display())]
    Unusable { path: PathBuf, source: io::Error },
}

impl JournalError {
    pub(super) fn new(path: &Path, source: io::Error) -> JournalError {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                JournalError::Full { path }
            }
            _ => JournalError::Unusable { path, source },
        }
    }
}
