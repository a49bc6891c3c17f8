//! The server's log: lines on standard error, for people or as JSON. The filter can be changed while the server runs.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

/// Chooses the logged events, as in `paddock_server=debug,warn`.
const FILTER_VARIABLE: &str = "PADDOCK_LOG";

/// Other crates log only warnings: they do not know which values are secret here.
const DEFAULT_FILTER: &str = "paddock=info,paddock_server=info,paddock_engine=info,warn";

/// The longest filter file in bytes; a longer file is no filter.
const LONGEST_FILTER: usize = 4096;

static FILTER: OnceLock<reload::Handle<EnvFilter, Registry>> = OnceLock::new();

#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("the log filter `{}` cannot be read", .path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("`{}` holds no log filter: {reason}", .path.display())]
    NotAFilter { path: PathBuf, reason: String },
    #[error("the log's filter cannot be changed: {0}")]
    Stuck(String),
}

impl LogError {
    pub fn hint(&self) -> Option<String> {
        match self {
            LogError::Stuck(_) => None,
            _ => Some("write it as in PADDOCK_LOG, for example: paddock_server=debug,info".into()),
        }
    }
}

/// Once per process; a second call changes nothing. A file decides before the variable.
pub fn start_log(json: bool, filter_file: Option<&Path>) -> Result<(), LogError> {
    let filter = match filter_file {
        Some(path) => read_filter(path)?,
        None => EnvFilter::try_from_env(FILTER_VARIABLE).unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER)),
    };
    let (filter, handle) = reload::Layer::new(filter);
    let lines = fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    let registry = tracing_subscriber::registry().with(filter);
    let started = match json {
        true => registry.with(lines.json().flatten_event(true)).try_init(),
        false => registry.with(lines).try_init(),
    };
    if started.is_ok() {
        let _ = FILTER.set(handle);
    }
    Ok(())
}

/// Sets the filter from now on. If the file cannot be used, the former filter stays.
pub(crate) fn reload_filter(path: &Path) -> Result<(), LogError> {
    let filter = read_filter(path)?;
    let Some(handle) = FILTER.get() else { return Ok(()) };
    handle.reload(filter).map_err(|error| LogError::Stuck(error.to_string()))
}

fn read_filter(path: &Path) -> Result<EnvFilter, LogError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| LogError::Unreadable { path: path.to_path_buf(), source })?;
    let refused = |reason: String| LogError::NotAFilter { path: path.to_path_buf(), reason };
    let text = text.trim();
    if text.is_empty() {
        return Ok(EnvFilter::new(DEFAULT_FILTER));
    }
    if text.len() > LONGEST_FILTER {
        return Err(refused(format!(
            "it has {} bytes, and no filter has more than {LONGEST_FILTER}",
            text.len()
        )));
    }
    EnvFilter::try_new(text).map_err(|error| refused(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_filter_is_taken_from_the_file() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        for (text, good) in [("paddock_server=debug,info\n", true), ("", true), ("paddock=loud", false)] {
            std::fs::write(file.path(), text).expect("writes");
            assert_eq!(read_filter(file.path()).is_ok(), good, "{text:?}");
        }
        std::fs::write(file.path(), "x".repeat(LONGEST_FILTER + 1)).expect("writes");
        assert!(read_filter(file.path()).is_err());
        assert!(matches!(read_filter(Path::new("/nonexistent")), Err(LogError::Unreadable { .. })));
    }
}
