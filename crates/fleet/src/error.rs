//! One error for everything that a caller of the fleet can meet: a stable code, words, and a remedy.

use paddock_backends::{CreateError, HostLimit};
use paddock_engine::descriptors::Descriptors;
use paddock_model::api::ErrorDetails;

const MORE_FILES: &str = "try again in a moment; end sandboxes, commands or streams that are not needed, or start the server with more (`ulimit -n`); `paddock doctor --for NUMBER` says how many that many sandboxes need";
const MORE_PROCESSES: &str = "try again in a moment; end sandboxes or commands that are not needed, or let the server have more processes (`ulimit -u`, pids.max); `paddock doctor --for NUMBER` says how many that many sandboxes need";
const MORE_MEMORY: &str =
    "try again in a moment; end sandboxes that are not needed, or give the host more memory";
const LESS_FREE: &str = "try again in a moment; end or hibernate sandboxes that are not needed, create them with `under_pressure` `hibernate`, give the host more memory, or start the server with a smaller --keep-free";

/// The kind of a failure, for callers that map it to a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The request itself is wrong.
    Invalid,
    Forbidden,
    NotFound,
    /// The thing exists already, or is in a state in which this cannot be done.
    Conflict,
    /// A quota, or the queue before it, is full.
    TooMany {
        retry_after_seconds: u32,
    },
    /// The request is larger than the server takes.
    TooLarge,
    /// This host cannot do it.
    Unsupported,
    /// The sandbox has ended; a day later it will be forgotten.
    Gone,
    /// Paddock itself failed.
    Internal,
    /// Full disk, lost guest, shutting down: it may work later.
    Unavailable,
    /// The host has too little of something right now: the caller may ask again after this time.
    Busy {
        retry_after_seconds: u32,
    },
}

impl Kind {
    pub const fn retry_after_seconds(self) -> Option<u32> {
        match self {
            Kind::TooMany { retry_after_seconds } | Kind::Busy { retry_after_seconds } => {
                Some(retry_after_seconds)
            }
            _ => None,
        }
    }
}

