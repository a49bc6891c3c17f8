use std::fmt;
use std::io::{self, Read};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::ImageError;

/// A checked `sha256:<64 lower case hex digits>`: safe as a file name and in a URL.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(into = "String")]
pub struct Digest(String);

impl Digest {
    pub fn parse(text: &str) -> Result<Self, ImageError> {
        let valid = text.strip_prefix("sha256:").is_some_and(|hex| {
            hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
        });
        if valid { Ok(Self(text.to_owned())) } else { Err(ImageError::malformed("digest", text)) }
    }

    pub fn hex(&self) -> &str {
        self.0.strip_prefix("sha256:").unwrap_or(&self.0)
    }

    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = Hasher::default();
        hasher.update(bytes);
        hasher.finish()
    }

    /// Fails if `found` is another digest; `what` names the thing in the error.
    pub fn expect(&self, found: &Self, what: &str) -> Result<(), ImageError> {
        if self == found {
            return Ok(());
        }
        Err(ImageError::DigestMismatch {
            what: what.to_owned(),
            expected: self.to_string(),
            found: found.to_string(),
        })
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.0
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

/// SHA-256 over a stream of bytes.
#[derive(Default, Clone)]
pub struct Hasher(Sha256);

impl Hasher {
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub fn finish(self) -> Digest {
        use fmt::Write as _;
        let mut text = String::from("sha256:");
        for byte in self.0.finalize() {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        Digest(text)
    }
}

/// Reads to the end, in bounded memory.
pub fn hash_reader(mut reader: impl Read, mut each: impl FnMut(u64) -> io::Result<()>) -> io::Result<Digest> {
    let mut hasher = Hasher::default();
    let mut buffer = vec![0; 256 << 10];
    loop {
        let count = reader.read(&mut buffer)?;
        if count == 0 {
            return Ok(hasher.finish());
        }
        hasher.update(&buffer[..count]);
        each(count as u64)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_canonical_form_is_a_digest() {
        let good = format!("sha256:{}", "0a".repeat(32));
        assert_eq!(Digest::parse(&good).unwrap().hex(), "0a".repeat(32));
        for bad in ["", "sha256:", "sha512:00", "sha256:../../x", &good.to_uppercase(), &format!("{good}0")] {
            assert!(Digest::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn hashes_as_the_rest_of_the_world_does() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::of(b"").to_string(), empty);
        assert_eq!(hash_reader(&b"abc"[..], |_| Ok(())).unwrap(), Digest::of(b"abc"));
    }
}
