//! The errors of a call, each with a hint that says how to mend it.

use crate::connect_error::ConnectError;
use crate::revive::NotStarted;
use crate::{PADDOCK_TOKEN, PADDOCK_URL};
use paddock_model::api::ApiError;
use std::error::Error;
use std::io;

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("PADDOCK_URL `{value}` is not an address: {reason}")]
    Address { value: String, reason: &'static str },
    #[error("PADDOCK_TOKEN holds characters that no token has")]
    Token,
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("the connection to the server was lost")]
    Lost(#[source] Box<dyn Error + Send + Sync>),
    #[error("{}", error.message)]
    Refused { status: u16, error: Box<ApiError> },
    #[error("what answers with status {status} is not a Paddock server")]
    NotPaddock { status: u16 },
    #[error("the server's answer is not what this version expects")]
    Unexpected(#[source] serde_json::Error),
    #[error("the server sent a line of more than 16 MiB")]
    LongLine,
    #[error("the request cannot be written as JSON")]
    Request(#[source] serde_json::Error),
    #[error("the request cannot be sent")]
    BadTarget(#[source] hyper::http::Error),
    #[error("the runtime could not be started")]
    Runtime(#[source] io::Error),
    #[error(transparent)]
    NotStarted(#[from] NotStarted),
}

impl ClientError {
    pub fn hint(&self) -> Option<String> {
        match self {
            ClientError::Refused { error, .. } => match (&error.hint, error.code.as_str()) {
                // The server's own hint is for programs that speak HTTP.
                (_, "unauthorized") => Some(format!(
                    "set {} to a token of this server: `paddock token create` makes one on its host",
                    PADDOCK_TOKEN
                )),
                (Some(hint), _) => Some(hint.clone()),
                (None, "sandbox_not_found") => {
                    Some("`paddock ps -a` lists the sandboxes there are".to_string())
                }
                (None, "snapshot_not_found") => {
                    Some("`paddock snapshot ls` lists those there are".to_string())
                }
                (None, "internal") => {
                    Some(format!("the server's log has more under request {}", error.request_id))
                }
                _ => None,
            },
            ClientError::Connect(error) => Some(error.hint()),
            ClientError::NotPaddock { .. } => Some(format!("check {}", PADDOCK_URL)),
            ClientError::Unexpected(_) => {
                Some("server and command should be of the same version".to_string())
            }
            ClientError::NotStarted(error) => error.hint.clone(),
            _ => None,
        }
    }

    /// True if the same call may succeed a little later: no server has decided anything.
    pub fn is_passing(&self) -> bool {
        match self {
            ClientError::Connect(error) => error.is_passing(),
            ClientError::Lost(_) => true,
            ClientError::Refused { status, .. } => matches!(status, 502..=504),
            _ => false,
        }
    }

    /// The connection broke, or the server said that it ends: nothing is known to be wrong with the call.
    pub(crate) fn is_of_an_ending_server(&self) -> bool {
        match self {
            ClientError::Lost(_) | ClientError::Connect(ConnectError::NoAnswer { .. }) => true,
            ClientError::Refused { status: 503, error } => error.code == "unavailable",
            _ => false,
        }
    }

    /// No server listens there at this moment.
    pub fn is_absence(&self) -> bool {
        matches!(self, ClientError::Connect(error) if error.is_absence())
    }

    pub fn code(&self) -> Option<&str> {
        match self {
            ClientError::Refused { error, .. } => Some(&error.code),
            _ => None,
        }
    }
}
