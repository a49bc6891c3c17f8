//! The findings of a scan before the code ran.

use super::escape;
use paddock_model::ScanReport;

/// In the form of a compiler's messages: a click on a line opens the place.
pub fn text(report: &ScanReport, file: &str) -> String {
    let mut text = String::new();
    for finding in &report.findings {
        let place = format!("{file}:{}:{}", finding.line, finding.column);
        text.push_str(&escape::line(&format!("{place}: {}: {}", finding.kind.name(), finding.text)));
        text.push('\n');
    }
    if report.findings_missing > 0 {
        text.push_str(&format!("and {} more\n", report.findings_missing));
    }
    text
}

/// Beside the output of the code.
pub fn remarks(report: &ScanReport) -> String {
    let mut text = String::new();
    for finding in &report.findings {
        text.push_str(&format!("paddock: scan: {}\n", escape::line(&finding.to_string())));
    }
    if report.findings_missing > 0 {
        text.push_str(&format!("paddock: scan: and {} more\n", report.findings_missing));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use paddock_model::{Finding, FindingKind};

    #[test]
    fn findings_are_escaped_and_the_rest_is_counted() {
        let finding = Finding { kind: FindingKind::Socket, line: 2, column: 5, text: "a\u{1b}[2J".into() };
        let report = ScanReport { findings: vec![finding], findings_missing: 3 };
        assert_eq!(text(&report, "a.py"), "a.py:2:5: socket: a\\u{1b}[2J\nand 3 more\n");
        let expected = "paddock: scan: line 2, column 5: socket: a\\u{1b}[2J\npaddock: scan: and 3 more\n";
        assert_eq!(remarks(&report), expected);
        assert_eq!(text(&ScanReport::default(), "-"), "");
    }
}
