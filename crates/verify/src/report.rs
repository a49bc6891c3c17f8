//! The result as data: one row per backend and identity, one judgement per attack.

use crate::attack::group;
use paddock_model::Guarantees;
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "result", content = "detail", rename_all = "snake_case")]
pub enum Judgement {
    Held,
    Failed(String),
    /// With the reason, which was measured on this host or told by the sandbox itself.
    NotApplicable(String),
}

#[derive(Debug, Clone, Serialize)]
pub struct Judged {
    pub id: String,
    pub title: String,
    #[serde(flatten)]
    pub judgement: Judgement,
}

#[derive(Debug, Clone, Serialize)]
pub struct Row {
    pub backend: String,
    pub engine: String,
    pub user: String,
    /// The guarantees that the sandbox reported; absent when none came up.
    pub guarantees: Option<Guarantees>,
    pub attacks: Vec<Judged>,
}

/// A backend that this host does not have for this engine.
#[derive(Debug, Clone, Serialize)]
pub struct NotRun {
    pub backend: String,
    pub engine: String,
    pub reason: String,
}

#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub held: bool,
    pub rows: Vec<Row>,
    pub not_run: Vec<NotRun>,
    /// The remains of all rows together on the host; empty when there are none.
    pub left_behind: Vec<String>,
    /// Lines of the catalogue that other tests of the source tree try, and which.
    pub elsewhere: BTreeMap<String, Vec<String>>,
    /// Lines of the catalogue, or parts of them, that nothing tries, each with the reason.
    pub skipped: BTreeMap<String, String>,
    pub attacks: usize,
    pub sandboxes: usize,
    pub seconds: f64,
}

impl Row {
    pub fn name(&self) -> String {
        format!("{} {}/{}", self.backend, self.engine, self.user)
    }

    pub fn put(&mut self, id: &str, title: &str, judgement: Judgement) {
        self.attacks.push(Judged { id: id.to_string(), title: title.to_string(), judgement });
    }

    /// Held, failed, not applicable.
    pub fn counts(&self, letter: char) -> (usize, usize, usize) {
        let mut counts = (0, 0, 0);
        for attack in self.attacks.iter().filter(|attack| group(&attack.id) == letter) {
            match attack.judgement {
                Judgement::Held => counts.0 += 1,
                Judgement::Failed(_) => counts.1 += 1,
                Judgement::NotApplicable(_) => counts.2 += 1,
            }
        }
        counts
    }
}

impl Report {
    /// Row, attack and reason of everything that did not hold, the remains included.
    pub fn failures(&self) -> Vec<String> {
        let of_row = |row: &Row| {
            let name = row.name();
            let failed = row.attacks.iter().filter_map(move |attack| match &attack.judgement {
                Judgement::Failed(why) => Some(format!("{name} {}: {why}", attack.id)),
                _ => None,
            });
            failed.collect::<Vec<_>>()
        };
        let left = self.left_behind.iter().map(|what| format!("left behind: {what}"));
        self.rows.iter().flat_map(of_row).chain(left).collect()
    }
}
