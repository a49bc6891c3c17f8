use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why an image could not be had. Text that comes from an archive or a registry is escaped and shortened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ImageError {
    #[error("cannot {action} {}", .path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("the disk that holds {} is full", .path.display())]
    DiskFull { path: PathBuf },
    #[error("there is no image at {}", .path.display())]
    NoSuchPath { path: PathBuf },
    #[error("no template that was built here has the image built://{key}")]
    NotBuilt { key: String },
    #[error("{} is neither a directory nor an archive with something in it", .path.display())]
    NotAnImage { path: PathBuf },
    #[error("\"{reference}\" is not an image reference: {reason}")]
    BadReference { reference: String, reason: &'static str },
    #[error("the archive entry \"{entry}\" is refused: {refusal}")]
    RefusedEntry { entry: String, refusal: Refusal },
    #[error("the archive is damaged or cut short")]
    DamagedArchive { source: io::Error },
    #[error("the image has more than {allowed} {what}")]
    LimitExceeded { what: &'static str, allowed: u64 },
    #[error("{what} has the digest {found}, but {expected} was promised")]
    DigestMismatch { what: String, expected: String, found: String },
    #[error("{what} has {found} bytes, but {expected} were promised")]
    SizeMismatch { what: String, expected: u64, found: u64 },
    #[error("the layer {digest} is to be fetched from another place, which is not done")]
    ForeignLayer { digest: String },
    #[error("the media type \"{media_type}\" of {what} is not known")]
    UnknownMediaType { what: &'static str, media_type: String },
    #[error("malformed {what}: {reason}")]
    Malformed { what: &'static str, reason: String },
    #[error("the image is not made for {wanted}; on offer: {}", .offered.join(", "))]
    NoPlatform { wanted: String, offered: Vec<String> },
    #[error(
        "the registry {registry} is not for tenants of this server, nor for a name that a script or a model chose: {why}"
    )]
    RegistryRefused { registry: String, why: &'static str },
    #[error("the registry {registry} cannot be reached")]
    Unreachable { registry: String, source: Source },
    #[error("the registry {registry} does not let us read {repository}")]
    Unauthorized { registry: String, repository: String },
    #[error("the registry {registry} has no {what}")]
    NotInRegistry { registry: String, what: String },
    #[error("the registry {registry} asks us to slow down")]
    TooManyRequests { registry: String },
    #[error("the registry {registry} answered {status}: {detail}")]
    RegistryAnswer { registry: String, status: u16, detail: String },
    #[error("the work was cancelled")]
    Cancelled,
}

/// The rule that an archive entry broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    #[error("its name is absolute")]
    AbsoluteName,
    #[error("its name leads upwards")]
    ParentInName,
    #[error("its name has a NUL in it")]
    NulInName,
    #[error("its name is too long or too deep")]
    OverlongName,
    #[error("its name lies beyond a symbolic link")]
    BeyondSymlink,
    #[error("its name lies beyond a file that is no directory")]
    BeyondFile,
    #[error("it is the root, but not a directory")]
    RootNotDirectory,
    #[error("it is a device or a named pipe")]
    SpecialFile,
    #[error("it is a sparse file")]
    Sparse,
    #[error("its type is not known")]
    UnknownType,
    #[error("it links to something that is not a regular file of the image")]
    BadHardLink,
    #[error("its link target is empty, overlong or has a NUL in it")]
    BadSymlink,
    #[error("its owner is above 65534")]
    OwnerOutOfRange,
    #[error("its header holds a field that is no number")]
    BadHeader,
    #[error("its whiteout names nothing that could be removed")]
    BadWhiteout,
}

impl ImageError {
    /// The remedy for the caller, if there is one.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::DiskFull { .. } => "free some space, or put the state directory on a larger disk",
            Self::NotAnImage { .. } => {
                "give a directory, a tar archive, an OCI layout or a registry reference"
            }
            Self::NotBuilt { .. } => "build its template again: `paddock template build`",
            Self::NoSuchPath { .. } => {
                "check the path; an image of a registry has no leading /, ./, ../ or ~"
            }
            Self::BadReference { .. } => "write it as [registry/]name[:tag] or [registry/]name@sha256:digest",
            Self::RefusedEntry { refusal, .. } => return refusal.hint(),
            Self::DamagedArchive { .. } => "fetch or build the archive again",
            Self::DigestMismatch { .. } | Self::SizeMismatch { .. } => {
                "the content was changed or damaged on its way; fetch it again, and do not use it if it stays so"
            }
            Self::LimitExceeded { .. } => {
                "use a smaller image: the limit keeps one image from filling the host"
            }
            Self::UnknownMediaType { .. } => {
                "only images can be run: no other artifacts, no encrypted layers, no manifests of version 1"
            }
            Self::ForeignLayer { .. } => "push the image with all of its layers into one registry",
            Self::NoPlatform { .. } => "build or choose an image for this processor",
            Self::RegistryRefused { .. } => {
                "the owner of the server can name it with `paddock serve --registries`, or make a template of the image; where a \
                 script or a model chose the name, `--allow-net HOST:PORT` of the command that runs it vouches for it"
            }
            Self::Unreachable { source, .. } if is_name_failure(source.as_ref()) => {
                "the host name is not known: check its spelling, the network and the name server"
            }
            Self::Unreachable { .. } => "check the network, the port and the proxy settings",
            Self::Unauthorized { .. } => {
                "check the spelling of the name; for a private image run `docker login` first"
            }
            Self::NotInRegistry { .. } => {
                "check the name and the tag; no local file or directory has this name either"
            }
            Self::TooManyRequests { .. } => "wait a while, or run `docker login` for a higher limit",
            _ => return None,
        })
    }

    pub(super) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull { path },
            _ => Self::Io { action, path, source },
        }
    }

    pub(super) fn malformed(what: &'static str, reason: impl AsRef<str>) -> Self {
        Self::Malformed { what, reason: printable(reason.as_ref().as_bytes()) }
    }

    pub(super) fn refused(entry: &[u8], refusal: Refusal) -> Self {
        Self::RefusedEntry { entry: printable(entry), refusal }
    }
}

