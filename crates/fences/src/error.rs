//! The errors of backends: why a sandbox was not made, not taken over, or an interpreter not forked.

use crate::host_limit::HostLimit;
use paddock_model::SandboxId;

/// Why a lasting sandbox could not be taken over.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    #[error("sandbox {id} has ended: {detail}")]
    Gone { id: SandboxId, detail: String },
    #[error("the record of sandbox {id} cannot be read: {detail}")]
    Damaged { id: SandboxId, detail: String },
    #[error("sandbox {id} is of another backend")]
    Foreign { id: SandboxId },
    #[error("the guest of sandbox {id} cannot be reached")]
    Connect { id: SandboxId, source: std::io::Error },
}

#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    #[error("the sandbox cannot be made here: {missing}")]
    Unavailable { missing: String, remedy: Option<String> },
    /// The backend has no such ability, on whatever host.
    #[error("this backend cannot {ability}")]
    Unsupported { ability: &'static str },
    #[error("this host cannot give what was required: {what} ({instead})")]
    Requirement { what: String, instead: String },
    #[error("{path} cannot be given to the sandbox: {reason}")]
    Mount { path: String, reason: String },
    #[error("could not {step}")]
    Host { step: String, source: std::io::Error },
    #[error("the inside of the sandbox could not be built: {step}")]
    Inside { step: String, source: std::io::Error },
    #[error("the guest did not come up: {reason}")]
    Guest { reason: String },
    #[error("the host allows no more {limit}")]
    Limit { limit: HostLimit, source: std::io::Error },
}

pub fn no_live_forks() -> CreateError {
    CreateError::unsupported("copy a running interpreter into another sandbox")
}

impl CreateError {
    /// Without a remedy.
    pub fn unavailable(missing: impl Into<String>) -> CreateError {
        CreateError::Unavailable { missing: missing.into(), remedy: None }
    }

    pub fn unsupported(ability: &'static str) -> CreateError {
        CreateError::Unsupported { ability }
    }

    /// A step of the guest's that failed, in its own words.
    pub fn inside(step: &str, errno: i32) -> CreateError {
        let source = std::io::Error::from_raw_os_error(errno);
        match HostLimit::of_a_mount(&source) {
            Some(limit) => limit.refused(source),
            None => CreateError::Inside { step: step.escape_debug().to_string(), source },
        }
    }

    pub fn hint(&self) -> Option<String> {
        match self {
            CreateError::Unavailable { remedy, .. } => remedy.clone(),
            CreateError::Unsupported { .. } => {
                Some("`paddock doctor` says what each backend of this host can do; choose another one".into())
            }
            CreateError::Requirement { .. } => Some(
                "`paddock doctor` says what each backend has on this host; or leave the demand out".into(),
            ),
            CreateError::Host { source, .. } if source.raw_os_error() == Some(libc::ENOSPC) => {
                Some("the disk is full: free some space, or set PADDOCK_STATE_DIR to another disk".into())
            }
            CreateError::Limit { limit, .. } => Some(limit.hint()),
            _ => None,
        }
    }
}

/// Names the step of the host's own work that failed.
pub trait HostStep<T> {
    fn host(self, step: impl FnOnce() -> String) -> Result<T, CreateError>;
}

impl<T, E: Into<std::io::Error>> HostStep<T> for Result<T, E> {
    fn host(self, step: impl FnOnce() -> String) -> Result<T, CreateError> {
        self.map_err(|error| CreateError::Host { step: step(), source: error.into() })
    }
}

impl HostLimit {
    pub fn refused(self, source: std::io::Error) -> CreateError {
        CreateError::Limit { limit: self, source }
    }
}

/// Why an interpreter could not be forked as it stands.
#[derive(Debug, thiserror::Error)]
pub enum LiveForkError {
    /// This host lacks something that a live fork needs.
    #[error("{0}")]
    Unavailable(String),
    /// This interpreter cannot be forked live.
    #[error("{0}")]
    Unable(String),
    /// The interpreter did not wait for its next call in time.
    #[error("{0}")]
    Busy(String),
    #[error("could not {step}: {source}")]
    Host { step: String, source: std::io::Error },
}
