//! Encryption at rest. The key is a file of its own, which may lie on another disk than the encrypted data.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::io;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

const NONCE: usize = 24;

pub struct Vault {
    path: PathBuf,
    key: Zeroizing<[u8; 32]>,
}

#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    #[error("the key of secrets {} cannot be read or written", .path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{} is not a key of secrets: it has to hold 32 bytes as base64", .path.display())]
    Key { path: PathBuf },
    #[error("no random numbers from the system")]
    Random(#[source] io::Error),
    #[error("what was encrypted cannot be read with the key {}: it is another one's, or damaged", .path.display())]
    Damaged { path: PathBuf },
}

impl Vault {
    /// The key in this file; a new one if there is none.
    pub fn open(path: &Path) -> Result<Vault, VaultError> {
        let failed = |source| VaultError::File { path: path.to_path_buf(), source };
        let key = match std::fs::read(path) {
            Ok(text) => {
                let text = Zeroizing::new(text);
                let bytes = STANDARD.decode(text.trim_ascii()).map(Zeroizing::new).ok();
                let key = bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes.as_slice()).ok());
                key.ok_or_else(|| VaultError::Key { path: path.to_path_buf() })?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let key: [u8; 32] = crate::access::random_bytes().map_err(VaultError::Random)?;
                crate::audit::write_key(path, &Zeroizing::new(STANDARD.encode(key)), 0o600)
                    .map_err(failed)?;
                key
            }
            Err(source) => return Err(failed(source)),
        };
        Ok(Vault { path: path.to_path_buf(), key: Zeroizing::new(key) })
    }

    /// `owner` names the owner of the value: it cannot be opened under another name.
    pub fn seal(&self, owner: &str, plain: &[u8]) -> Result<String, VaultError> {
        self.seal_bytes(owner, plain).map(|sealed| STANDARD.encode(sealed))
    }

    pub fn unseal(&self, owner: &str, sealed: &str) -> Result<Zeroizing<Vec<u8>>, VaultError> {
        let damaged = |_| VaultError::Damaged { path: self.path.clone() };
        self.unseal_bytes(owner, &STANDARD.decode(sealed).map_err(damaged)?)
    }

    /// The same without base64 around it.
    pub fn seal_bytes(&self, owner: &str, plain: &[u8]) -> Result<Vec<u8>, VaultError> {
        let nonce: [u8; NONCE] = crate::access::random_bytes().map_err(VaultError::Random)?;
        let payload = Payload { msg: plain, aad: owner.as_bytes() };
        let sealed = self.cipher().encrypt(&XNonce::from(nonce), payload);
        let sealed = sealed.map_err(|_| VaultError::Damaged { path: self.path.clone() })?;
        Ok([&nonce[..], &sealed].concat())
    }

    pub fn unseal_bytes(&self, owner: &str, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, VaultError> {
        let open = || {
            let (nonce, rest) = sealed.split_at_checked(NONCE)?;
            let nonce: [u8; NONCE] = nonce.try_into().ok()?;
            let payload = Payload { msg: rest, aad: owner.as_bytes() };
            self.cipher().decrypt(&XNonce::from(nonce), payload).ok()
        };
        open().map(Zeroizing::new).ok_or_else(|| VaultError::Damaged { path: self.path.clone() })
    }

    /// Tells two values apart without revealing them.
    pub fn fingerprint(&self, value: &str) -> String {
        let Ok(mut mac) = <Hmac<Sha256> as KeyInit>::new_from_slice(&*self.key) else { return String::new() };
        mac.update(b"fingerprint of a secret\0");
        mac.update(value.as_bytes());
        mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(&(*self.key).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_its_owner_and_its_key_open_it() {
        let state = tempfile::tempdir().unwrap();
        let path = state.path().join("secrets.key");
        let vault = Vault::open(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let sealed = vault.seal("sb-1", b"sk-the-real-one").unwrap();
        assert!(!sealed.contains("sk-the-real-one"));
        assert_ne!(sealed, vault.seal("sb-1", b"sk-the-real-one").unwrap());
        let again = Vault::open(&path).unwrap();
        assert_eq!(again.unseal("sb-1", &sealed).unwrap().as_slice(), b"sk-the-real-one");
        assert!(again.unseal("sb-2", &sealed).is_err());
        for damaged in ["", "!!", "AAAA", &sealed[..sealed.len() - 8], &sealed.replace('A', "B")] {
            if damaged != sealed {
                assert!(matches!(again.unseal("sb-1", damaged), Err(VaultError::Damaged { .. })));
            }
        }
        let other = Vault::open(&state.path().join("other.key")).unwrap();
        assert!(other.unseal("sb-1", &sealed).is_err());
    }

    #[test]
    fn a_key_that_is_none_is_not_replaced() {
        let state = tempfile::tempdir().unwrap();
        let path = state.path().join("secrets.key");
        std::fs::write(&path, "short").unwrap();
        assert!(matches!(Vault::open(&path), Err(VaultError::Key { .. })));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "short");
    }

    #[test]
    fn a_fingerprint_is_the_values_own_and_the_keys() {
        let state = tempfile::tempdir().unwrap();
        let [one, two] = ["a.key", "b.key"].map(|name| Vault::open(&state.path().join(name)).unwrap());
        assert_eq!(one.fingerprint("x"), one.fingerprint("x"));
        assert_ne!(one.fingerprint("x"), one.fingerprint("y"));
        assert_ne!(one.fingerprint("x"), two.fingerprint("x"));
    }
}
