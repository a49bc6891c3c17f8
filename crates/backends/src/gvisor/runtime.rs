//! The `runsc` of this machine. Which options it takes differs from release to release, so it is asked; what it answers is
//! kept beside the state, for as long as the file is the same.

use crate::backend::CreateError;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Names another file than the first `runsc` of the path. Declared with all others in the command's `env_vars`.
pub const VARIABLE: &str = "PADDOCK_RUNSC";
pub const REMEDY: &str = "run as root: apt-get install runsc (Debian), or put a release of gVisor's `runsc` into /usr/local/bin \
     (https://gvisor.dev/docs/user_guide/install), or name it in PADDOCK_RUNSC";

/// What was found out about one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runtime {
    pub path: PathBuf,
    /// By which a file that was replaced is told: device, inode, length, change in nanoseconds.
    stamp: (u64, u64, u64, i64),
    pub version: String,
    /// What it traps system calls with when nobody says.
    pub platform: String,
    flags: Vec<String>,
    /// Every platform that it names.
    platforms: Vec<String>,
}

impl Runtime {
    /// Whether what it has kept of a sandbox goes on: seen of the releases before systrap; with the later ones what was
    /// brought back ended at once.
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
    let path = locate()?;
    let stamp = stamp(&path)?;
    let note = state.join("runsc.json");
    let noted = std::fs::read(&note).ok().and_then(|bytes| serde_json::from_slice::<Runtime>(&bytes).ok());
    if let Some(noted) = noted.filter(|noted| noted.path == path && noted.stamp == stamp) {
        return Ok(noted);
    }
    let runtime = ask(path, stamp)?;
    // One that cannot be noted is asked again next time.
    let _ = keep(&note, &runtime);
    Ok(runtime)
}

pub fn unavailable(error: &Error) -> CreateError {
    CreateError::Unavailable { missing: error.to_string(), remedy: Some(REMEDY.into()) }
}

fn locate() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os(VARIABLE).filter(|named| !named.is_empty()) {
        let path = PathBuf::from(named);
        return match path.is_absolute() && path.is_file() {
            true => Ok(path),
            false => Err(Error::new(
                ErrorKind::NotFound,
                format!("{VARIABLE} is `{}`, which is not the absolute path of a file", path.display()),
            )),
        };
    }
    // Also where an ordinary user's path does not lead.
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from(""));
    let places = std::env::split_paths(&path)
        .chain(["/usr/local/bin", "/usr/bin", "/usr/local/sbin"].map(PathBuf::from));
    let mut found = places.filter(|place| place.is_absolute()).map(|place| place.join("runsc"));
    found
        .find(|path| path.is_file())
        .ok_or_else(|| Error::new(ErrorKind::NotFound, "gVisor's `runsc` is not installed"))
}

fn stamp(path: &Path) -> Result<(u64, u64, u64, i64)> {
    let found = std::fs::metadata(path)?;
    Ok((found.dev(), found.ino(), found.len(), found.ctime() * 1_000_000_000 + found.ctime_nsec()))
}

fn ask(path: PathBuf, stamp: (u64, u64, u64, i64)) -> Result<Runtime> {
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

/// Never half.
fn keep(note: &Path, runtime: &Runtime) -> Result<()> {
    let new = note.with_extension(format!("{}.new", std::process::id()));
    std::fs::write(&new, serde_json::to_vec(runtime)?)?;
    std::fs::rename(&new, note).inspect_err(|_| {
        let _ = std::fs::remove_file(&new);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by a process of its own: what this one has open for writing is also held, until it has begun, by each
    /// process that another test starts at that moment, and cannot be executed so long.
    fn fake(directory: &Path, script: &str) -> PathBuf {
        let path = directory.join("runsc");
        let write = "printf '#!/bin/sh\n%s\n' \"$1\" > \"$0\" && chmod 755 \"$0\"";
        let written = Command::new("sh").arg("-c").arg(write).arg(&path).arg(script).status().unwrap();
        assert!(written.success(), "{}: {written}", path.display());
        path
    }

    #[test]
    fn a_release_says_what_it_knows() {
        let place = tempfile::tempdir().unwrap();
        let script = "case $1 in --version) echo 'runsc version release-7';; \
            *) printf '  -overlay2 value\\n    \\twraps\\n  -rootless\\n    \\tx\\n  -platform string\\n    \\tsystrap (default)\\n' >&2;; esac";
        let path = fake(place.path(), script);
        let found = ask(path.clone(), stamp(&path).unwrap()).unwrap();
        assert_eq!((found.version.as_str(), found.platform.as_str()), ("release-7", "systrap"));
        assert!(found.knows("overlay2") && found.knows("rootless") && !found.knows("directfs"));
    }

    #[test]
    fn something_else_of_that_name_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let path = fake(place.path(), "echo 'runc version 1.1'");
        let why = ask(path.clone(), stamp(&path).unwrap()).unwrap_err().to_string();
        assert!(why.contains("is not gVisor's runsc") && why.contains("runc version 1.1"), "{why}");
    }
}
