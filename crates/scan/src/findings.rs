//! The findings so far: at most 100, in the order of the code, with lines and columns.

use paddock_model::{Finding, FindingKind, ScanReport};
use std::collections::HashSet;

const MOST: usize = 100;
const LONGEST_TEXT: usize = 160;

pub struct Findings<'a> {
    code: &'a [u8],
    found: Vec<(usize, Finding)>,
    seen: HashSet<(usize, FindingKind)>,
    missing: u64,
}

impl<'a> Findings<'a> {
    pub fn new(code: &'a [u8]) -> Findings<'a> {
        Findings { code, found: Vec::new(), seen: HashSet::new(), missing: 0 }
    }

    /// Adds a finding with the code of this range as its text.
    pub fn add(&mut self, kind: FindingKind, range: std::ops::Range<usize>) {
        let code = self.code.get(range.clone()).unwrap_or_default();
        let line = code.split(|byte| *byte == b'\n' || *byte == b'\r').next().unwrap_or_default();
        let text = shorten(line, line.len() < code.len());
        self.push(kind, range.start, text);
    }

    /// Adds a finding with words of our own.
    pub fn add_words(&mut self, kind: FindingKind, at: usize, words: &str) {
        self.push(kind, at, words.to_string());
    }

    fn push(&mut self, kind: FindingKind, at: usize, text: String) {
        // A part of an expression begins where the whole does, and would be the same finding again.
        if !self.seen.insert((at, kind)) {
            return;
        }
        if self.found.len() >= MOST {
            // The first finding that the code could not be parsed is never left out.
            let first = kind == FindingKind::NotParsed && !self.has(FindingKind::NotParsed);
            if !first {
                self.missing += 1;
                return;
            }
            self.found.pop();
            self.missing += 1;
        }
        let (line, column) = position(self.code, at);
        self.found.push((at, Finding { kind, line, column, text }));
    }

    pub fn has(&self, kind: FindingKind) -> bool {
        self.found.iter().any(|(_, finding)| finding.kind == kind)
    }

    pub fn report(mut self) -> ScanReport {
        self.found.sort_by_key(|(at, finding)| (*at, finding.kind));
        let findings = self.found.into_iter().map(|(_, finding)| finding).collect();
        ScanReport { findings, findings_missing: self.missing }
    }
}

fn shorten(line: &[u8], more: bool) -> String {
    // A cut character at the end is replaced; the rest of the line need not be read.
    let text = String::from_utf8_lossy(&line[..line.len().min(LONGEST_TEXT * 4)]);
    let mut short: String = text.chars().take(LONGEST_TEXT).collect();
    if more || short.len() < line.len() {
        short.push_str("...");
    }
    short
}

/// Line and column of a byte, both from one; a column is a character. A line ends at LF, CR LF or CR.
fn position(code: &[u8], at: usize) -> (u32, u32) {
    let before = &code[..at.min(code.len())];
    let ends = |index: &usize| match before[*index] {
        b'\n' => true,
        b'\r' => code.get(index + 1) != Some(&b'\n'),
        _ => false,
    };
    let lines = (0..before.len()).filter(ends).count();
    let start = (0..before.len()).rev().find(ends).map_or(0, |index| index + 1);
    let column = String::from_utf8_lossy(&before[start..]).chars().count();
    let number = |count: usize| u32::try_from(count + 1).unwrap_or(u32::MAX);
    (number(lines), number(column))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_characters_and_every_kind_of_line_end_counts() {
        assert_eq!(position("é\nüx".as_bytes(), 5), (2, 2));
        assert_eq!(position(b"a\r\nb", 3), (2, 1));
        assert_eq!(position(b"a\rb", 2), (2, 1));
        assert_eq!(position(b"", 9), (1, 1));
    }

    #[test]
    fn no_number_of_findings_hides_that_the_code_was_not_understood() {
        let code = vec![b'x'; 500];
        let mut findings = Findings::new(&code);
        (0..150).for_each(|at| findings.add(FindingKind::Socket, at..at + 1));
        findings.add(FindingKind::NotParsed, 200..201);
        let report = findings.report();
        assert_eq!((report.findings.len(), report.findings_missing), (MOST, 51));
        assert_eq!(report.findings.last().unwrap().kind, FindingKind::NotParsed);
        assert!(report.findings.iter().all(|finding| finding.text == "x"));
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        let code = "ä".repeat(1000);
        let mut findings = Findings::new(code.as_bytes());
        findings.add(FindingKind::Socket, 0..code.len());
        assert_eq!(findings.report().findings[0].text, format!("{}...", "ä".repeat(LONGEST_TEXT)));
    }
}
