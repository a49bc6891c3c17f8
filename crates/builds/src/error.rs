//! The reasons why a build failed.

use super::BuildFileError;
use paddock_engine::{EngineError, FileError, FileErrorKind};
use paddock_images::ImageError;
use paddock_model::{Captured, format_duration};
use paddock_records::store::StoreError;
use paddock_settings::SettingsError;
use paddock_settings::templates::TemplateError;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error("the build file is not usable")]
    File(#[from] BuildFileError),
    #[error("step {number} of {total}, `{what}`, failed: {why}")]
    Step { number: usize, total: usize, what: String, why: StepFailure, output: Box<Captured> },
    #[error("base `{base}` cannot be used")]
    Base { base: String, source: ImageError },
    #[error("{what} needs root: packages belong to more users than an ordinary user has ids for")]
    NeedsRoot { what: &'static str },
    #[error("base `{base}` is built from Debian's packages here, and {missing}")]
    Packages { base: String, missing: String, remedy: String },
    #[error("copy `{}`: {reason}", .from.escape_debug())]
    Copy { from: String, reason: String },
    #[error("a build file that comes with Paddock has no directory that could be copied from")]
    CopyOfShipped,
    #[error("`{}` cannot be used", .path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Image(#[from] ImageError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("what a step wrote could not be taken out of its sandbox")]
    Taken(#[from] FileError),
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error("what sandboxes use cannot be told, so that nothing is removed")]
    Records(#[from] StoreError),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepFailure {
    #[error("exit code {0}")]
    Exited(i32),
    #[error("ended by signal {0}")]
    Signalled(i32),
    #[error("out of memory")]
    OutOfMemory,
    #[error("not over after {}", format_duration(*.0))]
    TimedOut(Duration),
    #[error("it could not be started: {0}")]
    NotStarted(String),
    #[error("the sandbox was lost: {0}")]
    Lost(String),
}

impl BuildError {
    pub fn hint(&self) -> Option<String> {
        match self {
            BuildError::Step { why: StepFailure::OutOfMemory, .. } => {
                Some("what a step writes is in memory: give it more with `[build] memory = \"8GiB\"`".into())
            }
            BuildError::Step { why: StepFailure::TimedOut(_), .. } => {
                Some("give it more with `[build] timeout = \"2h\"`".into())
            }
            BuildError::Step { what, why: StepFailure::NotStarted(_), .. } => match what.split(' ').next() {
                Some("apt") => Some("the base has no apt-get: begin with a Debian or Ubuntu image".into()),
                Some("pip") => Some("the image has no python3: add `apt = [\"python3-pip\"]` before".into()),
                Some("npm") => Some("the image has no npm: add `apt = [\"npm\"]` before".into()),
                _ => None,
            },
            BuildError::Step { output, .. } if full(output) => Some(
                "give it more disk with `[build] disk = \"6GiB\"`, and more memory, which holds it".into(),
            ),
            BuildError::Taken(error) if error.kind == FileErrorKind::Unsupported => {
                Some("a build needs Linux 6.6 or later, whose memory file system has attributes".into())
            }
            BuildError::Base { source, .. } => source.hint().map(str::to_string),
            BuildError::Image(error) => error.hint().map(str::to_string),
            BuildError::NeedsRoot { .. } => {
                Some("run it as root, or begin with an image that has the packages".into())
            }
            BuildError::Packages { remedy, .. } => Some(remedy.clone()),
            BuildError::CopyOfShipped => {
                Some("write the build file into a directory of your own, and name that file".into())
            }
            BuildError::Engine(error) => error.hint(),
            BuildError::Settings(error) => error.hint(),
            BuildError::Template(error) => error.hint(),
            _ => None,
        }
    }
}

/// For tenants: nothing of the host's paths.
pub fn told(error: &BuildError) -> String {
    match error {
        BuildError::Step { what, why, .. } => format!("`{what}` failed: {why}"),
        BuildError::Io { .. } | BuildError::Records(_) => {
            tracing::warn!(error = chain(error), "a build failed");
            "the server could not do it; its log has the reason".into()
        }
        error => chain(error),
    }
}

/// The error and its causes.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    let mut text = error.to_string();
    for words in causes.map(ToString::to_string) {
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
    }
    text
}

fn full(output: &Captured) -> bool {
    String::from_utf8_lossy(&output.tail).contains("No space left on device")
        || String::from_utf8_lossy(&output.head).contains("No space left on device")
}
