//! The QEMU of this host: where it is, and which release.

use crate::installed::{self, Stamp, stamp};
use paddock_fences::error::CreateError;
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// Names another file than the first `qemu-system-x86_64` of the path. Declared with all others in the command's
/// `env_vars`.
pub const VARIABLE: &str = "PADDOCK_QEMU";
pub const REMEDY: &str = "run as root: apt-get install --no-install-recommends qemu-system-x86 (Debian, Ubuntu), or: dnf install qemu-system-x86-core (Fedora)";
const PROGRAM: &str = "qemu-system-x86_64";
/// The first release whose VMs were tried.
const OLDEST: (u32, u32) = (7, 2);
/// The only directory of the host that the fence around a VM shows: QEMU's libraries are there too.
const PLACE: &str = "/usr";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runtime {
    pub path: PathBuf,
    pub stamp: Stamp,
    pub version: String,
}

pub fn find() -> Result<Runtime> {
    // Asking it starts a process, so that it is asked once.
    static FOUND: Mutex<Option<Runtime>> = Mutex::new(None);
    let path = installed::locate(VARIABLE, PROGRAM, &["/usr/bin", "/usr/local/bin"])?;
    let absent = || Error::new(ErrorKind::NotFound, format!("QEMU (`{PROGRAM}`) is not installed"));
    let path = path.ok_or_else(absent)?.canonicalize()?;
    let stamp = stamp(&path)?;
    let mut found = FOUND.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(known) = found.as_ref().filter(|known| known.path == path && known.stamp == stamp) {
        return Ok(known.clone());
    }
    if !path.starts_with(PLACE) {
        let why = format!("{} is not below {PLACE}, which is all that the fence shows it", path.display());
        return Err(Error::new(ErrorKind::InvalidInput, why));
    }
    let version = ask(&path)?;
    Ok(found.insert(Runtime { path, stamp, version }).clone())
}

pub fn unavailable(error: &Error) -> CreateError {
    CreateError::Unavailable { missing: error.to_string(), remedy: Some(REMEDY.into()) }
}

fn ask(path: &Path) -> Result<String> {
    let asked = Command::new(path).arg("--version").stdin(Stdio::null()).env_clear().output();
    let asked = asked.map_err(|error| Error::new(error.kind(), format!("{}: {error}", path.display())))?;
    let said = String::from_utf8_lossy(&asked.stdout);
    let first = said.lines().next().unwrap_or_default();
    let refuse = |why: String| Err(Error::new(ErrorKind::InvalidData, format!("{} {why}", path.display())));
    let Some(version) = first.strip_prefix("QEMU emulator version ") else {
        let said: String = first.chars().take(80).collect();
        return refuse(format!("is not QEMU: it calls itself `{}`", said.escape_debug()));
    };
    let number = version.split_whitespace().next().unwrap_or_default();
    let mut parts = number.split('.').map(|part| part.parse::<u32>().ok());
    match (parts.next().flatten(), parts.next().flatten()) {
        (Some(major), Some(minor)) if (major, minor) >= OLDEST => Ok(number.to_string()),
        _ => {
            refuse(format!("is QEMU {}; {}.{} or newer is needed", number.escape_debug(), OLDEST.0, OLDEST.1))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(text: &str) -> Result<String> {
        let place = tempfile::tempdir()?;
        ask(&installed::script(place.path(), PROGRAM, &format!("echo '{text}'")))
    }

    #[test]
    fn what_is_old_or_something_else_is_refused() {
        assert_eq!(says("QEMU emulator version 7.2.22 (Debian 1:7.2)").unwrap(), "7.2.22");
        assert_eq!(says("QEMU emulator version 10.0.2").unwrap(), "10.0.2");
        let old = says("QEMU emulator version 6.2.0").unwrap_err().to_string();
        assert!(old.contains("is QEMU 6.2.0; 7.2 or newer is needed"), "{old}");
        let other = says("bochs 2.7").unwrap_err().to_string();
        assert!(other.contains("is not QEMU: it calls itself `bochs 2.7`"), "{other}");
    }
}
