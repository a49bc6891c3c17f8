//! A model that works in a sandbox.
//!
//! - [`settings`]: flags and environment -> which model, within which budget
//! - [`session`]: the conversation, its transcript and its sandbox, from the first task to the last
//! - [`screen`]: the output for a person, or for a program with `--json`

pub mod screen;
pub mod session;
pub mod settings;

use paddock_agent::{EndpointError, ModelError, TranscriptError};
use paddock_tools::OperationError;
use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("there is no task")]
    NoTask,
    #[error("the task has more than 1 MiB")]
    TaskTooLarge,
    #[error("the task cannot be read from standard input")]
    Input(#[source] io::Error),
    #[error("no model is named, and no key of one is set")]
    NoModel,
    #[error("the model at {0} has to be named")]
    NoName(String),
    #[error("the key is to be read from `{0}`, and there is no such variable")]
    NoKey(String),
    #[error("there is no session `{0}`")]
    NoSession(String),
    #[error("a session that is gone on with keeps its sandbox: --sandbox per-task cannot be asked for")]
    Modes,
    #[error("`{}` cannot be made", .path.display())]
    Directory { path: PathBuf, source: io::Error },
    #[error("the signals of this process cannot be listened to")]
    Signals(#[source] io::Error),
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    #[error(transparent)]
    Transcript(#[from] TranscriptError),
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Sandbox(#[from] OperationError),
}

impl AgentError {
    pub fn hint(&self) -> Option<String> {
        match self {
            AgentError::NoTask => Some("write it as the last argument, or send it to standard input".into()),
            AgentError::TaskTooLarge => Some("put what is long into a file of the workspace, and name it in the task".into()),
            AgentError::NoModel => {
                Some("set ANTHROPIC_API_KEY or OPENAI_API_KEY; or name one with --model URL, with --key-env none where it needs no key".into())
            }
            AgentError::NoName(_) => Some("--name says which: the name that the provider has for it".into()),
            AgentError::NoKey(_) => Some("set it, or write --key-env none where the endpoint needs no key".into()),
            AgentError::NoSession(_) => {
                Some("the end of a run says its name; they are kept in agent/ of the state directory".into())
            }
            AgentError::Endpoint(error) => error.hint(),
            AgentError::Model(error) => error.hint(),
            AgentError::Sandbox(error) => error.hint.clone(),
            AgentError::Transcript(TranscriptError::Unusable { source, .. })
                if source.kind() == io::ErrorKind::AlreadyExists =>
            {
                Some("name a new file: what is there is not written over; --continue goes on with a session".into())
            }
            _ => None,
        }
    }
}
