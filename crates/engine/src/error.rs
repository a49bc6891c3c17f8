//! Errors between a caller and its sandbox.

use paddock_backends::{AdoptError, CreateError, SelectError};

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Select(#[from] SelectError),
    #[error(transparent)]
    Create(#[from] CreateError),
    #[error(transparent)]
    Adopt(#[from] AdoptError),
    #[error("image `{}` cannot be used", .reference.escape_debug())]
    Image { reference: String, source: paddock_images::ImageError },
    #[error("the limits are not usable")]
    Limits(#[from] paddock_model::LimitError),
    #[error("the sandbox was lost: {detail}")]
    Lost { detail: String },
    #[error(
        "the command and its environment take {length} bytes; the guest of this sandbox, which an older paddock started, takes {most}"
    )]
    CommandTooLarge { length: usize, most: usize },
    #[error("its guest said nothing for {seconds} seconds")]
    Silent { seconds: u64 },
    #[error("{path} could not be written inside the sandbox")]
    File { path: String, source: std::io::Error },
    #[error("the sandbox could not be removed completely")]
    Remove { source: std::io::Error },
    #[error("the work inside could not be stopped or let go on")]
    Freeze { source: std::io::Error },
    #[error("the zygote's interpreter: {detail}")]
    Zygote { detail: String },
    #[error("the sandbox's gate to the network could not be opened")]
    Gate { source: std::io::Error },
    #[error(transparent)]
    Secrets(crate::secrets::SecretsError),
    #[error(transparent)]
    Certificates(#[from] crate::certificates::CertificatesError),
    #[error("no random numbers from the system")]
    Random { source: std::io::Error },
}

/// An error of certificates is the same error with secrets and without.
impl From<crate::secrets::SecretsError> for EngineError {
    fn from(error: crate::secrets::SecretsError) -> EngineError {
        match error {
            crate::secrets::SecretsError::Certificates(error) => EngineError::Certificates(error),
            error => EngineError::Secrets(error),
        }
    }
}

impl EngineError {
    pub fn hint(&self) -> Option<String> {
        match self {
            EngineError::Create(error) => error.hint(),
            EngineError::Image { source, .. } => source.hint().map(str::to_string),
            EngineError::Select(SelectError::Requirement { .. }) => Some(
                "`paddock doctor` says what each backend has on this host; or leave the demand out".into(),
            ),
            EngineError::Certificates(error) => error.hint(),
            EngineError::CommandTooLarge { .. } => {
                Some("pass large data on standard input or in a file, or make the sandbox anew".into())
            }
            EngineError::Remove { .. } => Some("`paddock doctor` removes what was left behind".into()),
            _ => None,
        }
    }
}
