//! The report as it is kept: one result for each backend, bounded, without control characters of code inside.

use crate::GROUPS;
use crate::report::{Judged, Judgement, Report, Row};
use paddock_model::api::{VerifyAttack, VerifyLack, VerifyResult, VerifyRow, VerifyVerdict};
use std::collections::BTreeSet;
use std::time::SystemTime;

const LONGEST_DETAIL: usize = 2000;
const MOST_LEFT_BEHIND: usize = 100;

impl Report {
    /// `only`: the groups that were asked for; empty: all.
    pub fn results(&self, version: &str, only: &[String]) -> Vec<VerifyResult> {
        let tried = self.rows.iter().map(|row| &row.backend);
        let backends: BTreeSet<&String> =
            tried.chain(self.not_run.iter().map(|lack| &lack.backend)).collect();
        backends.into_iter().map(|backend| self.result(backend, version, only)).collect()
    }

    fn result(&self, backend: &str, version: &str, only: &[String]) -> VerifyResult {
        let rows: Vec<&Row> = self.rows.iter().filter(|row| row.backend == backend).collect();
        let failed = |judged: &Judged| matches!(judged.judgement, Judgement::Failed(_));
        let none_failed = !rows.iter().flat_map(|row| &row.attacks).any(failed);
        VerifyResult {
            backend: backend.into(),
            at_ms: now_ms(),
            seconds: self.seconds,
            version: version.into(),
            kernel: rustix::system::uname().release().to_str().ok().map(String::from),
            only: only.to_vec(),
            held: !rows.is_empty() && none_failed && self.left_behind.is_empty(),
            groups: GROUPS.iter().map(|(letter, about)| (letter.to_string(), about.to_string())).collect(),
            rows: rows.into_iter().map(row).collect(),
            not_run: self
                .not_run
                .iter()
                .filter(|lack| lack.backend == backend)
                .map(|lack| VerifyLack { engine: lack.engine.clone(), reason: plain(&lack.reason) })
                .collect(),
            left_behind: self.left_behind.iter().take(MOST_LEFT_BEHIND).map(|text| plain(text)).collect(),
        }
    }
}

fn row(row: &Row) -> VerifyRow {
    let attacks = row.attacks.iter().map(attack).collect();
    VerifyRow { engine: row.engine.clone(), user: row.user.clone(), attacks }
}

fn attack(judged: &Judged) -> VerifyAttack {
    let (verdict, detail) = match &judged.judgement {
        Judgement::Held => (VerifyVerdict::Held, None),
        Judgement::Failed(why) => (VerifyVerdict::Failed, Some(plain(why))),
        Judgement::NotApplicable(why) => (VerifyVerdict::NotApplicable, Some(plain(why))),
    };
    VerifyAttack { id: judged.id.clone(), title: judged.title.clone(), verdict, detail }
}

fn plain(text: &str) -> String {
    let shown = |character: char| if character.is_control() { '\u{fffd}' } else { character };
    text.chars().take(LONGEST_DETAIL).map(shown).collect()
}

fn now_ms() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |elapsed| u64::try_from(elapsed.as_millis()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::NotRun;

    #[test]
    fn every_backend_has_a_result_of_its_own() {
        let row = |backend: &str, judgement| {
            let mut row = Row {
                backend: backend.into(),
                engine: "root".into(),
                user: "agent".into(),
                guarantees: None,
                attacks: Vec::new(),
            };
            row.put("A1-x", "reads a file", judgement);
            row
        };
        let long = format!("it said \u{1b}[2J{}", "x".repeat(5000));
        let not_run =
            NotRun { backend: "third".into(), engine: "root".into(), reason: "it is not installed".into() };
        let rows = vec![row("first", Judgement::Held), row("second", Judgement::Failed(long))];
        let mut report = Report { rows, not_run: vec![not_run], ..Report::default() };
        let results = report.results("1.2.3", &["A".into()]);
        let held: Vec<_> = results.iter().map(|result| (result.backend.as_str(), result.held)).collect();
        assert_eq!(held, [("first", true), ("second", false), ("third", false)]);
        let detail = results[1].rows[0].attacks[0].detail.clone().unwrap();
        assert!(detail.chars().count() == LONGEST_DETAIL && !detail.contains('\u{1b}'), "{detail}");
        assert_eq!(results[2].not_run[0].reason, "it is not installed");
        assert_eq!(
            (results[0].version.as_str(), results[0].only.as_slice()),
            ("1.2.3", &["A".to_string()][..])
        );
        report.left_behind.push("a mount".into());
        assert!(!report.results("1.2.3", &[])[0].held, "remains are nothing that was held");
    }
}