/// The time after which a host that had too little may have more.
const BUSY: Kind = Kind::Busy { retry_after_seconds: 5 };

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
    /// The HTTP status of an answer with this error.
    pub fn status(&self) -> u16 {
        match (self.code, self.kind) {
            ("port_closed", _) => 502,
            ("disk_full" | "volume_store_full", _) => 507,
            (_, Kind::Invalid) => 400,
            (_, Kind::Forbidden) => 403,
            (_, Kind::NotFound) => 404,
            (_, Kind::Conflict) => 409,
            (_, Kind::TooMany { .. }) => 429,
            (_, Kind::TooLarge) => 413,
            // Understood and well formed, but impossible on this host.
            (_, Kind::Unsupported) => 422,
            (_, Kind::Gone) => 410,
            (_, Kind::Internal) => 500,
            (_, Kind::Unavailable | Kind::Busy { .. }) => 503,
        }
    }

    pub fn internal(error: &(dyn std::error::Error + 'static)) -> FleetError {
        FleetError::new(Kind::Internal, "internal", super::request::chain(error)).or_full(error)
    }

    pub fn storage(error: &(dyn std::error::Error + 'static)) -> FleetError {
        FleetError::new(Kind::Unavailable, "storage_failed", super::request::chain(error)).or_full(error)
    }

    /// Checked before something new begins: the last descriptors are for ending things.
    pub fn unless_descriptors_are_left() -> Result<(), FleetError> {
        let descriptors = Descriptors::now();
        if descriptors.has_room() {
            return Ok(());
        }
        let Descriptors { open, most } = descriptors;
        let message = format!(
            "the server has {open} of {most} file descriptors open, and keeps the rest for ending things"
        );
        Err(FleetError::new(BUSY, "too_many_open_files", message).hint(MORE_FILES))
    }

    /// The server found the shortage before the kernel did.
    pub fn short_of_memory(message: String) -> FleetError {
        FleetError::new(BUSY, "host_out_of_memory", message).hint(LESS_FREE)
    }

    /// Names a shortage of the host as such, at whatever step it was met.
    fn or_short(self, error: &(dyn std::error::Error + 'static)) -> FleetError {
        let (code, hint) = match os_error(error) {
            Some(libc::EMFILE | libc::ENFILE) => ("too_many_open_files", MORE_FILES),
            Some(libc::EAGAIN) => ("too_many_processes", MORE_PROCESSES),
            Some(libc::ENOMEM) => ("host_out_of_memory", MORE_MEMORY),
            _ => return self,
        };
        FleetError { kind: BUSY, code, ..self }.maybe_hint(Some(hint.into()))
    }

    /// A limit of the host that the backend has named: its errno alone would be taken for a full disk.
    fn limited(self, limit: HostLimit) -> FleetError {
        let code = match limit {
            HostLimit::Namespaces(_) => "too_many_namespaces",
            HostLimit::Mounts => "too_many_mounts",
            HostLimit::CgroupsBelow | HostLimit::MemoryCgroups => "too_many_cgroups",
            HostLimit::Places => "too_many_sandboxes",
        };
        FleetError { kind: BUSY, code, ..self }.hint(limit.hint())
    }

    /// Names a disk that is full, or takes no writes, as such, at whatever step it was met.
    fn or_full(self, error: &(dyn std::error::Error + 'static)) -> FleetError {
        use std::io::ErrorKind;
        if let Some(limit) = causes(error).find_map(host_limit) {
            return self.limited(limit);
        }
        if let Some(paddock_storage::StorageError::Broken { .. }) = error.downcast_ref() {
            let full = FleetError { kind: Kind::Unavailable, code: "disk_full", ..self };
            return full.maybe_hint(Some(
                "free some space on the state directory's disk: the server then mounts the storage anew by itself, and sandboxes wake up from their files"
                    .into(),
            ));
        }
        match io_cause(error).map(std::io::Error::kind) {
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
            _ => self.or_short(error),
        }
    }

    fn maybe_hint(self, hint: Option<String>) -> FleetError {
        FleetError { hint: hint.or(self.hint.clone()), ..self }
    }
}

/// The code of an error: the first request with this idempotency key is not finished.
pub const REQUEST_UNDER_WAY: &str = "request_under_way";

/// The code of an error: another server has the state directory.
pub const STATE_IN_USE: &str = "state_in_use";

impl From<paddock_records::store::StoreError> for FleetError {
    fn from(error: paddock_records::store::StoreError) -> FleetError {
        use paddock_records::store::StoreError;
        let hint = error.hint();
        let (kind, code) = match &error {
            StoreError::NameTaken { .. } => (Kind::Conflict, "name_taken"),
            StoreError::Cursor { .. } => (Kind::Invalid, "invalid_request"),
            StoreError::Full { .. } => (Kind::Unavailable, "disk_full"),
            StoreError::Locked { .. } => (Kind::Unavailable, STATE_IN_USE),
            _ => (Kind::Unavailable, "storage_failed"),
        };
        FleetError::new(kind, code, super::request::chain(&error)).maybe_hint(hint)
    }
}

impl From<paddock_builds::FirstUseError> for FleetError {
    fn from(error: paddock_builds::FirstUseError) -> FleetError {
        use paddock_builds::FirstUseError;
        let (kind, code) = match &error {
            FirstUseError::Building { .. } => (Kind::Busy { retry_after_seconds: 15 }, "template_building"),
            FirstUseError::Failed { .. } => (Kind::Unsupported, "template_build_failed"),
            FirstUseError::Template(_) => (Kind::Internal, "internal"),
            _ => (Kind::Invalid, "invalid_request"),
        };
        FleetError::new(kind, code, super::request::chain(&error)).hint(error.hint())
    }
}

impl From<paddock_engine::EngineError> for FleetError {
    fn from(error: paddock_engine::EngineError) -> FleetError {
        use paddock_backends::SelectError;
        use paddock_engine::EngineError;
        let hint = error.hint();
        let (kind, code) = match &error {
            EngineError::Select(SelectError::Unknown { .. }) => (Kind::Invalid, "invalid_request"),
            EngineError::Select(SelectError::Requirement { .. }) => {
                (Kind::Unsupported, "requirement_not_met")
            }
            EngineError::Create(CreateError::Requirement { .. }) => {
                (Kind::Unsupported, "requirement_not_met")
            }
            EngineError::Create(CreateError::Unavailable { .. } | CreateError::Unsupported { .. }) => {
                (Kind::Unsupported, "unsupported")
            }
            EngineError::Create(CreateError::Mount { .. }) => (Kind::Invalid, "invalid_request"),
            EngineError::Image { source: paddock_images::ImageError::RegistryRefused { .. }, .. } => {
                (Kind::Forbidden, "registry_refused")
            }
            EngineError::Image { .. } => (Kind::Invalid, "image_failed"),
            EngineError::Limits(_) => (Kind::Invalid, "invalid_request"),
            EngineError::Certificates(_) => (Kind::Unsupported, "host_certs_unusable"),
            EngineError::CommandTooLarge { .. } => (Kind::TooLarge, "too_large"),
            EngineError::Lost { .. } | EngineError::Silent { .. } => (Kind::Unavailable, "guest_lost"),
            _ => (Kind::Internal, "internal"),
        };
        FleetError::new(kind, code, super::request::chain(&error)).maybe_hint(hint).or_full(&error)
    }
}

/// The limit that this error itself names. An error of the engine wraps that of a create.
fn host_limit(error: &(dyn std::error::Error + 'static)) -> Option<HostLimit> {
    let wrapped = match error.downcast_ref::<paddock_engine::EngineError>() {
        Some(paddock_engine::EngineError::Create(create)) => Some(create),
        _ => None,
    };
    match wrapped.or_else(|| error.downcast_ref::<CreateError>())? {
        CreateError::Limit { limit, .. } => Some(*limit),
        _ => None,
    }
}

/// The kernel's error, if the cause was one.
fn io_cause<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a std::io::Error> {
    causes(error).find_map(|error| error.downcast_ref::<std::io::Error>())
}

fn os_error(error: &(dyn std::error::Error + 'static)) -> Option<i32> {
    let number = |error: &(dyn std::error::Error + 'static)| {
        let io = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error);
        io.or_else(|| error.downcast_ref::<rustix::io::Errno>().map(|errno| errno.raw_os_error()))
    };
    causes(error).find_map(number)
}

fn causes<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| error.source())
}

impl From<paddock_records::access::AdmissionError> for FleetError {
    fn from(error: paddock_records::access::AdmissionError) -> FleetError {
        use paddock_records::access::AdmissionError;
        let retry_after_seconds = match &error {
            // No wait could help.
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
    use paddock_storage::StorageError;

    #[test]
    fn what_the_host_has_too_little_of_is_said_wherever_it_was_met() {
        for (errno, code) in [
            (libc::EMFILE, "too_many_open_files"),
            (libc::ENFILE, "too_many_open_files"),
            (libc::EAGAIN, "too_many_processes"),
            (libc::ENOMEM, "host_out_of_memory"),
        ] {
            let source = || std::io::Error::from_raw_os_error(errno);
            let host = paddock_backends::CreateError::Host { step: "fork".into(), source: source() };
            let storage = StorageError::Failed { step: "make a disk".into(), source: source() };
            for error in [
                FleetError::from(paddock_engine::EngineError::from(host)),
                FleetError::storage(&storage),
                FleetError::internal(&rustix::io::Errno::from_raw_os_error(errno)),
            ] {
                assert_eq!((error.kind, error.code, error.hint.is_some()), (BUSY, code, true), "{errno}");
            }
        }
    }

    #[test]
    fn a_limit_of_the_host_is_not_taken_for_a_full_disk() {
        for (limit, code, setting) in [
            (HostLimit::Namespaces("net"), "too_many_namespaces", "user.max_net_namespaces"),
            (HostLimit::Mounts, "too_many_mounts", "fs.mount-max"),
            (HostLimit::CgroupsBelow, "too_many_cgroups", "cgroup.max.descendants"),
        ] {
            let refused = || limit.refused(std::io::Error::from_raw_os_error(libc::ENOSPC));
            for error in [
                FleetError::from(paddock_engine::EngineError::from(refused())),
                FleetError::internal(&refused()),
                FleetError::storage(&paddock_engine::EngineError::from(refused())),
            ] {
                assert_eq!((error.kind, error.code), (BUSY, code));
                let hint = error.hint.unwrap_or_default();
                assert!(hint.contains(setting) && hint.contains("paddock doctor --for"), "{hint}");
            }
        }
    }

    #[test]
    fn a_storage_that_a_full_disk_broke_is_full_and_not_forbidden() {
        let error = FleetError::storage(&StorageError::Broken { file: "storage.btrfs".into() });
        assert_eq!((error.kind, error.code), (Kind::Unavailable, "disk_full"));
        assert!(error.hint.is_some());
    }

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
            let error =
                FleetError::from(paddock_engine::EngineError::from(paddock_backends::CreateError::Host {
                    step,
                    source,
                }));
            let expected = if errno == libc::EIO { "internal" } else { code };
            assert_eq!(error.code, expected, "{errno}");
        }
    }
}
