//! The `runsc` of this host. Its options differ from release to release, so `runsc` is asked for them. The answer is
//! kept in the state directory, for as long as the file is the same.

use crate::installed::{self, Stamp, stamp};
use paddock_fences::error::CreateError;
use serde::{Deserialize, Serialize};
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Names another file than the first `runsc` of the path. Declared with all others in the command's `env_vars`.
pub const VARIABLE: &str = "PADDOCK_RUNSC";
const NAME: &str = "runsc";
pub const REMEDY: &str = "run as root: apt-get install runsc (Debian), or put a release of gVisor's `runsc` into /usr/local/bin \
     (https://gvisor.dev/docs/user_guide/install), or name it in PADDOCK_RUNSC";

/// The known facts about one `runsc` file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runtime {
    pub path: PathBuf,
    stamp: Stamp,
    pub version: String,
    /// The platform (the way to trap system calls) that runsc uses when none is named.
    pub platform: String,
    flags: Vec<String>,
    /// Every platform that it names.
    platforms: Vec<String>,
}

impl Runtime {
    /// True if a sandbox whose memory this release kept goes on when it is brought back. It does with the releases
    /// before systrap; with later ones the restored sandbox ended at once.
    pub fn brings_memory_back(&self) -> bool {
        self.platform == "ptrace"
    }

    pub fn offers(&self, platform: &str) -> bool {
        self.platforms.iter().any(|known| known == platform)
    }

    pub fn knows(&self, flag: &str) -> bool {
        self.flags.iter().any(|known| known == flag)
    }
}

pub fn find(state: &Path) -> Result<Runtime> {
    let path = installed::locate(VARIABLE, NAME, &["/usr/local/bin", "/usr/bin", "/usr/local/sbin"])?;
    let path = path.ok_or_else(|| Error::new(ErrorKind::NotFound, "gVisor's `runsc` is not installed"))?;
    let stamp = stamp(&path)?;
    let note = state.join("runsc.json");
    let noted = std::fs::read(&note).ok().and_then(|bytes| serde_json::from_slice::<Runtime>(&bytes).ok());
    if let Some(noted) = noted.filter(|noted| noted.path == path && noted.stamp == stamp) {
        return Ok(noted);
    }
    let runtime = ask(path, stamp)?;
    installed::note(&note, &runtime);
    Ok(runtime)
}

pub fn unavailable(error: &Error) -> CreateError {
    CreateError::Unavailable { missing: error.to_string(), remedy: Some(REMEDY.into()) }
}

fn ask(path: PathBuf, stamp: Stamp) -> Result<Runtime> {
    let version = output(&path, "--version")?;
    let first = version.lines().next().unwrap_or_default();
    let Some(version) = first.strip_prefix("runsc version ") else {
        let said: String = first.chars().take(80).collect();
        let why =
            format!("{} is not gVisor's runsc: it calls itself `{}`", path.display(), said.escape_debug());
        return Err(Error::new(ErrorKind::InvalidData, why));
    };
    let described = output(&path, "flags")?;
    let flags = described.lines().filter_map(|line| {
        let (name, _) =
            line.strip_prefix("  -")?.split_once([' ', '\t']).unwrap_or((line.strip_prefix("  -")?, ""));
        Some(name.to_string())
    });
    let flags: Vec<String> = flags.collect();
    let platform = if described.contains("systrap (default)") { "systrap" } else { "ptrace" };
    let named =
        described.lines().skip_while(|line| !line.starts_with("  -platform ")).nth(1).unwrap_or_default();
    let platforms =
        ["systrap", "ptrace", "kvm"].into_iter().filter(|name| named.contains(name)).map(String::from);
    let platforms = platforms.collect();
    Ok(Runtime { version: version.trim().into(), platform: platform.into(), flags, platforms, path, stamp })
}

/// Some of it is said on either stream, depending on the release.
fn output(path: &Path, argument: &str) -> Result<String> {
    let asked = Command::new(path).arg(argument).stdin(Stdio::null()).env_clear().output();
    let asked = asked.map_err(|error| Error::new(error.kind(), format!("{}: {error}", path.display())))?;
    Ok(format!("{}\n{}", String::from_utf8_lossy(&asked.stdout), String::from_utf8_lossy(&asked.stderr)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_says_what_it_knows() {
        let place = tempfile::tempdir().unwrap();
        let script = "case $1 in --version) echo 'runsc version release-7';; \
            *) printf '  -overlay2 value\\n    \\twraps\\n  -rootless\\n    \\tx\\n  -platform string\\n    \\tsystrap (default)\\n' >&2;; esac";
        let path = installed::script(place.path(), NAME, script);
        let found = ask(path.clone(), stamp(&path).unwrap()).unwrap();
        assert_eq!((found.version.as_str(), found.platform.as_str()), ("release-7", "systrap"));
        assert!(found.knows("overlay2") && found.knows("rootless") && !found.knows("directfs"));
    }

    #[test]
    fn something_else_of_that_name_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let path = installed::script(place.path(), NAME, "echo 'runc version 1.1'");
        let why = ask(path.clone(), stamp(&path).unwrap()).unwrap_err().to_string();
        assert!(why.contains("is not gVisor's runsc") && why.contains("runc version 1.1"), "{why}");
    }
}
