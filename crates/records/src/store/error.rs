use rusqlite::ErrorCode;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("another server{} uses the state directory `{}`", .pid.map(|pid| format!(" (process {pid})")).unwrap_or_default(), .state.display())]
    Locked { state: PathBuf, pid: Option<u32> },
    #[error("a server{} still runs whose state directory `{}` was removed", .pid.map(|pid| format!(" (process {pid})")).unwrap_or_default(), .state.display())]
    Orphaned { state: PathBuf, pid: Option<u32> },
    #[error("the state directory `{}` was removed or replaced while the server runs: nothing can be kept", .state.display())]
    Removed { state: PathBuf },
    #[error("the database `{}` is of a newer Paddock (format {found}, this one knows {known})", .path.display())]
    Newer { path: PathBuf, found: u32, known: u32 },
    #[error("the database `{}` is damaged", .path.display())]
    Damaged { path: PathBuf, source: rusqlite::Error },
    #[error("`{}` cannot be written", .path.display())]
    ReadOnly { path: PathBuf, source: io::Error },
    #[error("there is no room left on the disk of `{}`", .path.display())]
    Full { path: PathBuf },
    #[error("`{}` cannot be used", .path.display())]
    Unusable { path: PathBuf, source: io::Error },
    #[error("the name `{}` is taken", .name.escape_debug())]
    NameTaken { name: String },
    #[error("there is a record of `{}` already", .id.escape_debug())]
    Exists { id: String },
    #[error("`{}` is not a cursor of this list", .cursor.escape_debug())]
    Cursor { cursor: String },
    #[error("the database `{}` failed", .path.display())]
    Database { path: PathBuf, source: rusqlite::Error },
}

impl StoreError {
    pub fn hint(&self) -> Option<String> {
        match self {
            StoreError::Locked { pid: Some(pid), .. } => {
                Some(format!("use that server, or stop it first: `kill {pid}`; sandboxes keep running"))
            }
            StoreError::Locked { pid: None, .. } => Some("use that server, or stop it first".into()),
            StoreError::Orphaned { pid, .. } => {
                let kill = pid.map(|pid| format!(" (`kill {pid}`)")).unwrap_or_default();
                Some(format!(
                    "get what is needed out of its sandboxes, which it still serves, and stop it{kill}: a new server ends them"
                ))
            }
            StoreError::Removed { .. } => Some(format!(
                "what runs can still be read: get out what is needed, stop the server (`kill {}`) and start it again",
                std::process::id()
            )),
            StoreError::Newer { .. } => Some("use that newer Paddock, or another state directory".into()),
            StoreError::Damaged { path, .. } => Some(format!(
                "move `{0}`, `{0}-wal` and `{0}-shm` aside and start again: running sandboxes are found from their backend's records",
                path.display()
            )),
            StoreError::ReadOnly { .. } => {
                Some("give the server's user write access, or choose another state directory".into())
            }
            StoreError::Full { .. } => {
                Some("free some space; `paddock top` shows what sandboxes hold".into())
            }
            StoreError::Cursor { .. } => {
                Some("hand back `next_cursor` of the page before, unchanged, or leave it out".into())
            }
            _ => None,
        }
    }

    pub(super) fn from_io(path: &Path, source: io::Error) -> StoreError {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                StoreError::ReadOnly { path, source }
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Full { path },
            _ => StoreError::Unusable { path, source },
        }
    }

    pub(super) fn from_sql(path: &Path, source: rusqlite::Error) -> StoreError {
        let path = path.to_path_buf();
        match source.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                StoreError::Damaged { path, source }
            }
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
                StoreError::ReadOnly { path, source: io::Error::other(source) }
            }
            Some(ErrorCode::DiskFull) => StoreError::Full { path },
            _ => StoreError::Database { path, source },
        }
    }

    /// Tells which of two rules an insertion broke: its own id, or a name that has to be unique.
    pub(super) fn taken(self, id: &str, name: Option<&str>) -> StoreError {
        let StoreError::Database { source: rusqlite::Error::SqliteFailure(failure, _), .. } = &self else {
            return self;
        };
        match (failure.extended_code, name) {
            (rusqlite::ffi::SQLITE_CONSTRAINT_UNIQUE, Some(name)) => {
                StoreError::NameTaken { name: name.to_string() }
            }
            (rusqlite::ffi::SQLITE_CONSTRAINT_PRIMARYKEY, _) => StoreError::Exists { id: id.to_string() },
            _ => self,
        }
    }
}
