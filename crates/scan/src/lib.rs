//! Scan before run: the imports, programs, files and evaluated text of code, read from its syntax tree. Defence in
//! depth: the scan finds code that is written plainly, and the fence holds the rest (docs/guides/scan.md).
//!
//! - [`worker`]: runs a scan in a process without any rights: the parser is C, and its input is hostile
//! - [`python`], [`javascript`]: from a tree to findings; [`magics`]: IPython's additions to Python
//! - [`rules`]: the names that are objected to; [`names`]: the meanings of a name in the code
//! - [`tree`]: parsing, and walking without recursion; [`text`]: the values of literals; [`places`]: the paths that are
//!   inside
//! - [`findings`]: the list of findings, within bounds

mod findings;
mod javascript;
mod magics;
mod names;
mod places;
mod python;
mod rules;
mod text;
mod tree;
mod worker;

#[cfg(test)]
mod hostile;

pub use worker::{ScanFailure, run, serve_if_asked};

use findings::Findings;
use paddock_model::{FindingKind, ScanReport};
use places::Places;
use serde::{Deserialize, Serialize};

/// Larger code is not parsed: a tree takes some three hundred times the room of its text.
pub const LARGEST: usize = 1 << 20;

/// The facts that a scan needs besides the code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanInput {
    /// The language, by its name in `run_code`.
    pub language: String,
    pub allowed_imports: Option<Vec<String>>,
    /// The directory of relative paths; /workspace without it.
    pub cwd: Option<String>,
    /// Paths inside that count as inside, besides /workspace, /tmp and `cwd`.
    pub places: Vec<String>,
}

/// Scans in this process. Never fails: code that cannot be scanned is a finding.
fn scan(input: &ScanInput, code: &[u8]) -> ScanReport {
    let mut findings = Findings::new(code);
    let Some(language) = tree::Grammar::of(&input.language) else {
        let words = format!("there is no parser for {}", input.language);
        findings.add_words(FindingKind::NotScanned, 0, &words);
        return findings.report();
    };
    let text = match readable(code) {
        Ok(text) => text,
        Err((at, words)) => {
            findings.add_words(FindingKind::NotParsed, at, &words);
            return findings.report();
        }
    };
    let request = Request {
        text,
        grammar: language,
        allowed: input.allowed_imports.as_deref(),
        places: Places::new(input.cwd.as_deref(), &input.places),
    };
    match language {
        tree::Grammar::Python => python::scan(&request, &mut findings),
        tree::Grammar::JavaScript | tree::Grammar::TypeScript => javascript::scan(&request, &mut findings),
    }
    findings.report()
}

struct Request<'a> {
    text: &'a str,
    grammar: tree::Grammar,
    allowed: Option<&'a [String]>,
    places: Places,
}

/// Refuses code that an interpreter and our parser would read differently.
fn readable(code: &[u8]) -> Result<&str, (usize, String)> {
    if code.len() > LARGEST {
        return Err((0, format!("code of {} bytes is more than the {LARGEST} that are parsed", code.len())));
    }
    let text = std::str::from_utf8(code)
        .map_err(|error| (error.valid_up_to(), "the code is not UTF-8 text from here on".to_string()))?;
    match text.find('\0') {
        Some(at) => Err((at, "the code holds a NUL".to_string())),
        None => Ok(text),
    }
}
