//! One signed line: a JSON object whose last two members are its hash and its signature. The hash is over the bytes of
//! the line before `,"hash":`, as they are: nothing is normalised, and every byte is covered.

use super::PublicKey;
use super::key::SigningKey;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

pub type Hash = [u8; 32];

/// The hash before the first line.
pub const NOTHING: Hash = [0; 32];

const HASH: &str = ",\"hash\":\"";
const SIGNATURE: &str = "\",\"signature\":\"";
const END: &str = "\"}";
const SUFFIX: usize = HASH.len() + 64 + SIGNATURE.len() + 88 + END.len();

/// The line, without a newline, and its hash. Precondition: `object` is JSON of an object with members.
pub fn seal(key: &SigningKey, object: &str) -> (String, Hash) {
    let body = object.strip_suffix('}').unwrap_or(object);
    let hash = Hash::from(Sha256::digest(body.as_bytes()));
    let signature = key.sign(&message(&hash));
    (format!("{body}{}", suffix(&hash, &signature)), hash)
}

/// The hash of a line that was signed with the key.
pub fn unseal(key: &PublicKey, line: &[u8]) -> Result<Hash, &'static str> {
    let (hash, signature) = hashed(line)?;
    check(key, &hash, &signature)?;
    Ok(hash)
}

/// That the signature is the key's, of a line with this hash.
pub fn check(key: &PublicKey, hash: &Hash, signature: &[u8; 64]) -> Result<(), &'static str> {
    key.signed(&message(hash), signature).then_some(()).ok_or("its signature is not of this key")
}

/// The hash of a line, which fits its content, and its signature, which was not checked.
pub fn hashed(line: &[u8]) -> Result<(Hash, [u8; 64]), &'static str> {
    let body = line.len().checked_sub(SUFFIX).ok_or("it is too short for an entry")?;
    let (body, end) = line.split_at(body);
    let hash = Hash::from(Sha256::digest(body));
    let encoded = &end[HASH.len() + 64 + SIGNATURE.len()..SUFFIX - END.len()];
    let signature = STANDARD.decode(encoded).ok().and_then(|bytes| <[u8; 64]>::try_from(bytes).ok());
    let signature = signature.ok_or("its signature is not base64 of 64 bytes")?;
    if suffix(&hash, &signature).as_bytes() != end {
        return Err("its hash does not fit what it says");
    }
    Ok((hash, signature))
}

/// True if this line, without its newline, was signed with the key.
pub fn is_signed(key: &PublicKey, line: &[u8]) -> bool {
    unseal(key, line).is_ok()
}

fn suffix(hash: &Hash, signature: &[u8; 64]) -> String {
    format!("{HASH}{}{SIGNATURE}{}{END}", hex(hash), STANDARD.encode(signature))
}

/// The signed message. Its prefix keeps the key from ever signing something else.
fn message(hash: &Hash) -> Vec<u8> {
    [b"paddock audit 1\0".as_slice(), hash].concat()
}

pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value & 15)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}
