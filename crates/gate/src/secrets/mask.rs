//! A host that got a value may repeat it. The value is then masked: in that host's answer, before it enters the
//! sandbox, and in captured output. It is known as it is, reversed, in other case, and as base64, hexadecimal digits,
//! URLs, JSON and HTML write it. This is no fence: a host can be made to write it otherwise.
//!
//! The mask is as long as the value, so that no length and no offset changes.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use memchr::memmem;
use std::sync::Arc;

const STAR: u8 = b'*';

/// The forms of all values to look for. Cheap to clone.
#[derive(Clone, Default)]
pub struct Mask(Arc<[Box<[u8]>]>);

/// One stream of output on its way through a mask: bytes that may begin a value are held back.
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

    /// Masks the whole values in these bytes. `true`: something was masked.
    pub fn apply(&self, bytes: &mut [u8]) -> bool {
        let mut found = Vec::new();
        for form in self.0.iter() {
            found.extend(memmem::find_iter(bytes, form).map(|at| at..at + form.len()));
        }
        let any = !found.is_empty();
        found.into_iter().for_each(|range| bytes[range].fill(STAR));
        any
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
    /// The bytes, of all that came so far, that can be passed on.
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

    /// How many bytes are held back.
    pub fn held(&self) -> u64 {
        self.held.len() as u64
    }

    pub fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// The bytes that were held back, when no more come.
    pub fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }
}

/// The ways in which one value is written most often. Base64 looks different with each of the three places that the value
/// can have among other bytes.
fn written(value: &str) -> Vec<Vec<u8>> {
    let bytes = value.bytes();
    let mut forms = vec![
        value.as_bytes().to_vec(),
        bytes.clone().rev().collect(),
        value.to_ascii_lowercase().into_bytes(),
        value.to_ascii_uppercase().into_bytes(),
        escaped(value, "%02X"),
        escaped(value, "%02x"),
        bytes.clone().flat_map(|byte| format!("%{byte:02X}").into_bytes()).collect(),
        bytes.clone().flat_map(|byte| format!("%{byte:02x}").into_bytes()).collect(),
        bytes.clone().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect(),
        bytes.clone().flat_map(|byte| format!("{byte:02X}").into_bytes()).collect(),
        // A space in the body of a form.
        String::from_utf8_lossy(&escaped(value, "%02X")).replace("%20", "+").into_bytes(),
        replaced(value, JSON),
        replaced(&replaced_text(value, JSON), JSON_OF_GO),
        replaced(value, HTML),
    ];
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

fn escaped(value: &str, digits: &str) -> Vec<u8> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    let escape = |byte: u8| match digits {
        _ if plain(byte) => vec![byte],
        "%02X" => format!("%{byte:02X}").into_bytes(),
        _ => format!("%{byte:02x}").into_bytes(),
    };
    value.bytes().flat_map(escape).collect()
}

const JSON: &[(char, &str)] = &[('"', "\\\""), ('\\', "\\\\")];
const JSON_OF_GO: &[(char, &str)] = &[('&', "\\u0026"), ('<', "\\u003c"), ('>', "\\u003e")];
const HTML: &[(char, &str)] =
    &[('&', "&amp;"), ('<', "&lt;"), ('>', "&gt;"), ('"', "&quot;"), ('\'', "&#39;")];

fn replaced(value: &str, table: &[(char, &str)]) -> Vec<u8> {
    replaced_text(value, table).into_bytes()
}

fn replaced_text(value: &str, table: &[(char, &str)]) -> String {
    let mut text = String::new();
    for letter in value.chars() {
        match table.iter().find(|(own, _)| *own == letter) {
            Some((_, written)) => text.push_str(written),
            None => text.push(letter),
        }
    }
    text
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
            // The rest decodes to less than a piece of the value.
            assert!(masked.matches('*').count() >= encoded.len() - before.len() * 4 / 3 - 6, "{masked}");
        }
        assert!(!through(&[b"?k=sk-real%2Fone%2B42"]).ends_with(b"42"));
    }

    #[test]
    fn in_every_plain_form() {
        let value = VALUE.as_bytes();
        let hex: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
        let all: String = value.iter().map(|byte| format!("%{byte:02X}")).collect();
        let reversed: String = VALUE.chars().rev().collect();
        let forms = [
            VALUE.to_string(),
            reversed,
            VALUE.to_uppercase(),
            hex.to_uppercase(),
            all.to_lowercase(),
            all,
            hex,
            "sk-real%2fone%2b42".to_string(),
        ];
        for form in forms {
            let masked = through(&[format!("<{form}>").as_bytes()]);
            assert_eq!(masked, format!("<{}>", "*".repeat(form.len())).as_bytes(), "{form}");
        }
        let odd = r#"a"b\c<d>&'e f"#;
        let mask = Mask::new([odd].into_iter());
        for form in [
            r#"a\"b\\c<d>&'e f"#,
            r#"a\"b\\c\u003cd\u003e\u0026'e f"#,
            r"a&quot;b\c&lt;d&gt;&amp;&#39;e f",
            "a%22b%5Cc%3Cd%3E%26%27e%20f",
            "a%22b%5Cc%3Cd%3E%26%27e+f",
        ] {
            let mut bytes = form.as_bytes().to_vec();
            assert!(mask.apply(&mut bytes) && bytes.iter().all(|byte| *byte == STAR), "{form}");
        }
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
