//! The secret that a gateway shows to a node.

use axum::http::HeaderValue;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const SHORTEST: usize = 32;
const LONGEST: u64 = 4096;

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("the key file {path:?} cannot be read")]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("the key file {path:?} may be read by other users (mode {mode:03o})")]
    Open { path: PathBuf, mode: u32 },
    #[error("the key file {path:?} does not hold 32 to 4096 visible ASCII characters in one line")]
    Content { path: PathBuf },
}

impl KeyError {
    pub fn hint(&self) -> String {
        match self {
            KeyError::Unreadable { .. } => "it is the file that the node got with --gateway-key".into(),
            KeyError::Open { path, .. } => format!("chmod 600 {}", path.display()),
            KeyError::Content { .. } => "`openssl rand -hex 32` makes one".into(),
        }
    }
}

/// Never shown by a log or a debugger.
pub fn read(path: &Path) -> Result<HeaderValue, KeyError> {
    let unreadable = |source| KeyError::Unreadable { path: path.into(), source };
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mode = file.metadata().map_err(unreadable)?.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(KeyError::Open { path: path.into(), mode });
    }
    let mut text = String::new();
    file.take(LONGEST + 1).read_to_string(&mut text).map_err(unreadable)?;
    let key = text.trim();
    let fits = key.len() >= SHORTEST && text.len() as u64 <= LONGEST;
    let value = HeaderValue::from_str(key).ok();
    let value = value.filter(|_| fits && key.bytes().all(|byte| byte.is_ascii_graphic()));
    let mut value = value.ok_or_else(|| KeyError::Content { path: path.into() })?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_is_long_private_and_one_word() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("key");
        let written = |text: &str, mode: u32| {
            std::fs::write(&path, text).expect("written");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("set");
            read(&path)
        };
        let good = "k".repeat(32);
        assert_eq!(written(&format!("{good}\n"), 0o600).expect("a key"), good.as_str());
        assert!(matches!(written(&good, 0o640), Err(KeyError::Open { mode: 0o640, .. })));
        for bad in [
            String::new(),
            "k".repeat(31),
            format!("{good} {good}"),
            format!("{good}\n{good}"),
            "ä".repeat(40),
        ] {
            assert!(matches!(written(&bad, 0o600), Err(KeyError::Content { .. })), "{bad}");
        }
        assert!(matches!(read(&directory.path().join("none")), Err(KeyError::Unreadable { .. })));
    }
}
