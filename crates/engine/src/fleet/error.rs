//! One error for everything that a caller of the fleet can meet: a stable code, words, and what to do.

/// What sort of failure it is, for whoever maps it to a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The request itself is wrong.
    Invalid,
    Forbidden,
    NotFound,
    /// It exists already, or is in a state in which this cannot be done.
    Conflict,
    /// A quota, or the queue before it, is full.
    TooMany { retry_after_seconds: u32 },
    /// The request is larger than is taken.
    TooLarge,
    /// This machine cannot do it.
    Unsupported,
    /// It ended, and a day later it will be forgotten.
    Gone,
    /// Paddock itself failed.
    Internal,
    /// Full disk, lost guest, shutting down: later it may work.
    Unavailable,
}

#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct FleetError {
    pub kind: Kind,
    pub code: &'static str,
    pub message: String,
    pub hint: Option<String>,
}

impl FleetError {
    pub fn new(kind: Kind, code: &'static str, message: impl Into<String>) -> FleetError {
        FleetError { kind, code, message: message.into(), hint: None }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> FleetError {
        self.hint = Some(hint.into());
        self
    }
}
