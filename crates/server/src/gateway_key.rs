//! The key that a gateway shows to its nodes, from a file.

use axum::http::HeaderValue;
use paddock_fleet::same_secret;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The text by which a gateway and its nodes know each other.
#[derive(Clone)]
pub struct GatewayKey(String);

#[derive(Debug, thiserror::Error)]
pub enum GatewayKeyError {
    #[error("cannot read the gateway's key from {0}")]
    Unreadable(PathBuf, #[source] std::io::Error),
    #[error("the gateway's key {0} is not a file")]
    NotAFile(PathBuf),
    #[error("the gateway's key {path} may be read by others than its owner: its mode is {mode:03o}")]
    Open { path: PathBuf, mode: u32 },
    #[error("the gateway's key {0} is not one line of 32 to 1024 letters, digits and signs, without blanks")]
    NotAKey(PathBuf),
}

impl GatewayKeyError {
    pub fn hint(&self) -> Option<String> {
        match self {
            GatewayKeyError::Open { path, .. } => Some(format!("chmod 600 {}", path.display())),
            GatewayKeyError::NotAKey(path) => {
                Some(format!("(umask 077 && openssl rand -base64 32 > {})", path.display()))
            }
            _ => None,
        }
    }
}

impl GatewayKey {
    const SHORTEST: usize = 32;
    const LONGEST: usize = 1024;

    pub fn read(path: &Path) -> Result<GatewayKey, GatewayKeyError> {
        let unreadable = |error| GatewayKeyError::Unreadable(path.into(), error);
        // A pipe would hang the start.
        if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
            return Err(GatewayKeyError::NotAFile(path.into()));
        }
        let file = std::fs::File::open(path).map_err(unreadable)?;
        let mode = file.metadata().map_err(unreadable)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(GatewayKeyError::Open { path: path.into(), mode });
        }
        let mut bytes = Vec::new();
        file.take(2 * Self::LONGEST as u64).read_to_end(&mut bytes).map_err(unreadable)?;
        let text = String::from_utf8(bytes).unwrap_or_default();
        GatewayKey::new(text.trim()).ok_or_else(|| GatewayKeyError::NotAKey(path.into()))
    }

    /// As a gateway sends it. No log shows it.
    pub fn header(&self) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_str(&self.0).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Compared in a time that does not depend on where they differ.
    pub fn is(&self, shown: &str) -> bool {
        same_secret(&self.0, shown)
    }

    /// `None`: the text is too short, too long, or cannot stand in a header.
    pub fn new(text: &str) -> Option<GatewayKey> {
        let fine = (Self::SHORTEST..=Self::LONGEST).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_graphic());
        fine.then(|| GatewayKey(text.into()))
    }
}

impl std::fmt::Debug for GatewayKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("GatewayKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn a_key_is_a_file_of_its_owner_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("key");
        let write = |text: &str, mode: u32| {
            let _ = std::fs::remove_file(&path);
            std::fs::write(&path, text).expect("written");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("changed");
            GatewayKey::read(&path)
        };
        assert_eq!(write(&format!("{KEY}\n"), 0o600).expect("a key").0, KEY);
        assert!(write(KEY, 0o400).is_ok());
        for mode in [0o640, 0o604, 0o620, 0o601] {
            assert!(matches!(write(KEY, mode), Err(GatewayKeyError::Open { .. })), "{mode:o}");
        }
        for text in [
            "",
            &KEY[1..],
            &format!("{KEY} {KEY}"),
            &format!("{KEY}\n{KEY}"),
            &"a".repeat(1025),
            &"ä".repeat(40),
        ] {
            assert!(matches!(write(text, 0o600), Err(GatewayKeyError::NotAKey(_))), "{text}");
        }
        assert!(matches!(GatewayKey::read(directory.path()), Err(GatewayKeyError::NotAFile(_))));
        assert!(matches!(
            GatewayKey::read(&directory.path().join("none")),
            Err(GatewayKeyError::Unreadable(..))
        ));
        assert_eq!(format!("{:?}", GatewayKey::new(KEY)), "Some(GatewayKey(..))");
    }
}
