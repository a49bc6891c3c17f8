//! Files and directories between here and a sandbox. Everything from inside is hostile: its names, links, kinds and
//! sizes are checked here, even if the server let them pass.
//!
//! - [`place`]: which side an argument of `cp` names
//! - [`download`], [`upload`]: the two directions
//! - [`pack`]: a directory here, as a tar
//! - [`unpack`]: a tar from inside, into a directory here and nowhere else
//! - [`pipe`]: between the tar code, which blocks, and the connection, which does not

pub mod download;
mod pack;
mod pipe;
pub mod place;
mod unpack;
pub mod upload;

use crate::client::ClientError;
use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error("one of source and destination has to be ID:PATH")]
    NoSandbox,
    #[error("from one sandbox to another is two copies: one out, and one in")]
    TwoSandboxes,
    #[error("--json and the copied bytes would both go to standard output")]
    JsonToStandardOutput,
    #[error("--attribute and --follow-links are of one file that goes into a sandbox, and {0}")]
    AttributesOfNoFile(&'static str),
    #[error("`{0}` has no path after the colon")]
    NoPath(String),
    #[error("the path inside is not UTF-8 text")]
    NotText,
    #[error("there is nothing at `{0}` inside")]
    Missing(String),
    #[error("`{0}` inside is a pipe, a socket or a device")]
    Special(String),
    #[error("`{}` cannot be copied", .path.display())]
    Local { path: PathBuf, source: io::Error },
    #[error("`{}` is neither a file nor a directory", .0.display())]
    NotPlain(PathBuf),
    #[error("`{}` is in the way: it is not a directory", .0.display())]
    NotDirectory(PathBuf),
    #[error("the archive from inside cannot be unpacked: entry `{name}` {reason}")]
    Hostile { name: String, reason: &'static str },
    #[error("the archive from inside is damaged")]
    Archive(#[source] io::Error),
    #[error("the archive from inside has more than {0}")]
    TooLarge(&'static str),
    #[error("standard input or output failed")]
    Standard(#[source] io::Error),
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl CopyError {
    pub fn hint(&self) -> Option<String> {
        match self {
            CopyError::NoSandbox => Some("as in `paddock cp build:/workspace/out ./out`".to_string()),
            CopyError::AttributesOfNoFile(_) => {
                Some("leave it out, or copy the file by itself: `paddock cp --attribute k=v report.csv build:/workspace/`".to_string())
            }
            CopyError::NoPath(text) => Some(format!("write {text}/ for its root directory")),
            CopyError::Client(error) => error.hint(),
            _ => None,
        }
    }
}

/// A file that was left out of a copy, and why: for people.
#[derive(Debug, PartialEq, Eq)]
pub struct LeftOut {
    pub name: String,
    pub reason: &'static str,
}
