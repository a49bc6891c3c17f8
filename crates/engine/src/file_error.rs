//! Why an operation on a file inside failed.

/// The kind of a failure, for callers that map it to an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileErrorKind {
    NotFound,
    NotAFile,
    /// The inside knows no user of that name.
    NoUser,
    NotADirectory,
    NotEmpty,
    Exists,
    Denied,
    Full,
    /// The path or the archive is not usable.
    Invalid,
    TooLarge,
    /// No process listens at the port.
    PortClosed,
    /// This sandbox cannot do it.
    Unsupported,
    /// The sandbox has gone.
    Lost,
    /// The guest did not answer in time.
    Silent,
    /// The guest did not keep to the protocol, or was killed from inside.
    Broken,
    Other,
}

#[derive(Debug, Clone, thiserror::Error)]
#[error("{}: {}", .path.escape_debug(), .detail.escape_debug())]
pub struct FileError {
    pub kind: FileErrorKind,
    /// 0 if no system call failed.
    pub errno: i32,
    pub path: String,
    /// The text comes from inside: it is not to be trusted, and is escaped before a person sees it.
    pub detail: String,
}

impl FileError {
    pub fn new(kind: FileErrorKind, path: &str, detail: String) -> FileError {
        FileError { kind, errno: 0, path: path.to_string(), detail }
    }

    pub fn from_errno(errno: i32, path: &str, step: String) -> FileError {
        use rustix::io::Errno;
        let kind = match Errno::from_raw_os_error(errno) {
            Errno::NOENT => FileErrorKind::NotFound,
            Errno::SRCH => FileErrorKind::NoUser,
            Errno::ISDIR | Errno::NXIO => FileErrorKind::NotAFile,
            Errno::NOTDIR => FileErrorKind::NotADirectory,
            Errno::NOTEMPTY => FileErrorKind::NotEmpty,
            Errno::EXIST => FileErrorKind::Exists,
            Errno::ACCESS | Errno::PERM | Errno::ROFS => FileErrorKind::Denied,
            Errno::NOSPC | Errno::DQUOT => FileErrorKind::Full,
            Errno::INVAL | Errno::LOOP | Errno::NAMETOOLONG | Errno::CANCELED => FileErrorKind::Invalid,
            Errno::FBIG | Errno::MSGSIZE => FileErrorKind::TooLarge,
            Errno::CONNREFUSED | Errno::TIMEDOUT => FileErrorKind::PortClosed,
            Errno::OPNOTSUPP | Errno::XDEV | Errno::BUSY => FileErrorKind::Unsupported,
            _ => FileErrorKind::Other,
        };
        let reason = std::io::Error::from_raw_os_error(errno).to_string();
        let reason = reason.split(" (os error").next().unwrap_or_default();
        // The path is in the error already.
        let step = step.strip_suffix(path).map_or(step.clone(), |step| format!("{step}it"));
        FileError { kind, errno, path: path.to_string(), detail: format!("{step}: {reason}") }
    }

    /// The stable code of the API.
    pub fn code(&self) -> &'static str {
        match self.kind {
            FileErrorKind::NotFound => "file_not_found",
            FileErrorKind::NotAFile => "not_a_file",
            FileErrorKind::NoUser => "unknown_user",
            FileErrorKind::NotADirectory => "not_a_directory",
            FileErrorKind::NotEmpty => "not_empty",
            FileErrorKind::Exists => "file_exists",
            FileErrorKind::Denied => "permission_denied",
            FileErrorKind::Full => "disk_full",
            FileErrorKind::Invalid => "invalid_path",
            FileErrorKind::TooLarge => "too_large",
            FileErrorKind::PortClosed => "port_closed",
            FileErrorKind::Unsupported => "unsupported",
            FileErrorKind::Lost | FileErrorKind::Silent | FileErrorKind::Broken => "guest_lost",
            FileErrorKind::Other => "invalid_request",
        }
    }
}
