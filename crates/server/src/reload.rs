//! SIGHUP: the settings that can change while the server runs are read again. A part that cannot be read stays as it
//! was.

use crate::log;
use crate::tls::Tls;
use std::error::Error;
use std::path::PathBuf;

/// The files that are read again.
#[derive(Clone, Default)]
pub struct Reload {
    pub tls: Option<Tls>,
    pub log_filter: Option<PathBuf>,
}

impl Reload {
    /// Blocks for a moment. The log tells the result of each part.
    pub fn now(&self) {
        if let Some(path) = &self.log_filter {
            tell("log filter", log::reload_filter(path).map_err(Box::from));
        }
        if let Some(tls) = &self.tls {
            tell("certificate", tls.reload().map_err(Box::from));
        }
        if self.tls.is_none() && self.log_filter.is_none() {
            tracing::warn!(
                "asked to reload, and there is nothing: neither --tls-cert nor --log-filter was given"
            );
        }
    }
}

fn tell(part: &str, result: Result<(), Box<dyn Error>>) {
    match result {
        Ok(()) => tracing::warn!("reloaded the {part}"),
        Err(error) => {
            let mut reason = error.to_string();
            let mut source = error.source();
            while let Some(cause) = source {
                reason = format!("{reason}: {cause}");
                source = cause.source();
            }
            tracing::error!(reason, "could not reload the {part}; it stays as it was");
        }
    }
}
