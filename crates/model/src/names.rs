//! Names that came from outside. They end up in file names, cgroups, logs and terminals, so only a small
//! alphabet is let through.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameError {
    pub what: &'static str,
    pub value: String,
    pub rule: &'static str,
}

impl std::fmt::Display for NameError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} `{}` is not allowed: {}", self.what, self.value.escape_debug(), self.rule)
    }
}

impl std::error::Error for NameError {}

/// A sandbox's id: `sb-` and 16 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SandboxId(String);

impl SandboxId {
    /// Precondition: `random` comes from the system's random source, so that ids neither repeat nor can be guessed.
    pub fn from_random(random: u64) -> Self {
        SandboxId(format!("sb-{random:016x}"))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for SandboxId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for SandboxId {
    type Error = NameError;

    fn try_from(value: String) -> Result<Self, NameError> {
        let digits = value.strip_prefix("sb-").unwrap_or("");
        if digits.len() == 16 && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return Ok(SandboxId(value));
        }
        Err(name_error("sandbox id", &value, "an id is `sb-` and 16 hexadecimal digits"))
    }
}

impl From<SandboxId> for String {
    fn from(id: SandboxId) -> String {
        id.0
    }
}

pub fn check_template_name(name: &str) -> Result<(), NameError> {
    let rule = "use 1 to 64 of a-z, 0-9, `-`, `_` and `.`, beginning with a letter or digit";
    let fine = (1..=64).contains(&name.len())
        && name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.'))
        && name.as_bytes()[0].is_ascii_alphanumeric();
    if fine { Ok(()) } else { Err(name_error("template name", name, rule)) }
}

pub fn check_hostname(name: &str) -> Result<(), NameError> {
    let rule = "use 1 to 63 of a-z, A-Z, 0-9, `-` and `.`, beginning and ending with a letter or digit";
    let bytes = name.as_bytes();
    let fine = (1..=63).contains(&bytes.len())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.'))
        && bytes[0].is_ascii_alphanumeric()
        && bytes[bytes.len() - 1].is_ascii_alphanumeric();
    if fine { Ok(()) } else { Err(name_error("host name", name, rule)) }
}

pub fn check_environment_name(name: &str) -> Result<(), NameError> {
    let rule = "the name of a variable is not empty and has no `=`, NUL or newline";
    let fine = !name.is_empty() && !name.contains(['=', '\0', '\n']);
    if fine { Ok(()) } else { Err(name_error("environment variable", name, rule)) }
}

fn name_error(what: &'static str, value: &str, rule: &'static str) -> NameError {
    NameError { what, value: value.chars().take(80).collect(), rule }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_round_trip_and_refuse_anything_else() {
        let id = SandboxId::from_random(0xabc);
        assert_eq!(SandboxId::try_from(id.to_string()), Ok(id));
        for bad in ["", "sb-", "../x", "sb-0000000000000ABC", "sb-0000000000000abc\n", "sb-00000000000000abc"]
        {
            SandboxId::try_from(bad.to_string()).expect_err(bad);
        }
    }

    #[test]
    fn hostile_names_are_refused() {
        for bad in ["", ".x", "../x", "a/b", "a\0", "a\nb", "é", &"a".repeat(65)] {
            check_template_name(bad).expect_err(bad);
            check_hostname(bad).expect_err(bad);
        }
        check_template_name("python-3.12_x").unwrap();
        check_hostname("box-1.local").unwrap();
        check_environment_name("A=B").unwrap_err();
        check_environment_name("A").unwrap();
    }
}
