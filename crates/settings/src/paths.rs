//! Paths of the host that may be shown inside, and places inside where they may stand.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Component, Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum PathError {
    #[error("{what} `{}` {problem}", .path.escape_debug())]
    Malformed { what: &'static str, path: String, problem: &'static str },
    #[error("{what} `{}` does not exist", .path.display())]
    Missing { what: &'static str, path: PathBuf },
    #[error("{what} `{}` cannot be used", .path.display())]
    Unusable { what: &'static str, path: PathBuf, source: io::Error },
    #[error("{what} `{}` is refused: {reason}", .path.display())]
    Refused { what: &'static str, path: PathBuf, reason: String, remedy: &'static str },
}

impl PathError {
    pub fn hint(&self) -> Option<String> {
        match self {
            PathError::Refused { remedy, .. } => Some(remedy.to_string()),
            _ => None,
        }
    }
}

/// Why a path may not be used, and the remedy.
pub struct Refusal {
    pub reason: String,
    pub remedy: &'static str,
}

const LONGEST_PATH: usize = 4095;

/// With everything below them: the host's kernel and services, never files of a project.
const OF_THE_KERNEL: [(&str, &str); 3] = [
    ("/proc", "it shows the host's processes"),
    ("/sys", "it is the host kernel's own"),
    ("/dev", "it holds the host's devices"),
];

/// With everything below them: a process that can write there takes over the host.
const OF_THE_SYSTEM: [&str; 3] = ["/boot", "/etc", "/usr"];
/// Directories below a system directory in which people keep sources.
const SOURCES: [&str; 2] = ["/usr/src", "/usr/local/src"];

/// These directories alone, without the paths below them: they belong to the system and to every user.
const SHARED: [&str; 15] = [
    "/bin", "/home", "/lib", "/lib32", "/lib64", "/libx32", "/mnt", "/media", "/opt", "/sbin", "/srv",
    "/tmp", "/var", "/var/lib", "/var/tmp",
];

const CHOOSE_A_PROJECT: &str = "name the project's own directory";
const MOVE_THE_STATE: &str =
    "name a directory that does not hold Paddock's state, or set PADDOCK_STATE_DIR to another place";

/// `SRC[:TARGET]`. Only the last colon divides, so that a source may hold one if a target is given.
pub fn split_mount(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        Some((source, target)) => (source, Some(target)),
        None => (text, None),
    }
}

/// A host path and its place inside; without a target, the same place.
pub fn host_mount(
    what: &'static str,
    text: &str,
    refuse: impl Fn(&Path) -> Option<Refusal>,
) -> Result<(PathBuf, PathBuf), PathError> {
    let (source, target) = split_mount(text);
    // The target is checked first, so that `SRC:TARGET:ro`, a habit from Docker, gets an error about `ro`.
    let target = target.map(|target| mount_target("target", target)).transpose()?;
    let source = host(what, source)?;
    refused(what, &source, refuse(&source))?;
    let target = target.map_or_else(|| mount_target("target", &source.to_string_lossy()), Ok)?;
    Ok((source, target))
}

/// A path of the host: absolute, without symbolic links, printable.
pub fn host(what: &'static str, text: &str) -> Result<PathBuf, PathError> {
    check_text(what, text)?;
    let path = std::fs::canonicalize(text).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => PathError::Missing { what, path: text.into() },
        _ => PathError::Unusable { what, path: text.into(), source },
    })?;
    // A link can lead to a name with characters that the caller never typed.
    match path.to_str() {
        Some(resolved) => check_text(what, resolved)?,
        None => return Err(malformed(what, &path.to_string_lossy(), "is not UTF-8 text")),
    }
    Ok(path)
}

