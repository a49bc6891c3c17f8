//! A value that comes out of a sandbox all the same, because a host that it went to repeated it, is masked in captured
//! output: as it is, and as base64 and URLs write it. A courtesy, and no fence: code that has a value can write it
//! otherwise.
//!
//! What takes its place is as long as it was, so that no offset of the output changes.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use memchr::memmem;
use std::sync::Arc;

const STAR: u8 = b'*';

/// What to look for. Cheap to clone.
#[derive(Clone, Default)]
pub struct Mask(Arc<[Box<[u8]>]>);

/// One stream of output on its way through a mask: what may be the beginning of a value is held back.
#[derive(Default)]
pub struct Masked {
    held: Vec<u8>,
}

impl Mask {
    pub fn new<'a>(values: impl Iterator<Item = &'a str>) -> Mask {
        let mut forms: Vec<Box<[u8]>> = Vec::new();
        for value in values {
            for form in written(value) {
                if !forms.iter().any(|known| **known == *form) {
                    forms.push(form.into());
                }
            }
        }
        Mask(forms.into())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn apply(&self, bytes: &mut [u8]) {
        let mut found = Vec::new();
        for form in self.0.iter() {
            found.extend(memmem::find_iter(bytes, form).map(|at| at..at + form.len()));
        }
        found.into_iter().for_each(|range| bytes[range].fill(STAR));
    }

    /// How many bytes at the end may be the beginning of something.
    fn unfinished(&self, bytes: &[u8]) -> usize {
        let longest = |form: &[u8]| {
            let most = bytes.len().min(form.len() - 1);
            (1..=most).rev().find(|count| form.starts_with(&bytes[bytes.len() - count..])).unwrap_or(0)
        };
        self.0.iter().map(|form| longest(form)).max().unwrap_or(0)
    }
}

impl Masked {
    /// What can be passed on of all that came so far.
    pub fn push(&mut self, mask: &Mask, bytes: Vec<u8>) -> Vec<u8> {
        if mask.is_empty() {
            return bytes;
        }
        let mut all = std::mem::take(&mut self.held);
        all.extend(bytes);
        mask.apply(&mut all);
        self.held = all.split_off(all.len() - mask.unfinished(&all));
        all
    }

    pub fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// What was held back, where no more comes.
    pub fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }
}

/// The ways in which one value is written most often: as it is, in a URL, and within base64, which looks different with
/// each of the three places that it can have among other bytes.
fn written(value: &str) -> Vec<Vec<u8>> {
    let mut forms = vec![value.as_bytes().to_vec(), escaped(value)];
    for before in 0..3usize {
        let mut bytes = vec![0; before];
        bytes.extend(value.as_bytes());
        // Characters of which each bit is the value's own.
        let (first, last) = ((before * 8).div_ceil(6), bytes.len() * 8 / 6);
        for alphabet in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
            let text = alphabet.encode(&bytes);
            forms.push(text.as_bytes()[first..last].to_vec());
        }
    }
    forms
}

fn escaped(value: &str) -> Vec<u8> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    let escape = |byte: u8| if plain(byte) { vec![byte] } else { format!("%{byte:02X}").into_bytes() };
    value.bytes().flat_map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::engine::general_purpose::STANDARD;

    const VALUE: &str = "sk-real/one+42";

    fn through(pieces: &[&[u8]]) -> Vec<u8> {
        let (mask, mut masked) = (Mask::new([VALUE].into_iter()), Masked::default());
        let mut out = Vec::new();
        for piece in pieces {
            out.extend(masked.push(&mask, piece.to_vec()));
        }
        out.extend(masked.rest());
        out
    }

    #[test]
    fn a_value_is_masked_however_it_is_cut() {
        let text = format!("a {VALUE} b {VALUE}{VALUE} c");
        let stars = "*".repeat(VALUE.len());
        let expected = format!("a {stars} b {stars}{stars} c");
        for size in 1..text.len() {
            let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
            assert_eq!(through(&pieces), expected.as_bytes(), "{size}");
        }
    }

    #[test]
    fn in_base64_and_in_urls_too() {
        for before in ["", "u", "u:", "user:"] {
            let encoded = STANDARD.encode(format!("{before}{VALUE}"));
            let masked = String::from_utf8(through(&[encoded.as_bytes()])).unwrap();
            assert_eq!(masked.len(), encoded.len());
            // What is left over decodes to less than a piece of it.
            assert!(masked.matches('*').count() >= encoded.len() - before.len() * 4 / 3 - 6, "{masked}");
        }
        assert!(!through(&[b"?k=sk-real%2Fone%2B42"]).ends_with(b"42"));
    }

    #[test]
    fn the_rest_is_left_alone_and_only_a_beginning_is_held() {
        let (mask, mut masked) = (Mask::new([VALUE].into_iter()), Masked::default());
        assert_eq!(masked.push(&mask, b"hello\xff sk-r".to_vec()), b"hello\xff ");
        assert!(masked.holds());
        assert_eq!(masked.push(&mask, b"x".to_vec()), b"sk-rx");
        assert!(!masked.holds());
        let none = Mask::default();
        assert_eq!(masked.push(&none, VALUE.into()), VALUE.as_bytes());
    }
}
