//! Scan before run: what code imports, starts, opens and evaluates, read from its syntax tree. Defence in depth: it finds what is
//! written plainly, and the fence holds what it does not find (docs/guides/scan.md).
//!
//! - [`worker`]: runs a scan in a process of its own, which has nothing: the parser is C, and its input is hostile
//! - [`python`], [`javascript`]: from a tree to findings; [`magics`]: what IPython adds to Python
//! - [`rules`]: which names are objected to; [`names`]: what a name in the code stands for
//! - [`tree`]: parsing, and walking without recursion; [`text`]: the values of literals; [`places`]: which paths are inside
//! - [`findings`]: what was found, within bounds

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

/// What a scan needs to know besides the code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanInput {
    /// As `run_code` names it.
    pub language: String,
    pub allowed_imports: Option<Vec<String>>,
    /// Where relative paths begin; /workspace without it.
    pub cwd: Option<String>,
    /// Paths inside that count as inside, besides /workspace, /tmp and `cwd`.
    pub places: Vec<String>,
}

/// In this process. Never fails: what cannot be scanned is a finding.
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

/// What an interpreter and our parser would read differently is not read at all.
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
