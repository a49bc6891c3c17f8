//! What a backend is asked for. Few methods, so that a new one is a day's work.

use paddock_model::{Availability, Guarantees, SandboxId, Spec};
use std::os::unix::net::UnixStream;

pub trait Backend: Send + Sync {
    fn name(&self) -> &'static str;

    /// What this machine can do, and what is missing, in words a person can act on.
    fn probe(&self) -> Availability;

    /// What a sandbox of this spec will really have.
    fn guarantees(&self, spec: &Spec) -> Guarantees;

    /// Puts up a fence whose guest is coming up: it says that it is ready, or why not, over the stream.
    fn create(&self, id: &SandboxId, spec: &Spec) -> Result<Raised, CreateError>;
}

/// A fence, and the stream to the guest inside.
pub struct Raised {
    pub fence: Box<dyn Fence>,
    pub stream: UnixStream,
    /// What the caller should know about this very sandbox, beyond the guarantees of its spec.
    pub notes: Vec<String>,
}

pub trait Fence: Send {
    /// Why the guest never greeted, if the backend can tell. Ends what is left of it.
    fn why_not_started(&mut self) -> Option<CreateError>;

    /// Ends everything inside, at once, removes every trace of the fence, and says what the kernel counted.
    fn destroy(&mut self) -> std::io::Result<FenceUsage>;
}

/// `None` in a field where the kernel does not count.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FenceUsage {
    pub cpu_ms: Option<f64>,
    pub peak_memory: Option<u64>,
    /// Processes that the kernel killed for want of memory.
    pub memory_kills: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    #[error("the sandbox cannot be made here: {missing}")]
    Unavailable { missing: String, remedy: Option<String> },
    #[error("this machine cannot give what was required: {what} ({instead})")]
    Requirement { what: String, instead: String },
    #[error("{path} cannot be given to the sandbox: {reason}")]
    Mount { path: String, reason: String },
    #[error("could not {step}")]
    Host { step: String, source: std::io::Error },
    #[error("the inside of the sandbox could not be built: {step}")]
    Inside { step: String, source: std::io::Error },
    #[error("the guest did not come up: {reason}")]
    Guest { reason: String },
}

impl CreateError {
    pub fn hint(&self) -> Option<String> {
        match self {
            CreateError::Unavailable { remedy, .. } => remedy.clone(),
            CreateError::Requirement { .. } => Some(
                "`paddock doctor` says what each backend has on this machine; or leave the demand out".into(),
            ),
            CreateError::Host { source, .. } if source.raw_os_error() == Some(libc::ENOSPC) => {
                Some("the disk is full: free some space, or set PADDOCK_STATE_DIR to another disk".into())
            }
            _ => None,
        }
    }
}

/// Names the step of the host's own work that failed.
pub(crate) trait HostStep<T> {
    fn host(self, step: impl FnOnce() -> String) -> Result<T, CreateError>;
}

impl<T, E: Into<std::io::Error>> HostStep<T> for Result<T, E> {
    fn host(self, step: impl FnOnce() -> String) -> Result<T, CreateError> {
        self.map_err(|error| CreateError::Host { step: step(), source: error.into() })
    }
}
