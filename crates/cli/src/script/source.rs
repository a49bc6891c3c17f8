//! The file, its language and its arguments.

use super::ScriptCommandError;
use crate::args::script::SourceFlags;
use paddock_scripts::{
    Arguments, LARGEST_ARGUMENTS, LARGEST_SOURCE, Language, ScriptError, parse_arguments, parse_value,
};
use std::fs::File;
use std::io::Read;
use std::path::Path;

#[derive(Debug, PartialEq)]
pub struct Source {
    /// As the caller named it.
    pub file: String,
    pub text: String,
    pub language: Language,
}

impl Source {
    pub fn read(flags: &SourceFlags) -> Result<Source, ScriptCommandError> {
        let path = Path::new(&flags.file);
        let file = path.display().to_string();
        let language = match &flags.language {
            Some(name) => name.parse()?,
            None => Language::of_file(path)?,
        };
        let unreadable = |source| ScriptCommandError::File { path: path.to_path_buf(), source };
        let mut bytes = Vec::new();
        let read =
            File::open(path).and_then(|file| file.take(LARGEST_SOURCE as u64 + 1).read_to_end(&mut bytes));
        read.map_err(unreadable)?;
        let wrong = |error| ScriptCommandError::Script { file: Some(file.clone()), error };
        if bytes.len() > LARGEST_SOURCE {
            return Err(wrong(ScriptError::TooLarge(bytes.len())));
        }
        let text = String::from_utf8(bytes).map_err(|_| wrong(ScriptError::NotText))?;
        Ok(Source { file, text, language })
    }

    /// An error of its text, with the file that it is in.
    pub fn wrong(&self, error: ScriptError) -> ScriptCommandError {
        let file = (error.line().is_some() || error.code() == "no_main").then(|| self.file.clone());
        ScriptCommandError::Script { file, error }
    }
}

/// `--args`, and then each `--arg`.
pub fn arguments(
    object: Option<&str>,
    single: &[(String, String)],
    stdin: &mut dyn Read,
) -> Result<Arguments, ScriptCommandError> {
    let mut arguments = match object {
        Some("-") => parse_arguments(&input(stdin, LARGEST_ARGUMENTS)?)?,
        Some(text) => parse_arguments(text)?,
        None => Arguments::new(),
    };
    for (name, value) in single {
        if arguments.insert(name.clone(), parse_value(value)).is_some() {
            return Err(ScriptCommandError::ArgumentTwice(name.escape_debug().to_string()));
        }
    }
    Ok(arguments)
}

/// All of standard input, as text.
pub fn input(stdin: &mut dyn Read, most: usize) -> Result<String, ScriptCommandError> {
    let mut bytes = Vec::new();
    stdin.take(most as u64 + 1).read_to_end(&mut bytes).map_err(ScriptCommandError::Input)?;
    if bytes.len() > most {
        return Err(ScriptCommandError::InputTooLarge(most));
    }
    String::from_utf8(bytes).map_err(|_| ScriptCommandError::InputNotText)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    #[test]
    fn arguments_come_from_one_object_and_single_ones() {
        let all =
            arguments(Some("-"), &pairs(&[("n", "3"), ("t", "three")]), &mut &b"{\"o\": {}}"[..]).unwrap();
        assert_eq!(serde_json::to_value(&all).unwrap(), json!({ "o": {}, "n": 3, "t": "three" }));
        let twice = arguments(Some("{\"n\": 1}"), &pairs(&[("n", "3")]), &mut &b""[..]).unwrap_err();
        assert_eq!(twice.to_string(), "argument `n` is given twice");
        for bad in ["[]", "nope", "\u{0}"] {
            let error = arguments(Some(bad), &[], &mut &b""[..]).unwrap_err();
            assert!(error.hint().is_some(), "{bad}");
        }
        assert!(matches!(
            arguments(Some("-"), &[], &mut &b"\xff"[..]),
            Err(ScriptCommandError::InputNotText)
        ));
    }

    #[test]
    fn a_file_is_read_within_bounds_and_named_in_errors() {
        let directory = tempfile::tempdir().unwrap();
        let read = |name: &str, content: &[u8]| {
            let file = directory.path().join(name);
            std::fs::write(&file, content).unwrap();
            Source::read(&SourceFlags { language: None, file: file.into_os_string() })
        };
        let source = read("a.py", b"# sandbx\ndef main(): pass").unwrap();
        assert_eq!(source.language, Language::Python);
        let error = source.wrong(paddock_scripts::check(&source.text, source.language).unwrap_err());
        assert!(
            error.to_string().ends_with("a.py: line 1: `sandbx` is no annotation; did you mean `sandbox`?"),
            "{error}"
        );
        assert!(read("a.txt", b"").unwrap_err().to_string().contains("does not say its language"));
        assert!(read("a.sh", b"\xff\xfe").unwrap_err().to_string().contains("not UTF-8"));
        assert!(read("a.js", &vec![b' '; LARGEST_SOURCE + 1]).unwrap_err().to_string().contains("the most"));
        let missing = SourceFlags { language: Some("bash".into()), file: "/nonexistent/a".into() };
        assert!(Source::read(&missing).unwrap_err().to_string().contains("cannot be read"));
        let unknown = SourceFlags { language: Some("perl".into()), file: "a.py".into() };
        assert!(Source::read(&unknown).unwrap_err().to_string().contains("`perl` is not known"));
    }
}
