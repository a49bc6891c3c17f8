use super::AuditError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, SigningKey, VerifyingKey};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The key that checks timelines. It is public.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    pub(super) fn of(key: &SigningKey) -> PublicKey {
        PublicKey(key.verifying_key())
    }

    /// The key in the form of `audit.pub`.
    pub fn parse(text: &str) -> Result<PublicKey, AuditError> {
        let text = text.trim();
        let bytes = STANDARD.decode(text).ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        bytes
            .and_then(|bytes| VerifyingKey::from_bytes(&bytes).ok())
            .map(PublicKey)
            .ok_or_else(|| AuditError::PublicKey(text.chars().take(80).collect()))
    }

    pub fn text(&self) -> String {
        STANDARD.encode(self.0.as_bytes())
    }

    pub(super) fn signed(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        self.0.verify_strict(message, &Signature::from_bytes(signature)).is_ok()
    }
}

pub fn load_or_make(state: &Path) -> Result<SigningKey, AuditError> {
    let path = state.join("audit.key");
    let failed = |source| AuditError::io(&path, source);
    let key = match fs::read(&path) {
        Ok(text) => {
            let bytes =
                STANDARD.decode(text.trim_ascii()).ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
            SigningKey::from_bytes(&bytes.ok_or_else(|| AuditError::Key { path: path.clone() })?)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let key = SigningKey::from_bytes(&crate::access::random_bytes().map_err(AuditError::Random)?);
            write_new(&path, &STANDARD.encode(key.to_bytes()), 0o600).map_err(failed)?;
            key
        }
        Err(source) => return Err(failed(source)),
    };
    let public_path = state.join("audit.pub");
    let public = PublicKey::of(&key).text();
    let known = fs::read_to_string(&public_path).unwrap_or_default();
    if known.trim() != public {
        write_new(&public_path, &public, 0o644).map_err(|source| AuditError::io(&public_path, source))?;
    }
    Ok(key)
}

/// Writes a key whole or not at all: half of a key would be worse than none.
pub fn write_new(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let _ = fs::remove_file(&temporary);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary)?;
    writeln!(file, "{text}")?;
    file.sync_all()?;
    fs::rename(&temporary, path)
}
