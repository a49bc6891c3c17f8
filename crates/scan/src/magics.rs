//! IPython's additions to Python: `!command`, `%magic`, `%%cell`. Such lines are reported as findings, and masked for
//! the parser.

use super::findings::Findings;
use super::tree::Grammar;
use paddock_model::FindingKind;
use tree_sitter::Tree;

/// Magics that start programs, or another interpreter.
const PROGRAMS: [&str; 19] = [
    "!",
    "bash",
    "sh",
    "script",
    "system",
    "sx",
    "perl",
    "ruby",
    "python",
    "python2",
    "python3",
    "pypy",
    "javascript",
    "js",
    "cmd",
    "pip",
    "conda",
    "mamba",
    "uv",
];
/// Magics that are followed by Python, on the line or in the cell.
const TIMERS: [&str; 4] = ["time", "timeit", "prun", "capture"];
const HARMLESS: [&str; 7] = ["matplotlib", "config", "precision", "who", "whos", "who_ls", "pwd"];

/// The code with each such line replaced by an expression that does nothing, of the same length.
pub fn masked(code: String, findings: &mut Findings) -> String {
    let begins = code.len() - code.trim_start().len();
    if code[begins..].starts_with("%%") {
        return cell(code, begins, findings);
    }
    if !code.contains(['!', '%']) {
        return code;
    }
    match Grammar::Python.parse(&code) {
        // Code that parses as Python has no such lines.
        Some(tree) if tree.root_node().has_error() => lines(code, &tree, findings),
        _ => code,
    }
}

fn cell(code: String, begins: usize, findings: &mut Findings) -> String {
    let end = line_end(&code, begins);
    let word = word(&code[begins + 2..end]);
    if TIMERS.contains(&word) {
        // The line of the magic may hold code too, which runs before the cell.
        if code[begins + 2 + word.len()..end].trim().is_empty() {
            let mut bytes = code.into_bytes();
            blank(&mut bytes[begins..end]);
            return String::from_utf8(bytes).unwrap_or_default();
        }
    }
    let kind = if PROGRAMS.contains(&word) { FindingKind::Subprocess } else { FindingKind::NotParsed };
    findings.add(kind, begins..end);
    // The rest is not Python.
    String::new()
}

fn lines(code: String, tree: &Tree, findings: &mut Findings) -> String {
    let mut bytes = code.clone().into_bytes();
    let mut start = 0;
    while start < code.len() {
        let end = line_end(&code, start);
        if let Some(at) = magic_in(&code[start..end]).map(|at| start + at)
            && !in_text(tree, at)
        {
            mask_line(&mut bytes[at..end], &code[at..end], at, findings);
        }
        start = end + 1;
    }
    String::from_utf8(bytes).unwrap_or_default()
}

/// The place of a `!` or `%` that begins the line, or the value that the line assigns.
fn magic_in(line: &str) -> Option<usize> {
    let trimmed = line.trim_start();
    if trimmed.starts_with(['!', '%']) {
        return Some(line.len() - trimmed.len());
    }
    let (target, value) = line.split_once('=')?;
    let names = !target.trim().is_empty()
        && target.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | ' ' | ',' | '.' | '[' | ']'));
    let value = value.trim_start();
    (names && value.starts_with(['!', '%'])).then(|| line.len() - value.len())
}

fn mask_line(masked: &mut [u8], magic: &str, at: usize, findings: &mut Findings) {
    let range = at..at + magic.len();
    let Some(rest) = magic.strip_prefix('%') else {
        findings.add(FindingKind::Subprocess, range);
        return blank(masked);
    };
    let word = word(rest);
    match word {
        _ if HARMLESS.contains(&word) => {}
        // `%time f()` is `f()`. With options it is reported as not parsed, below.
        _ if TIMERS.contains(&word) && !rest[word.len()..].trim_start().starts_with('-') => {
            masked[..=word.len()].fill(b' ');
            masked[..2].copy_from_slice(b"0;");
            return;
        }
        _ if PROGRAMS.contains(&word) => findings.add(FindingKind::Subprocess, range),
        _ => findings.add(FindingKind::NotParsed, range),
    }
    blank(masked);
}

fn in_text(tree: &Tree, at: usize) -> bool {
    let found = tree.root_node().descendant_for_byte_range(at, at);
    found.is_some_and(|node| {
        matches!(node.kind(), "string_content" | "string" | "comment" | "string_start" | "string_end")
    })
}

fn word(rest: &str) -> &str {
    if rest.starts_with('!') {
        return "!";
    }
    let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
    &rest[..end]
}

fn line_end(code: &str, start: usize) -> usize {
    code[start..].find('\n').map_or(code.len(), |length| start + length)
}

/// Replaces the whole line by spaces and a first character that is an expression; it keeps its length in bytes.
fn blank(line: &mut [u8]) {
    line.fill(b' ');
    if let Some(first) = line.first_mut() {
        *first = b'0';
    }
}
