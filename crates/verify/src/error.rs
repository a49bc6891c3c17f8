//! Why the suite could not be run, as opposed to its findings.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    #[error("there is no backend `{name}`; known are {known}")]
    UnknownBackend { name: String, known: String },
    #[error("`{name}` is no group of attacks; known are {known}")]
    UnknownGroup { name: String, known: String },
    #[error("no sandbox can be made here: {reasons}")]
    NothingToVerify { reasons: String },
    #[error("no paddock to test at {}", .path.display())]
    Executable { path: PathBuf, source: std::io::Error },
    #[error("interrupted")]
    Interrupted,
    #[error("the suite could not be run: {0}")]
    Suite(String),
}

impl VerifyError {
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            VerifyError::UnknownBackend { .. } | VerifyError::NothingToVerify { .. } => {
                "`paddock doctor` says what each backend has and lacks on this host"
            }
            VerifyError::UnknownGroup { .. } => "name one by its letter, as in `--group A`",
            VerifyError::Executable { .. } => "build it or set PADDOCK_BIN",
            VerifyError::Interrupted | VerifyError::Suite(_) => return None,
        };
        Some(hint.to_string())
    }
}

/// Inside the suite errors are words; the one that means something else is kept apart.
impl From<anyhow::Error> for VerifyError {
    fn from(error: anyhow::Error) -> Self {
        if crate::interrupt::noticed() {
            return VerifyError::Interrupted;
        }
        match error.downcast::<VerifyError>() {
            Ok(known) => known,
            Err(other) => VerifyError::Suite(format!("{other:#}")),
        }
    }
}
