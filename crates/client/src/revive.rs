//! A server that the caller may start: the client asks for it when a connection is lost.

use std::error::Error;

/// Starts the server again if it has ended.
pub trait Revive: Send + Sync {
    /// Returns when a server answers at the client's address. Blocks.
    fn ensure(&self) -> Result<(), NotStarted>;
}

/// Why the caller has no server, in the words of the part that would have started it.
#[derive(Debug)]
pub struct NotStarted {
    error: Box<dyn Error + Send + Sync>,
    pub hint: Option<String>,
}

impl NotStarted {
    pub fn new(error: impl Error + Send + Sync + 'static, hint: Option<String>) -> NotStarted {
        NotStarted { error: Box::new(error), hint }
    }
}

impl std::fmt::Display for NotStarted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(f)
    }
}

impl Error for NotStarted {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}
