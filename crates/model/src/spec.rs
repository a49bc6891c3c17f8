//! The resolved description of one sandbox: everything decided, nothing left to defaults.

use crate::guarantees::Requirement;
use crate::limits::Limits;
use crate::net::NetRules;
use crate::scan::ScanRules;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    pub root: Root,
    pub workspace: Option<Workspace>,
    pub mounts: Vec<Mount>,
    pub limits: Limits,
    /// The place of all files that the sandbox writes outside its workspace and mounts.
    #[serde(default)]
    pub disk: Disk,
    pub network: Network,
    pub user: User,
    pub hostname: String,
    pub require: Vec<Requirement>,
    /// The rules of the scan of code before it runs; a sandbox made from this one has them too.
    #[serde(default)]
    pub scan: ScanRules,
    /// True if it is made so that its interpreters can be forked as they stand, where that is possible.
    #[serde(default)]
    pub live_forks: bool,
    /// True if root inside may install packages and manage users: it keeps the rights over files and ids of the sandbox's own
    /// user namespace, and no others.
    #[serde(default)]
    pub root_may_install: bool,
    /// True if the ordinary user may become root inside, by `sudo`.
    #[serde(default)]
    pub become_root: bool,
}

/// The root file system of the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Root {
    /// The host's /usr, read-only, under a small root of the sandbox's own.
    HostUsr,
    /// A directory that holds a whole root file system; never written to.
    Directory { path: PathBuf },
}

/// The private disk: the files that the sandbox writes outside its workspace and mounts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Disk {
    /// A file system in memory, gone with the sandbox.
    #[default]
    Memory,
    /// A directory of the engine's storage, which holds the limit itself. Absolute, without symbolic links.
    Directory {
        path: PathBuf,
        /// The tree that it was cloned from, and is compared with; it never changes any more.
        #[serde(default)]
        start: Option<PathBuf>,
    },
}

/// A host directory at /workspace, writable, with protected names read-only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspace {
    /// Absolute, without symbolic links.
    pub directory: PathBuf,
    /// Paths relative to the directory that nothing inside can change or create.
    pub protect: Vec<PathBuf>,
    /// The only paths in it that are writable, relative and without symbolic links; empty: all of it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writable: Vec<PathBuf>,
    /// Names that the caller gave up: they are not held either where the repository's settings or the scan would name them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unprotected: Vec<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    Read,
    Write,
    /// An empty file system in memory, within the memory limit.
    Tmpfs,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    pub access: Access,
    /// Absolute, without symbolic links; not used by `Tmpfs`.
    pub source: Option<PathBuf>,
    /// Where it stands inside: absolute, without `..`.
    pub target: PathBuf,
}

/// The traffic that may leave the sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// Loopback only.
    #[default]
    None,
    /// The traffic that the rules allow, through the gate.
    Gate(NetRules),
    /// The host's own network, unfenced.
    Host,
}

/// The user that the command runs as, inside.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum User {
    /// An ordinary user, 1000:1000.
    #[default]
    Agent,
    /// Root inside, without a single capability unless the spec says `root_may_install`.
    Root,
    /// Root inside that may install packages: it keeps the rights over files and ids of its own user namespace, and
    /// no others. For the steps of a template's build; no text names it, so that no caller can ask for it.
    Installer,
    Ids {
        uid: u32,
        gid: u32,
    },
    /// Looked up in the image's own /etc/passwd, by the guest.
    Name(String),
}

/// Where commands start, and where a directory of the host is mounted.
pub const WORKSPACE_TARGET: &str = "/workspace";

/// Inside ids end here: the one above it is the guest's own, and no command may have it.
pub const HIGHEST_ID: u32 = 65_534;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserError(pub String);

impl std::fmt::Display for UserError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "user `{}` is not allowed: write `agent`, `root`, a name of the image, UID or UID:GID with ids up to {HIGHEST_ID}",
            self.0.escape_debug()
        )
    }
}

impl std::error::Error for UserError {}

impl std::str::FromStr for User {
    type Err = UserError;

    fn from_str(text: &str) -> Result<Self, UserError> {
        let refuse = || UserError(text.chars().take(80).collect());
        match text {
            "agent" => return Ok(User::Agent),
            "root" => return Ok(User::Root),
            _ => {}
        }
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            let (uid, gid) = text.split_once(':').unwrap_or((text, text));
            let uid: u32 = uid.parse().map_err(|_| refuse())?;
            let gid: u32 = gid.parse().map_err(|_| refuse())?;
            return match (uid, gid) {
                (0, 0) => Ok(User::Root),
                (1000, 1000) => Ok(User::Agent),
                _ if uid <= HIGHEST_ID && gid <= HIGHEST_ID => Ok(User::Ids { uid, gid }),
                _ => Err(refuse()),
            };
        }
        let name = (1..=32).contains(&text.len())
            && text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
        if name { Ok(User::Name(text.to_string())) } else { Err(refuse()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_in_the_forms_docker_takes() {
        assert_eq!("0".parse(), Ok(User::Root));
        assert_eq!("1000:1000".parse(), Ok(User::Agent));
        assert_eq!("33:44".parse(), Ok(User::Ids { uid: 33, gid: 44 }));
        assert_eq!("www-data".parse(), Ok(User::Name("www-data".into())));
        for bad in ["", "65535", "-1", "1:", "a b", "a\n", "99999999999", "../x"] {
            bad.parse::<User>().expect_err(bad);
        }
    }

    #[test]
    fn no_text_names_the_installer() {
        for text in ["installer", "Installer", "INSTALLER"] {
            assert_ne!(text.parse(), Ok(User::Installer));
        }
    }
}