/// A path inside: absolute, and normalised.
pub fn inside(what: &'static str, text: &str) -> Result<PathBuf, PathError> {
    check_text(what, text)?;
    let path = Path::new(text);
    if !path.is_absolute() {
        return Err(malformed(what, text, "is not absolute: inside, a path begins with `/`"));
    }
    if path.components().any(|part| part == Component::ParentDir) {
        return Err(malformed(what, text, "holds `..`"));
    }
    Ok(path.components().collect())
}

/// A path inside on which something may be mounted.
pub fn mount_target(what: &'static str, text: &str) -> Result<PathBuf, PathError> {
    let path = inside(what, text)?;
    let own = path == Path::new("/") || OF_THE_KERNEL.iter().any(|(own, _)| path.starts_with(own));
    if own {
        return Err(PathError::Refused {
            what,
            path,
            reason: "the sandbox has its own there".to_string(),
            remedy: "choose another place inside, such as /data",
        });
    }
    Ok(path)
}

/// Why a path may not be shown read-only, the image among them; `None` if it may.
pub fn refuse_source(path: &Path, state_dir: &Path) -> Option<Refusal> {
    let remedy = "name a directory or a file that the code inside may know";
    if path == Path::new("/") {
        return Some(Refusal { reason: "it is the whole host".to_string(), remedy });
    }
    if let Some((_, reason)) = OF_THE_KERNEL.iter().find(|(own, _)| path.starts_with(own)) {
        return Some(Refusal { reason: reason.to_string(), remedy });
    }
    if path.starts_with(state_dir) {
        return Some(Refusal { reason: "it is Paddock's own state".to_string(), remedy });
    }
    let kind = std::fs::symlink_metadata(path).ok()?.file_type();
    let reason = match () {
        () if kind.is_socket() => "it is a socket, and leads out of the sandbox",
        () if kind.is_fifo() => "it is a pipe, and leads out of the sandbox",
        () if kind.is_block_device() || kind.is_char_device() => "it is a device",
        // The regular files below /run, such as secrets, may be shown one by one.
        () if kind.is_dir() && path.starts_with("/run") => "it holds the sockets of the host's services",
        () => return None,
    };
    Some(Refusal { reason: reason.to_string(), remedy })
}

/// Why a path may not be shown writable, the workspace among them; `None` if it may.
pub fn refuse_writable(path: &Path, state_dir: &Path) -> Option<Refusal> {
    if let Some(refusal) = refuse_source(path, state_dir) {
        return Some(Refusal { remedy: CHOOSE_A_PROJECT, ..refusal });
    }
    let sources = |path: &Path| SOURCES.iter().any(|kept| path.starts_with(kept) && path != Path::new(kept));
    let system = OF_THE_SYSTEM.iter().any(|own| path.starts_with(own)) && !sources(path);
    if system || SHARED.iter().any(|shared| path == Path::new(shared)) {
        return Some(Refusal { reason: "it is a system directory".to_string(), remedy: CHOOSE_A_PROJECT });
    }
    if state_dir.starts_with(path) {
        let reason = format!("it holds Paddock's own state ({})", state_dir.display());
        return Some(Refusal { reason, remedy: MOVE_THE_STATE });
    }
    None
}

pub fn refused(what: &'static str, path: &Path, refusal: Option<Refusal>) -> Result<(), PathError> {
    match refusal {
        Some(Refusal { reason, remedy }) => {
            Err(PathError::Refused { what, path: path.to_path_buf(), reason, remedy })
        }
        None => Ok(()),
    }
}

fn check_text(what: &'static str, text: &str) -> Result<(), PathError> {
    let problem = match text {
        "" => "is empty",
        _ if text.contains('\0') => "holds a NUL",
        _ if text.contains(['\n', '\r']) => "holds a newline",
        _ if text.len() > LONGEST_PATH => "is longer than 4095 bytes",
        _ => return Ok(()),
    };
    Err(malformed(what, text, problem))
}

pub fn malformed(what: &'static str, text: &str, problem: &'static str) -> PathError {
    PathError::Malformed { what, path: text.chars().take(200).collect(), problem }
}
