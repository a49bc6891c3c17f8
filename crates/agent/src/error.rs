//! The errors of a model.

use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    #[error("the model at {host} cannot be reached")]
    Unreachable { host: String, source: reqwest::Error },
    #[error("the model at {host} answered {status}: {message}")]
    Status { host: String, status: u16, message: String, retry_after: Option<Duration> },
    #[error("the stream of the model ended in the middle")]
    Cut,
    #[error("the model said nothing for {0} s")]
    Silent(u64),
    #[error("the model reported an error in its stream: {0}")]
    InStream(String),
    #[error("what the model answered makes no sense: {0}")]
    Nonsense(String),
    #[error("the reply of the model is larger than {0} MiB")]
    TooLarge(usize),
    #[error("the client of the model cannot be made")]
    Client(#[source] reqwest::Error),
    #[error("the model failed {attempts} times in a row")]
    GaveUp { attempts: u32, source: Box<ModelError> },
}

impl ModelError {
    /// The same request may do better.
    pub fn is_passing(&self) -> bool {
        match self {
            ModelError::Status { status, .. } => matches!(status, 408 | 409 | 425 | 429 | 500..=599),
            ModelError::Unreachable { .. }
            | ModelError::Cut
            | ModelError::Silent(_)
            | ModelError::InStream(_)
            | ModelError::Nonsense(_) => true,
            ModelError::TooLarge(_) | ModelError::Client(_) | ModelError::GaveUp { .. } => false,
        }
    }

    /// How long the provider wants to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            ModelError::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// For callers that look at codes.
    pub fn code(&self) -> &'static str {
        match self {
            ModelError::Unreachable { .. } => "model_unreachable",
            ModelError::Status { status: 429, .. } => "model_rate_limit",
            ModelError::Status { status: 401 | 403, .. } => "model_key_refused",
            ModelError::Status { status, .. } if *status >= 500 => "model_overloaded",
            ModelError::Status { .. } => "model_refused",
            ModelError::Cut => "model_stream_cut",
            ModelError::Silent(_) => "model_silent",
            ModelError::InStream(_) => "model_stream_error",
            ModelError::Nonsense(_) => "model_nonsense",
            ModelError::TooLarge(_) => "model_reply_too_large",
            ModelError::Client(_) => "model_client",
            ModelError::GaveUp { source, .. } => source.code(),
        }
    }

    pub fn hint(&self) -> Option<String> {
        let text = match self {
            ModelError::GaveUp { source, .. } => return source.hint(),
            ModelError::Unreachable { .. } => "look at --model, and whether this host reaches it",
            ModelError::Status { status: 401 | 403, .. } => {
                "the key is not accepted: --key-env names the variable that holds it"
            }
            ModelError::Status { status: 404, .. } => {
                "look at the path of --model and at --name; --dialect says which format is spoken"
            }
            ModelError::Status { status: 429, .. } => "wait, or ask the provider for more",
            ModelError::Status { status: 400, .. } => {
                "--name names the model, and --dialect the format that the endpoint speaks"
            }
            ModelError::Nonsense(_) => "--dialect says which format is spoken: anthropic or openai",
            _ => return None,
        };
        Some(text.to_string())
    }
}
