//! A host name in the one form that is compared: lower case, A-labels, no dot at the end.

use serde::{Deserialize, Serialize};

/// Checked: labels of letters, digits, `-` and `_`, at most 253 characters, and nothing that some resolver would read
/// as an address.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DomainName(String);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainError {
    pub value: String,
    pub rule: &'static str,
}

impl std::fmt::Display for DomainError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` is not a host name: {}", self.value.escape_debug(), self.rule)
    }
}

impl std::error::Error for DomainError {}

impl DomainName {
    /// From a person's text: names of any script become A-labels.
    pub fn parse(text: &str) -> Result<DomainName, DomainError> {
        if text.is_ascii() {
            return DomainName::from_wire(text.as_bytes());
        }
        // Longer than any name: refused before the tables of all scripts are asked.
        if text.len() > 1024 {
            return Err(refuse(text.as_bytes(), LENGTH));
        }
        let ascii = idna::domain_to_ascii(text)
            .map_err(|_| refuse(text.as_bytes(), "these characters cannot stand in a name"))?;
        DomainName::from_wire(ascii.as_bytes())
    }

    /// From the wire, where a program inside wrote it: ASCII only.
    pub fn from_wire(bytes: &[u8]) -> Result<DomainName, DomainError> {
        let bytes = bytes.strip_suffix(b".").unwrap_or(bytes);
        if bytes.is_empty() || bytes.len() > 253 {
            return Err(refuse(bytes, LENGTH));
        }
        for label in bytes.split(|b| *b == b'.') {
            let fine = (1..=63).contains(&label.len())
                && label.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
                && label[0] != b'-'
                && label[label.len() - 1] != b'-';
            if !fine {
                let rule =
                    "each part has 1 to 63 of a-z, 0-9, `-` and `_`, and neither begins nor ends with `-`";
                return Err(refuse(bytes, rule));
            }
        }
        let last = bytes.rsplit(|b| *b == b'.').next().unwrap_or_default();
        if reads_as_number(last) {
            return Err(refuse(bytes, "its last part is a number, so that it reads as an address"));
        }
        Ok(DomainName(bytes.iter().map(|b| char::from(b.to_ascii_lowercase())).collect()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// At any depth; a name is not below itself.
    pub fn is_below(&self, above: &DomainName) -> bool {
        self.0.strip_suffix(above.as_str()).is_some_and(|rest| rest.ends_with('.'))
    }
}

const LENGTH: &str = "a name has 1 to 253 characters";

/// `127.1`, `0x7f000001` and `2130706433` are 127.0.0.1 to many resolvers.
fn reads_as_number(label: &[u8]) -> bool {
    let hexadecimal = |rest: &[u8]| rest.iter().all(u8::is_ascii_hexdigit);
    match label {
        [b'0', b'x' | b'X', rest @ ..] => hexadecimal(rest),
        label => label.iter().all(u8::is_ascii_digit),
    }
}

fn refuse(value: &[u8], rule: &'static str) -> DomainError {
    DomainError { value: String::from_utf8_lossy(value).chars().take(80).collect(), rule }
}

impl std::fmt::Display for DomainName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for DomainName {
    type Error = DomainError;

    fn try_from(text: String) -> Result<Self, DomainError> {
        DomainName::parse(&text)
    }
}

impl From<DomainName> for String {
    fn from(name: DomainName) -> String {
        name.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_name_has_one_form() {
        for (text, form) in [
            ("Api.Example.COM", "api.example.com"),
            ("example.org.", "example.org"),
            ("bücher.example", "xn--bcher-kva.example"),
            ("BÜCHER.example.", "xn--bcher-kva.example"),
            ("XN--BCHER-KVA.example", "xn--bcher-kva.example"),
            ("例え.jp", "xn--r8jz45g.jp"),
            ("_sip.example.org", "_sip.example.org"),
            ("db", "db"),
            ("1.example2", "1.example2"),
        ] {
            assert_eq!(DomainName::parse(text).unwrap().as_str(), form, "{text}");
        }
    }

    #[test]
    fn what_is_no_name_is_refused_with_its_value() {
        let long = format!("{}.org", "a".repeat(64));
        let longer = ["abcdefgh"; 40].join(".");
        for bad in [
            "",
            ".",
            "..",
            "a..b",
            ".a",
            "a b",
            "a/b",
            "a\0b",
            "a\nb",
            "-a.org",
            "a-.org",
            "*.org",
            "a:1",
            "[::1]",
            "127.1",
            "0x7f000001",
            "2130706433",
            "a.0x7F",
            "1.2.3.4",
            "a.1.",
            &long,
            &longer,
        ] {
            let error = DomainName::parse(bad).expect_err(bad);
            assert!(error.to_string().contains("is not a host name"), "{error}");
        }
        DomainName::from_wire("bücher.example".as_bytes()).expect_err("the wire has A-labels only");
        // A soft hyphen alone maps to nothing.
        DomainName::parse("\u{ad}").expect_err("nothing is left of it");
    }

    #[test]
    fn below_means_at_a_dot() {
        let name = |text: &str| DomainName::parse(text).unwrap();
        assert!(name("a.example.org").is_below(&name("example.org")));
        assert!(name("a.b.example.org").is_below(&name("example.org")));
        assert!(!name("example.org").is_below(&name("example.org")));
        assert!(!name("badexample.org").is_below(&name("example.org")));
        assert!(!name("example.org.evil.net").is_below(&name("example.org")));
    }
}
