//! One error for everything that a caller of the fleet can meet: a stable code, words, and what to do.

use paddock_model::api::ErrorDetails;

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
    pub details: Option<Box<ErrorDetails>>,
}

impl FleetError {
    pub fn new(kind: Kind, code: &'static str, message: impl Into<String>) -> FleetError {
        FleetError { kind, code, message: message.into(), hint: None, details: None }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> FleetError {
        self.hint = Some(hint.into());
        self
    }

    pub fn details(mut self, details: ErrorDetails) -> FleetError {
        self.details = Some(Box::new(details));
        self
    }
}

impl FleetError {
    pub fn internal(error: &(dyn std::error::Error + 'static)) -> FleetError {
        FleetError::new(Kind::Internal, "internal", super::request::chain(error)).or_full(error)
    }

    pub fn storage(error: &(dyn std::error::Error + 'static)) -> FleetError {
        FleetError::new(Kind::Unavailable, "storage_failed", super::request::chain(error)).or_full(error)
    }

    /// A disk that is full, or that takes no writes, is said to be so, wherever it was met.
    fn or_full(self, error: &(dyn std::error::Error + 'static)) -> FleetError {
        use std::io::ErrorKind;
        match io_cause(error) {
            Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
                let full = FleetError { kind: Kind::Unavailable, code: "disk_full", ..self };
                full.maybe_hint(Some(
                    "free some space on the state directory's disk; `paddock top` shows what sandboxes hold"
                        .into(),
                ))
            }
            Some(ErrorKind::ReadOnlyFilesystem) => {
                let failed = FleetError { kind: Kind::Unavailable, code: "storage_failed", ..self };
                failed.maybe_hint(Some("make the state directory's file system writable again".into()))
            }
            _ => self,
        }
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
            EngineError::Image { source: crate::images::ImageError::RegistryRefused { .. }, .. } => {
                (Kind::Forbidden, "registry_refused")
            }
            EngineError::Image { .. } => (Kind::Invalid, "image_failed"),
            EngineError::Limits(_) => (Kind::Invalid, "invalid_request"),
            EngineError::Lost { .. } => (Kind::Unavailable, "guest_lost"),
            _ => (Kind::Internal, "internal"),
        };
        FleetError::new(kind, code, super::request::chain(&error)).maybe_hint(hint).or_full(&error)
    }
}

/// What the kernel said, where it was the kernel.
fn io_cause(error: &(dyn std::error::Error + 'static)) -> Option<std::io::ErrorKind> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(io) = error.downcast_ref::<std::io::Error>() {
            return Some(io.kind());
        }
        next = error.source();
    }
    None
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
            AdmissionError::NoRoom { .. } => {
                return FleetError::new(
                    Kind::TooMany { retry_after_seconds: 5 },
                    "quota_exceeded",
                    error.to_string(),
                )
                .hint("ask for less, or end sandboxes that are not needed");
            }
            AdmissionError::Full { retry_after_seconds, .. }
            | AdmissionError::Late { retry_after_seconds, .. } => *retry_after_seconds,
        };
        FleetError::new(Kind::TooMany { retry_after_seconds }, "quota_exceeded", error.to_string())
            .hint("end sandboxes that are not needed, or try again later")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::StorageError;

    #[test]
    fn a_full_disk_is_said_to_be_full_wherever_it_was_met() {
        for (errno, code) in [
            (libc::ENOSPC, "disk_full"),
            (libc::EDQUOT, "disk_full"),
            (libc::EROFS, "storage_failed"),
            (libc::EIO, "storage_failed"),
        ] {
            let source = std::io::Error::from_raw_os_error(errno);
            let error = FleetError::storage(&StorageError::Failed { step: "make a disk".into(), source });
            assert_eq!((error.kind, error.code), (Kind::Unavailable, code), "{errno}");
            assert_eq!(error.hint.is_some(), errno != libc::EIO, "{errno}");
            let source = std::io::Error::from_raw_os_error(errno);
            let step = "write a file".into();
            let error = FleetError::from(crate::EngineError::from(paddock_backends::CreateError::Host {
                step,
                source,
            }));
            let expected = if errno == libc::EIO { "internal" } else { code };
            assert_eq!(error.code, expected, "{errno}");
        }
    }
}
