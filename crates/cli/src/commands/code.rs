//! `paddock code`: source text in a fresh sandbox, by a plain interpreter.

use super::CommandError;
use super::sandboxed::{self, Streams};
use super::scan;
use crate::args::{CodeArgs, Language};
use crate::caller::Caller;
use crate::session::StdinMode;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const LARGEST_SOURCE: u64 = 8 << 20;

#[derive(Debug, thiserror::Error)]
pub enum CodeError {
    #[error("the source is larger than 8 MiB")]
    TooLarge,
    #[error("source file `{}` does not exist", .0.display())]
    Missing(PathBuf),
    #[error("source file `{}` cannot be read", .path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("the source cannot be read from standard input")]
    Stdin(#[source] io::Error),
}

impl CodeError {
    pub fn hint(&self) -> Option<String> {
        match self {
            CodeError::Missing(_) => Some("to run it as source text, pass it on standard input".to_string()),
            CodeError::TooLarge => Some("mount large data with --read, and run a small program".to_string()),
            _ => None,
        }
    }
}

pub struct Source {
    pub text: Vec<u8>,
    pub extension: Option<String>,
    pub is_file: bool,
    stdin: StdinMode,
}

pub fn execute(args: CodeArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    let source = read_source(args.source.as_deref(), caller.stdin)?;
    let language = args.language.or_else(|| by_extension(source.extension.as_deref()?));
    let language = language.unwrap_or(Language::Python);
    let (interpreter, path) = interpreter(language, &source);
    let streams = Streams::chosen(&args.call, caller.terminals, source.stdin)?;
    let explain = args.call.explain;
    let command = vec![interpreter.to_string(), path.to_string()];
    let mut session =
        sandboxed::session(Vec::new(), args.call, args.policy, args.scan, command, streams, caller)?;
    if !explain {
        session.scanned = scan::look_at(&session, language.name(), &source.text, caller)?;
    }
    session.file = Some((PathBuf::from(path), source.text));
    sandboxed::run_or_explain(session, explain, caller)
}

pub fn read_source(argument: Option<&OsStr>, stdin: &mut dyn Read) -> Result<Source, CodeError> {
    let Some(argument) = argument.filter(|argument| *argument != "-") else {
        let text = read_limited(stdin, CodeError::Stdin)?;
        return Ok(Source { text, extension: None, is_file: false, stdin: StdinMode::None });
    };
    let path = Path::new(argument);
    let extension = path.extension().map(|extension| extension.to_string_lossy().into_owned());
    // A text that is too long for a name, or holds a NUL, is no file either.
    if path.exists() {
        let unreadable = |source| CodeError::Unreadable { path: path.to_path_buf(), source };
        let mut file = File::open(path).map_err(unreadable)?;
        let text = read_limited(&mut file, unreadable)?;
        return Ok(Source { text, extension, is_file: true, stdin: StdinMode::Inherit });
    }
    let text = argument.as_bytes();
    if looks_like_a_path(text) && extension.as_deref().is_some_and(|name| by_extension(name).is_some()) {
        return Err(CodeError::Missing(path.to_path_buf()));
    }
    Ok(Source { text: text.to_vec(), extension: None, is_file: false, stdin: StdinMode::Inherit })
}

/// All of standard input.
pub fn read_all(stdin: &mut dyn Read) -> Result<Vec<u8>, CodeError> {
    read_limited(stdin, CodeError::Stdin)
}

fn read_limited(
    reader: &mut dyn Read,
    failed: impl Fn(io::Error) -> CodeError,
) -> Result<Vec<u8>, CodeError> {
    let mut text = Vec::new();
    reader.take(LARGEST_SOURCE + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > LARGEST_SOURCE { Err(CodeError::TooLarge) } else { Ok(text) }
}

fn looks_like_a_path(text: &[u8]) -> bool {
    !text.iter().any(|byte| byte.is_ascii_whitespace() || matches!(byte, b'(' | b';' | b'\'' | b'"'))
}

fn by_extension(extension: &str) -> Option<Language> {
    match extension {
        "py" => Some(Language::Python),
        "js" | "mjs" | "cjs" => Some(Language::Javascript),
        "sh" | "bash" => Some(Language::Bash),
        _ => None,
    }
}

/// The interpreter, and the path inside at which it finds the source.
fn interpreter(language: Language, source: &Source) -> (&'static str, &'static str) {
    match language {
        Language::Python => ("python3", "/tmp/paddock-code.py"),
        Language::Javascript if is_commonjs(source) => ("node", "/tmp/paddock-code.cjs"),
        Language::Javascript => ("node", "/tmp/paddock-code.mjs"),
        Language::Bash => ("bash", "/tmp/paddock-code.sh"),
    }
}

/// Modules are the default, for their top-level `await`; a source that calls `require` and imports nothing is
/// of the older kind.
fn is_commonjs(source: &Source) -> bool {
    match source.extension.as_deref() {
        Some("cjs") => return true,
        Some("mjs") => return false,
        _ => {}
    }
    let text = String::from_utf8_lossy(&source.text);
    let is_module = text.lines().any(|line| line.starts_with("import ") || line.starts_with("export "));
    !is_module && (text.contains("require(") || text.contains("module.exports"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(argument: Option<&str>, stdin: &str) -> Result<Source, CodeError> {
        read_source(argument.map(OsStr::new), &mut stdin.as_bytes())
    }

    #[test]
    fn the_source_is_a_file_the_argument_or_standard_input() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.sh");
        std::fs::write(&file, "echo file").unwrap();
        let from_file = source(file.to_str(), "in").unwrap();
        assert_eq!(from_file.text, b"echo file");
        assert_eq!(from_file.extension.as_deref(), Some("sh"));
        assert_eq!(from_file.stdin, StdinMode::Inherit);
        for argument in [None, Some("-")] {
            let from_stdin = source(argument, "print(2)").unwrap();
            assert_eq!(from_stdin.text, b"print(2)");
            assert_eq!(from_stdin.stdin, StdinMode::None);
        }
        let literal = source(Some("print(open('a.py').read())"), "").unwrap();
        assert_eq!(literal.text, b"print(open('a.py').read())");
        assert_eq!(source(Some(&"x = 1\n".repeat(2000)), "").unwrap().text.len(), 12_000);
    }

    #[test]
    fn a_path_that_is_not_there_is_not_run_as_source() {
        for path in ["nope.py", "./dir/nope.js", "nope.sh"] {
            let error = source(Some(path), "").err().unwrap();
            assert_eq!(error.to_string(), format!("source file `{path}` does not exist"));
        }
        let error = source(Some("/tmp"), "").err().unwrap();
        assert_eq!(error.to_string(), "source file `/tmp` cannot be read");
    }

    #[test]
    fn a_source_has_a_largest_size() {
        let huge = "x".repeat(LARGEST_SOURCE as usize + 1);
        assert_eq!(source(None, &huge).err().unwrap().to_string(), "the source is larger than 8 MiB");
        assert!(source(None, &huge[1..]).is_ok());
    }

    #[test]
    fn javascript_of_both_kinds_is_told_apart() {
        let path = |text: &str| interpreter(Language::Javascript, &source(Some(text), "").unwrap()).1;
        assert_eq!(path("await 1"), "/tmp/paddock-code.mjs");
        assert_eq!(path("import fs from 'fs';\nfs.x"), "/tmp/paddock-code.mjs");
        assert_eq!(path("const fs = require('fs');"), "/tmp/paddock-code.cjs");
    }
}