impl Refusal {
    fn hint(self) -> Option<&'static str> {
        Some(match self {
            Self::SpecialFile => "pack the archive without devices and pipes, e.g. with tar --exclude=./dev",
            Self::Sparse => "pack the archive without --sparse",
            Self::OwnerOutOfRange => "pack the archive with tar --owner=0 --group=0",
            Self::AbsoluteName | Self::ParentInName => {
                "pack the archive from inside its root: tar -C root -c ."
            }
            Self::BeyondSymlink => "pack the entry under the directory that the symbolic link stands for",
            _ => return None,
        })
    }
}

/// Hostile bytes as text that is safe in a terminal and in a log, and not too long.
pub(super) fn printable(bytes: &[u8]) -> String {
    const LONGEST: usize = 200;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * LONGEST)]);
    let mut escaped = text.chars().flat_map(char::escape_debug);
    let mut printed: String = escaped.by_ref().take(LONGEST).collect();
    if escaped.next().is_some() || bytes.len() > 4 * LONGEST {
        printed.push('…');
    }
    printed
}

fn is_name_failure(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source())
        .any(|error| error.to_string().contains("dns error"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_are_escaped_and_shortened() {
        assert_eq!(printable(b"\x1b]0;x\x07\n"), "\\u{1b}]0;x\\u{7}\\n");
        assert_eq!(printable("\u{202e}".as_bytes()), "\\u{202e}");
        assert_eq!(printable(&[b'a'; 10_000]).chars().count(), 201);
    }

    #[test]
    fn a_full_disk_is_told_apart() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let error = ImageError::io("write", Path::new("/x"), full);
        assert!(matches!(error, ImageError::DiskFull { .. }));
        assert!(error.hint().is_some());
    }
}
