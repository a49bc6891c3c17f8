//! Scripts with annotations, from a file to a result.
//!
//! - [`source`]: the file, its language and its arguments
//! - [`run`]: the plan carried out in a sandbox of the server
//! - [`begin`]: a script to begin with, written to a file
//! - [`report`]: the output for a person, or for a program with `--json`

pub mod begin;
pub mod report;
pub mod run;
pub mod source;

use paddock_scripts::{STARTERS, ScriptError};
use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum ScriptCommandError {
    #[error("script `{}` cannot be read", .path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{}{error}", .file.as_ref().map(|file| format!("{file}: ")).unwrap_or_default())]
    Script { file: Option<String>, error: ScriptError },
    #[error("standard input cannot be read")]
    Input(#[source] io::Error),
    #[error("standard input is larger than {0} bytes")]
    InputTooLarge(usize),
    #[error("standard input is no text: it is not UTF-8")]
    InputNotText,
    #[error("argument `{0}` is given twice")]
    ArgumentTwice(String),
    #[error("no script to begin with is called `{}`", .0.escape_debug())]
    NoStarter(String),
    #[error("`{}` is there already", .0.display())]
    Exists(PathBuf),
    #[error("script `{}` cannot be written", .path.display())]
    Unwritable { path: PathBuf, source: io::Error },
    #[error("signals cannot be listened to")]
    Signals(#[source] io::Error),
}

impl ScriptCommandError {
    pub fn hint(&self) -> Option<String> {
        match self {
            ScriptCommandError::Script { error, .. } => error.hint(),
            ScriptCommandError::NoStarter(_) => {
                let names: Vec<&str> = STARTERS.iter().map(|starter| starter.name).collect();
                Some(format!("known are {}", names.join(", ")))
            }
            ScriptCommandError::Exists(_) => Some("name another file: it is not written over".into()),
            ScriptCommandError::ArgumentTwice(_) => {
                Some("give it once: with --arg, or in the object of --args".into())
            }
            _ => None,
        }
    }
}

impl From<ScriptError> for ScriptCommandError {
    fn from(error: ScriptError) -> ScriptCommandError {
        ScriptCommandError::Script { file: None, error }
    }
}
