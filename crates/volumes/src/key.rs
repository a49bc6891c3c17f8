//! Encryption at rest: data that leaves this host is unreadable without the key, and its names tell nothing about the
//! content.

use crate::VolumeError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use std::io;
use std::path::Path;
use zeroize::Zeroizing;

const NONCE: usize = 24;

/// The name of a chunk: its hash, under the key where there is one.
pub type ChunkId = [u8; 32];

#[derive(Clone)]
pub struct Key(Zeroizing<[u8; 32]>);

/// The keys by which one volume's content is hashed and sealed.
#[derive(Clone)]
pub struct Cipher {
    ids: Option<Zeroizing<[u8; 32]>>,
    seal: Option<XChaCha20Poly1305>,
    volume: String,
}

impl Key {
    pub fn new(bytes: [u8; 32]) -> Key {
        Key(Zeroizing::new(bytes))
    }

    /// 32 bytes as base64; a file that is missing is an error, for a new key would open nothing.
    pub fn read(path: &Path) -> Result<Key, VolumeError> {
        let text = std::fs::read(path).map(Zeroizing::new);
        let text =
            text.map_err(|error| VolumeError::io(format!("read the key {}", path.display()), error))?;
        let bytes = STANDARD.decode(text.trim_ascii()).map(Zeroizing::new).ok();
        let key = bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes.as_slice()).ok());
        key.map(Key::new).ok_or_else(|| VolumeError::KeyFile(path.display().to_string()))
    }

    /// Tells keys apart, and says nothing about them.
    pub fn fingerprint(&self) -> String {
        let derived = self.derived("paddock volumes 2026 fingerprint", "");
        hex(&derived[..8])
    }

    pub fn authenticate(&self, bytes: &[u8]) -> String {
        let derived = self.derived("paddock volumes 2026 heads", "");
        blake3::keyed_hash(&derived, bytes).to_hex().to_string()
    }

    fn derived(&self, purpose: &str, volume: &str) -> Zeroizing<[u8; 32]> {
        let mut hasher = blake3::Hasher::new_derive_key(purpose);
        hasher.update(&*self.0);
        hasher.update(volume.as_bytes());
        Zeroizing::new(*hasher.finalize().as_bytes())
    }
}

impl Cipher {
    pub fn new(key: Option<&Key>, volume: &str) -> Cipher {
        let ids = key.map(|key| key.derived("paddock volumes 2026 chunk ids", volume));
        let seal = key.map(|key| {
            let sealing = key.derived("paddock volumes 2026 content", volume);
            XChaCha20Poly1305::new(&(*sealing).into())
        });
        Cipher { ids, seal, volume: volume.into() }
    }

    pub fn id(&self, plain: &[u8]) -> ChunkId {
        match &self.ids {
            Some(key) => *blake3::keyed_hash(key, plain).as_bytes(),
            None => *blake3::hash(plain).as_bytes(),
        }
    }

    /// Appends to `out`; `name` is the only name under which it can be opened.
    pub fn seal(&self, name: &[u8], plain: &[u8], out: &mut Vec<u8>) -> Result<(), VolumeError> {
        let Some(cipher) = &self.seal else {
            out.extend_from_slice(plain);
            return Ok(());
        };
        let nonce: [u8; NONCE] = random()?;
        let sealed = cipher.encrypt(&XNonce::from(nonce), Payload { msg: plain, aad: &self.aad(name) });
        let sealed = sealed
            .map_err(|_| VolumeError::io("encrypt a chunk", io::Error::other("it is too long to encrypt")))?;
        out.extend_from_slice(&nonce);
        out.extend_from_slice(&sealed);
        Ok(())
    }

    /// `None` where it was damaged, or sealed as something else.
    pub fn open(&self, name: &[u8], stored: &[u8]) -> Option<Vec<u8>> {
        let Some(cipher) = &self.seal else { return Some(stored.to_vec()) };
        let (nonce, rest) = stored.split_at_checked(NONCE)?;
        let nonce: [u8; NONCE] = nonce.try_into().ok()?;
        cipher.decrypt(&XNonce::from(nonce), Payload { msg: rest, aad: &self.aad(name) }).ok()
    }

    fn aad(&self, name: &[u8]) -> Vec<u8> {
        [self.volume.as_bytes(), b"\0", name].concat()
    }
}

pub fn random<const N: usize>() -> Result<[u8; N], VolumeError> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        let got = rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty());
        filled += got.map_err(|errno| VolumeError::io("get random numbers from the system", errno))?;
    }
    Ok(bytes)
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_content_opens_only_as_what_it_was() {
        let key = Key::new([7; 32]);
        let cipher = Cipher::new(Some(&key), "vol-1");
        let mut stored = Vec::new();
        cipher.seal(b"one", b"the content", &mut stored).unwrap();
        assert_eq!(stored.len(), b"the content".len() + NONCE + 16);
        assert!(!stored.windows(7).any(|part| part == b"content"));
        assert_eq!(cipher.open(b"one", &stored).unwrap(), b"the content");
        assert!(cipher.open(b"two", &stored).is_none());
        assert!(Cipher::new(Some(&key), "vol-2").open(b"one", &stored).is_none());
        assert!(Cipher::new(Some(&Key::new([8; 32])), "vol-1").open(b"one", &stored).is_none());
        stored[30] ^= 1;
        assert!(cipher.open(b"one", &stored).is_none());
        assert!(cipher.open(b"one", b"short").is_none());
    }

    #[test]
    fn ids_under_a_key_tell_nothing_of_the_content() {
        let plain = Cipher::new(None, "vol-1");
        let keyed = Cipher::new(Some(&Key::new([7; 32])), "vol-1");
        let other = Cipher::new(Some(&Key::new([7; 32])), "vol-2");
        assert_eq!(plain.id(b"x"), *blake3::hash(b"x").as_bytes());
        assert_ne!(keyed.id(b"x"), plain.id(b"x"));
        assert_ne!(keyed.id(b"x"), other.id(b"x"));
        assert_eq!(keyed.id(b"x"), keyed.id(b"x"));
    }

    #[test]
    fn a_file_that_is_no_key_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        assert_eq!(Key::read(&path).err().unwrap().code(), "storage_failed");
        std::fs::write(&path, "short").unwrap();
        assert_eq!(Key::read(&path).err().unwrap().code(), "volume_key");
        std::fs::write(&path, STANDARD.encode([1; 32])).unwrap();
        assert_eq!(Key::read(&path).unwrap().fingerprint(), Key::new([1; 32]).fingerprint());
    }
}
