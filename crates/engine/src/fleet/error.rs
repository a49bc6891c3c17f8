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
    TooMany {
        retry_after_seconds: u32,
    },
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

impl FleetError {
    pub fn internal(error: &dyn std::error::Error) -> FleetError {
        FleetError::new(Kind::Internal, "internal", super::request::chain(error))
    }

    pub fn storage(error: &dyn std::error::Error) -> FleetError {
        FleetError::new(Kind::Unavailable, "storage_failed", super::request::chain(error))
    }

    fn maybe_hint(self, hint: Option<String>) -> FleetError {
        FleetError { hint: hint.or(self.hint.clone()), ..self }
    }
}

impl From<crate::store::StoreError> for FleetError {
    fn from(error: crate::store::StoreError) -> FleetError {
        use crate::store::StoreError;
        let hint = error.hint();
        let (kind, code) = match &error {
            StoreError::NameTaken { .. } => (Kind::Conflict, "name_taken"),
            StoreError::Cursor { .. } => (Kind::Invalid, "invalid_request"),
            StoreError::Full { .. } => (Kind::Unavailable, "disk_full"),
            _ => (Kind::Unavailable, "storage_failed"),
        };
        FleetError::new(kind, code, super::request::chain(&error)).maybe_hint(hint)
    }
}

impl From<crate::EngineError> for FleetError {
    fn from(error: crate::EngineError) -> FleetError {
        use crate::EngineError;
        use paddock_backends::{CreateError, SelectError};
        let hint = error.hint();
        let (kind, code) = match &error {
            EngineError::Select(SelectError::Unknown { .. }) => (Kind::Invalid, "invalid_request"),
            EngineError::Select(SelectError::Requirement { .. }) => {
                (Kind::Unsupported, "requirement_not_met")
            }
            EngineError::Create(CreateError::Requirement { .. }) => {
                (Kind::Unsupported, "requirement_not_met")
            }
            EngineError::Create(CreateError::Unavailable { .. }) => (Kind::Unsupported, "unsupported"),
            EngineError::Create(CreateError::Mount { .. }) => (Kind::Invalid, "invalid_request"),
            EngineError::Image { .. } => (Kind::Invalid, "image_failed"),
            EngineError::Limits(_) => (Kind::Invalid, "invalid_request"),
            EngineError::Lost { .. } => (Kind::Unavailable, "guest_lost"),
            _ => (Kind::Internal, "internal"),
        };
        FleetError::new(kind, code, super::request::chain(&error)).maybe_hint(hint)
    }
}

impl From<crate::access::AdmissionError> for FleetError {
    fn from(error: crate::access::AdmissionError) -> FleetError {
        use crate::access::AdmissionError;
        let retry_after_seconds = match &error {
            // However long one waits.
            AdmissionError::Never { .. } => {
                return FleetError::new(Kind::Forbidden, "quota_exceeded", error.to_string())
                    .hint("ask for less, or have the quota raised");
            }
            AdmissionError::Full { retry_after_seconds, .. }
            | AdmissionError::Late { retry_after_seconds, .. } => *retry_after_seconds,
        };
        FleetError::new(Kind::TooMany { retry_after_seconds }, "quota_exceeded", error.to_string())
            .hint("end sandboxes that are not needed, or try again later")
    }
}
