//! A fence around a coding agent on a real repository, and the account of its actions there.
//!
//! - [`fence`]: arguments -> a session, by the same layers of settings as `paddock run`
//! - [`home`]: where the agent keeps its login and its sessions, one for each repository
//! - [`watch`]: the files in the writable places before, listed beside the start of the sandbox, and the files after
//! - [`listing`]: one walk through a directory that hostile code writes to
//! - [`install`]: an agent is put into its home: the progress, and the reason of a failure
//! - [`old_contents`]: contents from before, for a patch
//! - [`changes`]: the two listings compared; [`patch`]: the same as a patch

pub mod account;
pub mod changes;
pub mod fence;
pub mod home;
pub mod install;
mod listing;
mod old_contents;
mod patch;
pub mod watch;

use paddock_settings::agents::AgentError;
use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum ShieldError {
    #[error("no agent was given")]
    MissingCommand,
    #[error("the current directory `{}` is your home directory", .0.display())]
    Home(PathBuf),
    #[error("the current directory cannot be used as the workspace")]
    NoDirectory(#[source] io::Error),
    #[error("the network would be the host's own, unfenced")]
    Unfenced,
    #[error("`{}` is to be writable, and `{}` is protected", .path.display(), .name.display())]
    Protected { path: PathBuf, name: PathBuf },
    #[error("`{}` is no directory: the repository of this directory lies elsewhere", .0.display())]
    RepositoryElsewhere(PathBuf),
    #[error("nothing is known about how `{0}` is installed")]
    NoInstall(String),
    #[error("the home of this repository, `{}`, cannot be used", .path.display())]
    HomeDirectory { path: PathBuf, source: io::Error },
    #[error("`{}` holds the home of another directory, `{}`", .path.display(), .other.display())]
    HomeOfAnother { path: PathBuf, other: PathBuf },
    #[error(transparent)]
    Agent(#[from] AgentError),
}

impl ShieldError {
    pub fn hint(&self) -> Option<String> {
        match self {
            ShieldError::MissingCommand => {
                Some("write it after the options, as in `paddock shield -- claude`".into())
            }
            ShieldError::Home(_) => Some(
                "go to the project's own directory; or name the home with --workspace, if it is meant".into(),
            ),
            ShieldError::NoDirectory(_) => Some("name one with --workspace DIR".into()),
            ShieldError::Unfenced => Some(
                "allow what it needs with --allow-net HOST; `paddock run --net host` is without a fence"
                    .into(),
            ),
            ShieldError::Protected { name, .. } => {
                Some(format!("--unprotect {} gives its protection up", name.display()))
            }
            ShieldError::RepositoryElsewhere(_) => Some(
                "--allow-commit works in a main working tree; leave it out, and commit after a look".into(),
            ),
            ShieldError::NoInstall(_) => {
                Some("`install` of its file in agents/ of the state directory says how".into())
            }
            ShieldError::HomeDirectory { .. } => {
                Some("--fresh starts without it; `paddock shield --forget` removes it".into())
            }
            ShieldError::HomeOfAnother { .. } => Some("--fresh starts without a home that is kept".into()),
            ShieldError::Agent(error) => error.hint(),
        }
    }
}
