use super::AuditError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use zeroize::Zeroizing;

/// The key that signs timelines. Two signatures go with every entry, so they are made by `ring`, whose arithmetic is in assembly.
pub struct SigningKey(Ed25519KeyPair);

impl SigningKey {
    fn of(seed: &[u8; 32], path: &Path) -> Result<SigningKey, AuditError> {
        let key = Ed25519KeyPair::from_seed_unchecked(seed);
        key.map(SigningKey).map_err(|_| AuditError::Key { path: path.to_path_buf() })
    }

    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        let mut bytes = [0; 64];
        bytes.copy_from_slice(self.0.sign(message).as_ref());
        bytes
    }
}

/// The key that checks timelines. It is public.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    pub(super) fn of(key: &SigningKey) -> PublicKey {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(key.0.public_key().as_ref());
        PublicKey(bytes)
    }

    /// The key in the form of `audit.pub`.
    pub fn parse(text: &str) -> Result<PublicKey, AuditError> {
        let text = text.trim();
        let bytes = STANDARD.decode(text).ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        bytes.map(PublicKey).ok_or_else(|| AuditError::PublicKey(text.chars().take(80).collect()))
    }

    pub fn text(&self) -> String {
        STANDARD.encode(self.0)
    }

    pub(super) fn signed(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        UnparsedPublicKey::new(&ED25519, self.0).verify(message, signature).is_ok()
    }
}

pub fn load_or_make(state: &Path) -> Result<SigningKey, AuditError> {
    let path = state.join("audit.key");
    let failed = |source| AuditError::io(&path, source);
    let key = match fs::read(&path) {
        Ok(text) => {
            let bytes = STANDARD.decode(Zeroizing::new(text).trim_ascii()).ok().map(Zeroizing::new);
            let seed = bytes.and_then(|bytes| <[u8; 32]>::try_from(&bytes[..]).ok()).map(Zeroizing::new);
            SigningKey::of(&*seed.ok_or_else(|| AuditError::Key { path: path.clone() })?, &path)?
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let seed = Zeroizing::new(crate::access::random_bytes().map_err(AuditError::Random)?);
            write_new(&path, &Zeroizing::new(STANDARD.encode(*seed)), 0o600).map_err(failed)?;
            SigningKey::of(&seed, &path)?
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
