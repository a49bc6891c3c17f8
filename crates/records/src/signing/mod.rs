//! Links that let any holder read or write one file until a time: the whole claim is in the link, and sealed.
//! `ports.rs` has the same for one port.

mod ports;

pub use ports::PortClaim;

use crate::store::{Store, StoreError};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::Sha256;

const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    Read,
    Write,
}

/// The claim of a link: a file, an operation and an end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    pub sandbox: String,
    pub path: String,
    pub operation: Operation,
    /// The user inside; `None` for the sandbox's own user.
    pub user: Option<String>,
    pub expires_ms: u64,
    /// The id of the token that it was signed for; the link ends with that token.
    pub token: String,
}

#[derive(Debug, thiserror::Error)]
pub enum SigningError {
    #[error("the link is not one of this server")]
    Forged,
    #[error("the link expired")]
    Expired { expires_ms: u64 },
    #[error("no random numbers from the system")]
    Random(#[source] std::io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}

pub struct Signer {
    key: [u8; 32],
}

/// Paths are at most 4096 bytes, six times as many when escaped, then base64; a longer text is not read.
const LONGEST: usize = 64 * 1024;
const KEY_NAME: &str = "signing-key";
const PATHS: &[u8] = b"paddock signed path 1\0";

impl Signer {
    pub fn new(key: [u8; 32]) -> Signer {
        Signer { key }
    }

    /// Takes the key of this server, and makes one if there is none: links outlive a restart.
    pub fn open(store: &Store) -> Result<Signer, SigningError> {
        if let Some(key) = store.setting(KEY_NAME)?.and_then(|key| key.try_into().ok()) {
            return Ok(Signer { key });
        }
        let key = crate::access::random_bytes().map_err(SigningError::Random)?;
        store.set_setting(KEY_NAME, &key)?;
        Ok(Signer { key })
    }

    pub fn sign(&self, claim: &Claim) -> String {
        self.seal(PATHS, claim)
    }

    pub fn verify(&self, token: &str, now_ms: u64) -> Result<Claim, SigningError> {
        let claim: Claim = self.unseal(PATHS, token)?;
        if claim.expires_ms <= now_ms {
            return Err(SigningError::Expired { expires_ms: claim.expires_ms });
        }
        Ok(claim)
    }

    /// A secret that only this server can make again: for one purpose, and for what `about` names.
    pub fn derive(&self, purpose: &str, about: &[&str]) -> String {
        let mut mac = self.keyed(b"paddock derived secret 1\0");
        for part in std::iter::once(&purpose).chain(about) {
            // With its length, so that no two lists read as the same bytes.
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part.as_bytes());
        }
        // A search for the secret of a signed address derives many: no text is made for each byte.
        let digits = |byte: u8| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
        mac.finalize().into_bytes().into_iter().flat_map(digits).collect()
    }

    fn seal(&self, use_of_key: &[u8], claim: &impl Serialize) -> String {
        // A struct of text and numbers always becomes JSON.
        let claim = serde_json::to_vec(claim).unwrap_or_default();
        let mac = self.mac(use_of_key, &claim).finalize().into_bytes();
        format!("{}.{}", URL_SAFE_NO_PAD.encode(claim), URL_SAFE_NO_PAD.encode(mac))
    }

    fn unseal<T: DeserializeOwned>(&self, use_of_key: &[u8], token: &str) -> Result<T, SigningError> {
        let (claim, mac) =
            token.split_once('.').filter(|_| token.len() <= LONGEST).ok_or(SigningError::Forged)?;
        let decode = |text| URL_SAFE_NO_PAD.decode(text).map_err(|_| SigningError::Forged);
        let (claim, mac) = (decode(claim)?, decode(mac)?);
        // Compares in constant time.
        self.mac(use_of_key, &claim).verify_slice(&mac).map_err(|_| SigningError::Forged)?;
        serde_json::from_slice(&claim).map_err(|_| SigningError::Forged)
    }

    fn mac(&self, use_of_key: &[u8], claim: &[u8]) -> Hmac<Sha256> {
        let mut mac = self.keyed(use_of_key);
        mac.update(claim);
        mac
    }

    /// `use_of_key`: so that what the key seals for one use counts for no other.
    fn keyed(&self, use_of_key: &[u8]) -> Hmac<Sha256> {
        // HMAC fills keys up with zeroes to a block.
        let mut block = [0; 64];
        block[..32].copy_from_slice(&self.key);
        let mut mac = Hmac::<Sha256>::new(&block.into());
        mac.update(use_of_key);
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim() -> Claim {
        Claim {
            sandbox: "sb-0000000000000001".into(),
            path: "/a \"b\"\u{1F600}".into(),
            operation: Operation::Read,
            user: None,
            expires_ms: 1000,
            token: "tk-0000000000000001".into(),
        }
    }

    #[test]
    fn what_was_signed_comes_back_until_it_expires() {
        let signer = Signer::new([7; 32]);
        let token = signer.sign(&claim());
        assert!(token.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)), "{token}");
        assert_eq!(signer.verify(&token, 999).unwrap(), claim());
        assert!(matches!(signer.verify(&token, 1000), Err(SigningError::Expired { expires_ms: 1000 })));
        assert!(matches!(Signer::new([8; 32]).verify(&token, 0), Err(SigningError::Forged)));
    }

    #[test]
    fn no_character_can_be_changed_removed_or_added() {
        let signer = Signer::new([7; 32]);
        let token = signer.sign(&claim());
        for at in 0..token.len() {
            for other in [b'A', b'Q', b'-', b'.'] {
                let mut changed = token.clone().into_bytes();
                if changed[at] == other {
                    continue;
                }
                changed[at] = other;
                let changed = String::from_utf8(changed).unwrap();
                assert!(matches!(signer.verify(&changed, 0), Err(SigningError::Forged)), "{changed}");
            }
            assert!(matches!(signer.verify(&token[..at], 0), Err(SigningError::Forged)));
        }
        for other in [format!("{token}A"), format!("A{token}"), "x".repeat(LONGEST + 1), ".".into()] {
            assert!(matches!(signer.verify(&other, 0), Err(SigningError::Forged)));
        }
    }

    #[test]
    fn a_derived_secret_belongs_to_its_key_its_purpose_and_its_parts() {
        let derive = |key: u8, purpose: &str, about: &[&str]| Signer::new([key; 32]).derive(purpose, about);
        let one = derive(7, "access", &["sb-1", "tk-1"]);
        assert_eq!(one, derive(7, "access", &["sb-1", "tk-1"]));
        assert_eq!(one.len(), 64);
        for other in [
            derive(8, "access", &["sb-1", "tk-1"]),
            derive(7, "traffic", &["sb-1", "tk-1"]),
            derive(7, "access", &["sb-1", "tk-2"]),
            derive(7, "access", &["sb-1tk-1"]),
            derive(7, "access", &["sb-", "1tk-1"]),
        ] {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn the_key_is_made_once_and_kept() {
        let state = tempfile::tempdir().unwrap();
        let token = Signer::open(&Store::open(state.path()).unwrap()).unwrap().sign(&claim());
        let store = Store::open(state.path()).unwrap();
        assert_eq!(Signer::open(&store).unwrap().verify(&token, 0).unwrap(), claim());
    }
}
