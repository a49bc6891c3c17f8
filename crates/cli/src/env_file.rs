//! Variables for the inside: `NAME=VALUE`, or `NAME` alone for the caller's own value, as Docker has it.

use crate::caller::Environment;
use paddock_model::{NameError, check_environment_name};
use std::collections::BTreeMap;

#[derive(Debug, thiserror::Error)]
pub enum VariableError {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("the value of `{0}` is not UTF-8 text")]
    NotText(String),
}

#[derive(Debug, thiserror::Error)]
pub enum EnvFileError {
    #[error("line {line}")]
    Line { line: usize, source: VariableError },
    #[error("line {line} is not UTF-8 text")]
    NotText { line: usize },
}

/// `Ok(None)`: the name alone, of a variable that the caller does not have.
pub fn parse_variable(text: &str, caller: &Environment) -> Result<Option<(String, String)>, VariableError> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (text, None),
    };
    check_environment_name(name)?;
    let value = match (value, caller.value(name)) {
        (Some(value), _) => value,
        (None, Some(value)) => value.to_str().ok_or_else(|| VariableError::NotText(name.to_string()))?,
        (None, None) => return Ok(None),
    };
    Ok(Some((name.to_string(), value.to_string())))
}

/// One variable per line; empty lines and lines that begin with `#` are skipped.
pub fn parse(bytes: &[u8], caller: &Environment) -> Result<BTreeMap<String, String>, EnvFileError> {
    let mut variables = BTreeMap::new();
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let number = index + 1;
        let text = std::str::from_utf8(line).map_err(|_| EnvFileError::NotText { line: number })?;
        let text = text.strip_suffix('\r').unwrap_or(text).trim_start();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let checked = match text.split_once('=') {
            // The kernel would take it, but a space is a mistake in every env file that has one.
            Some((name, _)) if name.contains(char::is_whitespace) => Err(spaced(name)),
            _ => parse_variable(text, caller),
        };
        variables.extend(checked.map_err(|source| EnvFileError::Line { line: number, source })?);
    }
    Ok(variables)
}

fn spaced(name: &str) -> VariableError {
    VariableError::Name(NameError {
        what: "environment variable",
        value: name.chars().take(80).collect(),
        rule: "a name in an env file has no spaces; write NAME=VALUE, without `export`",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error;

    fn caller() -> Environment {
        [("TOKEN".into(), "t".into())].into_iter().collect()
    }

    #[test]
    fn lines_as_docker_takes_them() {
        let text = b"# comment\n\nA=1\r\nB=x=y # kept\nTOKEN\nABSENT\nEMPTY=\n";
        let variables = parse(text, &caller()).unwrap();
        let expected = [("A", "1"), ("B", "x=y # kept"), ("EMPTY", ""), ("TOKEN", "t")];
        assert_eq!(variables, expected.map(|(k, v)| (k.to_string(), v.to_string())).into());
    }

    #[test]
    fn a_bad_line_is_named_by_its_number() {
        for (text, number) in [("A=1\n=2\n", 2), ("\n\nexport A=1\n", 3), ("A=1\nB\0C=2", 2)] {
            let error = parse(text.as_bytes(), &caller()).unwrap_err();
            assert_eq!(error.to_string(), format!("line {number}"));
            assert!(error.source().unwrap().to_string().starts_with("environment variable `"), "{error:?}");
        }
        assert_eq!(parse(b"A=1\n\xff=2", &caller()).unwrap_err().to_string(), "line 2 is not UTF-8 text");
    }
}
