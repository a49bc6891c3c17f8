//! The result for people: a table of backend and identity by group, then everything that needs a word.

use crate::attack::group;
use crate::report::{Judgement, Report};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

const NAME_WIDTH: usize = 26;

impl Report {
    /// Colour is for a terminal only. Details hold words of code inside, so all characters but plain ASCII are escaped.
    pub fn text(&self, colour: bool) -> String {
        let mut text = String::new();
        self.write_table(&mut text, colour);
        self.write_reasons(&mut text);
        let failures = self.failures();
        if !failures.is_empty() {
            let _ = writeln!(text, "\nfailed ({}):", failures.len());
        }
        for failure in &failures {
            let _ = writeln!(text, "  {}", paint("1;31", &harmless(failure), colour));
        }
        let verdict = match self.held {
            true => paint("32", "every attack was held", colour),
            false => paint("1;31", &format!("{} were not held", failures.len()), colour),
        };
        let (attacks, sandboxes, seconds) = (self.attacks, self.sandboxes, self.seconds);
        let _ = writeln!(text, "\n{verdict}: {attacks} attacks, {sandboxes} sandboxes, {seconds:.0} s");
        text
    }

    fn write_table(&self, text: &mut String, colour: bool) {
        let groups: BTreeSet<char> =
            self.rows.iter().flat_map(|row| &row.attacks).map(|attack| group(&attack.id)).collect();
        let _ = write!(text, "{:NAME_WIDTH$}", "held/failed/not applicable");
        for group in &groups {
            let _ = write!(text, "{group:>10}");
        }
        text.push('\n');
        for row in &self.rows {
            let _ = write!(text, "{:NAME_WIDTH$}", row.name());
            for group in &groups {
                let (held, failed, rest) = row.counts(*group);
                let cell = format!("{:>10}", format!("{held}/{failed}/{rest}"));
                let style = if failed > 0 { "1;31" } else { "32" };
                text.push_str(&paint(style, &cell, colour));
            }
            text.push('\n');
        }
        for lack in &self.not_run {
            let name = format!("{} {}", lack.backend, lack.engine);
            let _ = writeln!(text, "{name:NAME_WIDTH$}  not run: {}", harmless(&lack.reason));
        }
    }

    fn write_reasons(&self, text: &mut String) {
        // By reason: one lack of the host usually takes many attacks along.
        let mut reasons: BTreeMap<&str, (BTreeSet<&str>, BTreeSet<String>)> = BTreeMap::new();
        for row in &self.rows {
            for attack in &row.attacks {
                if let Judgement::NotApplicable(why) = &attack.judgement {
                    let entry = reasons.entry(without_control(why)).or_default();
                    entry.0.insert(&attack.id);
                    entry.1.insert(row.name());
                }
            }
        }
        if !reasons.is_empty() {
            text.push_str("\nnot applicable:\n");
        }
        for (why, (ids, rows)) in reasons {
            let ids = ids.into_iter().collect::<Vec<_>>().join(" ");
            let rows = if rows.len() == self.rows.len() {
                "all".to_string()
            } else {
                rows.into_iter().collect::<Vec<_>>().join(", ")
            };
            let _ = writeln!(text, "  {}\n    {ids} [{rows}]", harmless(why));
        }
        if !self.elsewhere.is_empty() {
            let lines = self.elsewhere.keys().map(String::as_str).collect::<Vec<_>>().join(" ");
            let _ =
                writeln!(text, "\ntried by other tests of the source tree (--json names them):\n  {lines}");
        }
        if !self.skipped.is_empty() {
            text.push_str("\nnot tried:\n");
        }
        for (id, why) in &self.skipped {
            let _ = writeln!(text, "  {id}: {why}");
        }
    }
}

/// The control's words differ from attack to attack; the reason before them does not.
fn without_control(why: &str) -> &str {
    why.split_once(" (control: ").map_or(why, |(reason, _)| reason)
}

fn paint(code: &str, text: &str, colour: bool) -> String {
    if colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_string() }
}

fn harmless(text: &str) -> String {
    let plain = |character: char| character == ' ' || character.is_ascii_graphic();
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        if plain(character) {
            safe.push(character);
        } else {
            safe.extend(character.escape_default());
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Row;

    fn row() -> Row {
        let (backend, engine, user) = ("process".into(), "root".into(), "agent".into());
        Row { backend, engine, user, guarantees: None, attacks: Vec::new() }
    }

    #[test]
    fn counts_reasons_and_failures_are_told() {
        let mut row = row();
        row.put("A1-x", "", Judgement::Held);
        row.put("A2-y", "", Judgement::NotApplicable("no such thing (control: Denied: x)".into()));
        row.put("C1-z", "", Judgement::Failed("it said \u{1b}[2J".into()));
        let report = Report { rows: vec![row], attacks: 3, ..Report::default() };
        let text = report.text(false);
        assert!(text.contains("1/0/1") && text.contains("0/1/0"), "{text}");
        assert!(text.contains("  no such thing\n    A2-y [all]\n"), "{text}");
        assert!(text.contains("process root/agent C1-z: it said \\u{1b}[2J"), "{text}");
        assert!(!text.contains('\u{1b}') && report.text(true).contains("\u{1b}[1;31m"));
    }
}
