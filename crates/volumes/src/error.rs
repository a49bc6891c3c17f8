//! The errors of a volume: a stable code, words, and a remedy.

use std::io;

#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    #[error("volume name `{}` is not allowed", .0.escape_debug())]
    Name(String),
    #[error("volume target `{}` {problem}", .path.escape_debug())]
    Target { path: String, problem: &'static str },
    #[error("there is no volume `{0}`")]
    NotFound(String),
    #[error("there is a volume `{0}` already")]
    Exists(String),
    #[error("volume `{volume}` has no version {version}")]
    NoVersion { volume: String, version: u64 },
    #[error("volume `{volume}` has no `{}` in version {version}", .path.escape_debug())]
    NoFile { volume: String, version: u64, path: String },
    #[error("path `{}` in volume `{volume}` {problem}", .path.escape_debug())]
    Path { volume: String, path: String, problem: &'static str },
    #[error("`{}` in volume `{volume}` is {is}", .path.escape_debug())]
    NotAFile { volume: String, path: String, is: &'static str },
    #[error("volume `{volume}` is written to by {holder}")]
    Busy { volume: String, holder: String, seconds: u64 },
    #[error("the lease of volume `{volume}` was lost to another writer: nothing was committed")]
    LeaseLost { volume: String },
    #[error("volume `{volume}` would have {wanted} {what}, and {allowed} are allowed")]
    Quota { volume: String, what: &'static str, wanted: u64, allowed: u64 },
    #[error("{what} of volume `{volume}` is damaged in the store: {reason}")]
    Corrupt { volume: String, what: String, reason: String },
    #[error("volume `{volume}` cannot be read with this key: {reason}")]
    Key { volume: String, reason: &'static str },
    #[error("{0} is not a key of volumes: it has to hold 32 bytes as base64")]
    KeyFile(String),
    #[error("`{}` in volume `{volume}` cannot be kept: {reason}", .path.escape_debug())]
    Unkept { volume: String, path: String, reason: String },
    #[error("volumes cannot be kept at `{url}`: {reason}")]
    Location { url: String, reason: String },
    #[error("the store of volumes is full: could not {step}")]
    Full { step: String, source: io::Error },
    #[error("the store of volumes did not let us {step}")]
    Denied { step: String, source: Box<object_store::Error> },
    #[error("the store of volumes does not answer as it should: could not {step}")]
    Store { step: String, source: Box<object_store::Error> },
    #[error("could not {step}")]
    Io { step: String, source: io::Error },
}

impl VolumeError {
    /// Stable, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            VolumeError::Name(_) | VolumeError::Target { .. } | VolumeError::Path { .. } => "invalid_request",
            VolumeError::NotAFile { .. } => "not_a_file",
            VolumeError::NotFound(_) => "volume_not_found",
            VolumeError::Exists(_) => "name_taken",
            VolumeError::NoVersion { .. } => "version_not_found",
            VolumeError::NoFile { .. } => "file_not_found",
            VolumeError::Busy { .. } => "volume_busy",
            VolumeError::LeaseLost { .. } => "lease_lost",
            VolumeError::Quota { .. } => "quota_exceeded",
            VolumeError::Corrupt { .. } => "volume_damaged",
            VolumeError::Key { .. } | VolumeError::KeyFile(_) => "volume_key",
            VolumeError::Unkept { .. } => "volume_content",
            VolumeError::Location { .. } => "volume_location",
            VolumeError::Full { .. } => "volume_store_full",
            VolumeError::Denied { .. } => "volume_store_denied",
            VolumeError::Store { .. } => "volume_store_unavailable",
            VolumeError::Io { .. } => "storage_failed",
        }
    }

    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            VolumeError::Name(_) => {
                "use 2 to 255 of A-Z, a-z, 0-9, `-`, `_` and `.`, with a letter or digit at both ends and no `..`"
            }
            VolumeError::Path { .. } => "write names with `/` between them, as in notes/today.md",
            VolumeError::NotAFile { .. } => "name a file; links are not followed",
            VolumeError::Target { .. } => "choose a place such as /data/NAME",
            VolumeError::NotFound(_) => "`paddock volume ls` lists those there are",
            VolumeError::NoVersion { .. } => "`paddock volume history` lists those that are kept",
            VolumeError::NoFile { .. } => "`paddock volume files` lists what there is",
            VolumeError::Busy { seconds, .. } => {
                return Some(format!(
                    "mount it with mode `ro`, or wait: its lease ends in {seconds} s unless it is renewed"
                ));
            }
            VolumeError::LeaseLost { .. } => {
                "this host did not reach the store for longer than a lease lasts; look at what the other writer made"
            }
            VolumeError::Quota { .. } => "remove what is not needed, or have the quota raised",
            VolumeError::Corrupt { .. } => {
                "other versions are not touched by it: `paddock volume restore` goes back to one"
            }
            VolumeError::Key { .. } => "set volumes_key to the file of the key that it was written with",
            VolumeError::Full { .. } => "free space in the store; what was committed before is all there",
            VolumeError::Denied { .. } => {
                "give the credentials the right to read, write, list and delete there"
            }
            VolumeError::Store { .. } => {
                "it was tried again and again; look whether the store is up, and try later"
            }
            _ => return None,
        };
        Some(hint.into())
    }

    /// From an error of the store that has no better meaning.
    pub(crate) fn store(step: impl Into<String>, error: object_store::Error) -> VolumeError {
        let step = step.into();
        if let Some(kind) = full(&error) {
            return VolumeError::Full { step, source: io::Error::new(kind, error) };
        }
        match is_denied(&error) {
            true => VolumeError::Denied { step, source: Box::new(error) },
            false => VolumeError::Store { step, source: Box::new(error) },
        }
    }

    pub(crate) fn io(step: impl Into<String>, error: impl Into<io::Error>) -> VolumeError {
        let (step, source) = (step.into(), error.into());
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => VolumeError::Full { step, source },
            _ => VolumeError::Io { step, source },
        }
    }
}

/// The crate says so of an object, and only in words of a list.
fn is_denied(error: &object_store::Error) -> bool {
    use object_store::Error::{PermissionDenied, Unauthenticated};
    if matches!(error, PermissionDenied { .. } | Unauthenticated { .. }) {
        return true;
    }
    let words = ["status code: 401 Unauthorized", "status code: 403 Forbidden"];
    sources(error).any(|error| {
        let text = error.to_string();
        words.iter().any(|words| text.contains(words))
    })
}

fn sources<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| error.source())
}

/// Kernels say it by a number; the servers of S3 each in their own words.
fn full(error: &object_store::Error) -> Option<io::ErrorKind> {
    for error in sources(error) {
        let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
        if let Some(kind @ (io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)) = kind {
            return Some(kind);
        }
        let text = error.to_string();
        if ["StorageFull", "QuotaExceeded", "507 Insufficient Storage", "InsufficientCapacity"]
            .iter()
            .any(|words| text.contains(words))
        {
            return Some(io::ErrorKind::StorageFull);
        }
    }
    None
}
