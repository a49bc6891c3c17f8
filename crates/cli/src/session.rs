//! One sandbox from start to end: the engine, as the commands use it.
//!
//! - [`conversation`]: the loop between the caller's streams and the command's
//! - [`progress`]: the progress of fetching an image, for a person
//! - [`build_progress`]: the progress of a build, for a person
//! - [`network`], [`ledger`]: the decisions of its gate, one by one and by host
//! - [`report`]: exit code, messages and JSON of a run that is over

pub mod build_progress;
mod conversation;
pub mod ledger;
pub mod network;
mod progress;
mod report;

pub use paddock_terminal::{signals, streams, terminal};
pub use report::{NOT_FOUND, Over};

use paddock_engine::{Engine, EngineError, FindBackends, certificates};
use paddock_model::{Availability, Guarantees, ScanReport, Spec};
use paddock_settings::{Bound, default_environment, network_environment};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub struct Session {
    pub state_dir: PathBuf,
    pub backend: Option<String>,
    /// An absolute path, or a registry reference.
    pub image: Option<String>,
    pub spec: Spec,
    pub argv: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub cwd: Option<PathBuf>,
    pub stdin: StdinMode,
    pub tty: bool,
    pub json: bool,
    /// Path inside and content, written before the command starts.
    pub file: Option<(PathBuf, Vec<u8>)>,
    /// The findings of the scan before the code ran.
    pub scanned: ScanReport,
    /// Values that never enter.
    pub secrets: Vec<Bound>,
    /// Its clients believe the certificates that this host believes.
    pub host_certs: bool,
    pub first: Option<First>,
    /// Gets the output, in place of the caller's streams.
    pub listener: Option<Listener>,
    /// The backends that may make it.
    pub backends: FindBackends,
}

/// Called with each piece of the command's output, of both streams.
pub struct Listener(pub Box<Hears>);

pub type Hears = dyn FnMut(&[u8]) + Send;

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Listener")
    }
}

/// Called right before the command is sent in: it waits for something that is done beside the making of the sandbox.
pub struct First(pub Box<dyn FnOnce() + Send>);

impl std::fmt::Debug for First {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("First")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StdinMode {
    Inherit,
    None,
}

#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("interrupted by signal {0}")]
    Interrupted(i32),
    #[error("no command was given, and the image names none")]
    MissingCommand,
    #[error("the runtime could not be started")]
    Runtime(#[source] std::io::Error),
    #[error("the caller's streams cannot be used")]
    Streams(#[source] std::io::Error),
    #[error("the result could not be written as JSON")]
    Json(#[from] serde_json::Error),
}

impl SessionError {
    pub fn hint(&self) -> Option<String> {
        match self {
            SessionError::Engine(error) => error.hint(),
            SessionError::MissingCommand => {
                Some("write it after the options, as in `paddock run -- python3 script.py`".into())
            }
            _ => None,
        }
    }
}

/// Runs the command and passes its streams on. Returns the exit code.
pub fn run(session: Session) -> Result<i32, SessionError> {
    let json = session.json;
    hold(session)?.tell(json)
}

/// The same, but the caller tells the result.
pub fn hold(session: Session) -> Result<Over, SessionError> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(SessionError::Runtime)?;
    let over = runtime.block_on(conversation::run(session));
    // A read of stdin may still be waiting; the command does not wait for it.
    runtime.shutdown_background();
    over
}

/// The guarantees that a sandbox of this session would really have. Starts nothing.
pub fn explain(session: &Session) -> Result<Guarantees, SessionError> {
    let engine = Engine::with_backends(&session.state_dir, session.backends);
    Ok(engine.guarantees(session.backend.as_deref(), &session.spec)?)
}

pub fn doctor(state_dir: &Path, backends: FindBackends) -> Vec<Availability> {
    Engine::with_backends(state_dir, backends).probe()
}

impl Session {
    /// The whole environment of the command: the image's variables, ours, and those that the caller named. No others.
    fn environment(&self, image: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let mut all = default_environment();
        if self.tty {
            let terminal = std::env::var("TERM").unwrap_or_else(|_| "xterm".into());
            all.insert("TERM".into(), terminal);
        }
        all.extend(image.clone());
        all.extend(network_environment(&self.spec.network));
        if self.host_certs {
            all.extend(certificates::environment());
        }
        all.extend(self.env.clone());
        all
    }
}
