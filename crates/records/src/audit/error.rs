use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    #[error("there is no room left on the disk for the timeline `{}`", .path.display())]
    Full { path: PathBuf },
    #[error("`{}` cannot be used", .path.display())]
    Unusable { path: PathBuf, source: io::Error },
    #[error("there is no timeline `{}`", .path.display())]
    Missing { path: PathBuf },
    #[error("the timeline `{}` has been closed: its sandbox ended", .path.display())]
    Closed { path: PathBuf },
    #[error("the timeline `{}` was changed by somebody else: {reason}", .path.display())]
    Broken { path: PathBuf, reason: String },
    #[error("`{}` is not a key of a timeline", .path.display())]
    Key { path: PathBuf },
    #[error("`{}` is not a public key: 44 characters of base64 are expected", .0.escape_debug())]
    PublicKey(String),
    #[error("no random numbers from the system")]
    Random(#[source] io::Error),
}

impl AuditError {
    pub fn hint(&self) -> Option<String> {
        match self {
            AuditError::Broken { path, .. } => Some(format!(
                "`paddock audit verify` says where; keep `{}` as evidence and move it aside to go on",
                path.display()
            )),
            AuditError::Key { .. } => {
                Some("put the right key back; with another one old timelines cannot go on".into())
            }
            _ => None,
        }
    }

    pub fn io(path: &Path, source: io::Error) -> AuditError {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => AuditError::Full { path },
            _ => AuditError::Unusable { path, source },
        }
    }
}
