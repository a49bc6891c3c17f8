//! The result for people: a table of backend and identity by group, then everything that needs a word.

use crate::attack::group;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

pub enum Result {
    Held,
    Failed(String),
    NotApplicable(String),
}

#[derive(Default)]
pub struct Table {
    rows: BTreeMap<String, BTreeMap<String, Result>>,
}

impl Table {
    pub fn put(&mut self, row: &str, id: &str, result: Result) {
        self.rows.entry(row.to_string()).or_default().insert(id.to_string(), result);
    }

    pub fn failures(&self) -> Vec<String> {
        let each = |(row, results): (&String, &BTreeMap<String, Result>)| {
            let failed = results.iter().filter_map(|(id, result)| match result {
                Result::Failed(why) => Some(format!("{row} {id}: {why}")),
                _ => None,
            });
            failed.collect::<Vec<_>>()
        };
        self.rows.iter().flat_map(each).collect()
    }

    pub fn print(
        &self,
        elsewhere: &BTreeMap<String, Vec<String>>,
        skipped: &BTreeMap<String, String>,
    ) -> String {
        let groups: BTreeSet<char> =
            self.rows.values().flat_map(|row| row.keys().map(|id| group(id))).collect();
        let mut text = String::from("held/failed/not applicable\n");
        let _ = write!(text, "{:28}", "");
        for group in &groups {
            let _ = write!(text, "{group:>10}");
        }
        text.push('\n');
        for (name, row) in &self.rows {
            let _ = write!(text, "{name:28}");
            for wanted in &groups {
                let of_group = || row.iter().filter(|(id, _)| group(id) == *wanted).map(|(_, result)| result);
                let held = of_group().filter(|r| matches!(r, Result::Held)).count();
                let failed = of_group().filter(|r| matches!(r, Result::Failed(_))).count();
                let rest = of_group().count() - held - failed;
                let _ = write!(text, "{:>10}", format!("{held}/{failed}/{rest}"));
            }
            text.push('\n');
        }
        let _ = writeln!(text, "\nnot applicable:");
        let mut reasons: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
        for (name, row) in &self.rows {
            for (id, result) in row {
                if let Result::NotApplicable(why) = result {
                    reasons.entry((id, why)).or_default().push(name);
                }
            }
        }
        for ((id, why), rows) in reasons {
            let _ = writeln!(text, "  {id} [{}]: {why}", rows.join(", "));
        }
        let _ = writeln!(text, "\ntried elsewhere ({}):", elsewhere.len());
        for (id, tests) in elsewhere {
            let _ = writeln!(text, "  {id}: {}", tests.join(", "));
        }
        let _ = writeln!(text, "\nskipped ({}):", skipped.len());
        for (id, why) in skipped {
            let _ = writeln!(text, "  {id}: {why}");
        }
        let _ = writeln!(text, "\nfailed ({}):", self.failures().len());
        for failure in self.failures() {
            let _ = writeln!(text, "  {failure}");
        }
        text
    }
}
