//! The last results of `paddock verify`, one line for each engine and user.

use super::style::Style;
use super::table::{Cell, Table};
use super::{escape, time};
use paddock_model::api::{VerifyResult, VerifyResults, VerifyRow, VerifyVerdict};

pub fn text(kept: &VerifyResults, colour: bool) -> String {
    if kept.results.is_empty() {
        return "paddock verify was never run with this state directory\n".into();
    }
    let mut table = Table::with_header(&[
        "BACKEND",
        "ENGINE/USER",
        "HELD",
        "FAILED",
        "NOT APPLICABLE",
        "WHEN",
        "VERSION",
        "ONLY",
    ]);
    let mut reasons = String::new();
    for result in &kept.results {
        for row in &result.rows {
            table.row(cells(result, row));
            let failed = row.attacks.iter().filter(|attack| attack.verdict == VerifyVerdict::Failed);
            for attack in failed {
                let why = escape::line(attack.detail.as_deref().unwrap_or_default());
                reasons +=
                    &format!("  {} {}/{} {}: {why}\n", result.backend, row.engine, row.user, attack.id);
            }
        }
        for lack in &result.not_run {
            reasons +=
                &format!("  {} {}: not run: {}\n", result.backend, lack.engine, escape::line(&lack.reason));
        }
        for left in &result.left_behind {
            reasons += &format!("  {}: left behind: {}\n", result.backend, escape::line(left));
        }
    }
    let gap = if reasons.is_empty() { "" } else { "\n" };
    format!("{}{gap}{reasons}", table.render(colour))
}

fn cells(result: &VerifyResult, row: &VerifyRow) -> [Cell; 8] {
    let count = |verdict| row.attacks.iter().filter(|attack| attack.verdict == verdict).count();
    let failed = count(VerifyVerdict::Failed);
    let when = time::relative(result.at_ms, time::now_ms());
    [
        result.backend.as_str().into(),
        format!("{}/{}", row.engine, row.user).as_str().into(),
        count(VerifyVerdict::Held).to_string().as_str().into(),
        if failed > 0 { Cell::new(&failed.to_string(), Style::Bad) } else { "0".into() },
        count(VerifyVerdict::NotApplicable).to_string().as_str().into(),
        when.as_str().into(),
        result.version.as_str().into(),
        if result.only.is_empty() { "all".into() } else { result.only.join(" ").as_str().into() },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use paddock_model::api::VerifyAttack;

    #[test]
    fn failures_are_named_and_harmless() {
        let attack = |id: &str, verdict, detail: Option<&str>| VerifyAttack {
            id: id.into(),
            title: String::new(),
            verdict,
            detail: detail.map(String::from),
        };
        let attacks = vec![
            attack("A1-x", VerifyVerdict::Held, None),
            attack("A2-y", VerifyVerdict::Failed, Some("it said \u{1b}[2J")),
        ];
        let row = VerifyRow { engine: "root".into(), user: "agent".into(), attacks };
        let result = VerifyResult { backend: "first".into(), rows: vec![row], ..VerifyResult::default() };
        let shown = text(&VerifyResults { results: vec![result] }, false);
        assert!(shown.contains("first root/agent A2-y: it said \\u{1b}[2J"), "{shown}");
        assert!(!shown.contains('\u{1b}'), "{shown}");
        assert!(text(&VerifyResults::default(), false).contains("never run"));
    }
}
