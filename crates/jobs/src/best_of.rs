//! Candidates from one state: each is judged by the verifier, and the best one's changes are kept.

use crate::ending::{Ending, of_exec, tail};
use crate::refusals::{invalid, seconds, shown, wrong};
use crate::work::{argv, check_one, start};
use paddock_fleet::{Actor, Fleet, FleetError};
use paddock_model::api::{
    AttemptEnd, BestOf, BestRule, Change, Exec, JobBest, JobSpec, ScoreFrom, Since, Verifier,
};
use std::collections::BTreeMap;

const MOST_CANDIDATES: usize = 100;
const MOST_CHANGES: usize = 10_000;
const DEFAULT_TIMEOUT: f64 = 600.0;
const LONGEST_TIMEOUT: f64 = 604_800.0;
/// The artifact that has the changes of a candidate.
pub const PATCH: &str = "changes.patch";

/// A candidate's changes, taken before the verifier adds some of its own.
pub struct Changed {
    pub changes: Vec<Change>,
    pub patch: String,
}

pub fn check(spec: &JobSpec, best_of: &BestOf) -> Result<(), FleetError> {
    if best_of.candidates.is_empty() || best_of.candidates.len() > MOST_CANDIDATES {
        let count = best_of.candidates.len().to_string();
        return Err(wrong("best_of.candidates", &count, &format!("1 to {MOST_CANDIDATES} candidates")));
    }
    for (number, candidate) in best_of.candidates.iter().enumerate() {
        let place = format!("best_of.candidates[{number}].");
        if candidate.command.is_some() == candidate.code.is_some() {
            let message = format!("field `best_of.candidates[{number}]` has nothing to run, or two things");
            return Err(invalid(message).hint("give it one of `command` and `code`"));
        }
        if candidate.language.is_some() && candidate.code.is_none() {
            let message = format!("field `{place}language` is only for `code`");
            return Err(invalid(message).hint("leave it out"));
        }
        check_one(&place, candidate.command.as_ref(), candidate.code.as_deref())?;
    }
    check_one("best_of.verifier.", Some(&best_of.verifier.command), None)?;
    seconds("best_of.verifier.timeout_seconds", best_of.verifier.timeout_seconds, LONGEST_TIMEOUT)?;
    match best_of.enough {
        Some(enough) if !enough.is_finite() => {
            return Err(wrong("best_of.enough", &enough.to_string(), "a number"));
        }
        Some(_) if best_of.rule == BestRule::FirstPass => {
            let message = "field `best_of.enough` is only for the rule `best_score`";
            return Err(invalid(message).hint("leave it out, or set `rule = \"best_score\"`"));
        }
        _ => {}
    }
    if best_of.sandbox.is_some() {
        let others = [("snapshot", &spec.snapshot), ("template", &spec.template), ("image", &spec.image)];
        if let Some((name, _)) = others.iter().find(|(_, given)| given.is_some()) {
            let message =
                format!("fields `best_of.sandbox` and `{name}` both say what candidates begin with");
            return Err(invalid(message).hint("give one of them"));
        }
    }
    Ok(())
}

pub async fn changed(fleet: &Fleet, actor: &Actor, sandbox: &str) -> Result<Changed, FleetError> {
    let patch = fleet.changes_patch(actor, sandbox, Since::Start).await?;
    let changes = fleet.changes(actor, sandbox, Since::Start).await?.changes;
    Ok(Changed { changes, patch })
}

/// Seconds that a verifier has.
pub fn patience(verifier: &Verifier) -> f64 {
    verifier.timeout_seconds.unwrap_or(DEFAULT_TIMEOUT)
}

/// Starts the verifier; the caller waits for its exec.
pub async fn start_verifier(
    fleet: &Fleet,
    actor: &Actor,
    sandbox: &str,
    spec: &JobSpec,
    verifier: &Verifier,
    env: BTreeMap<String, String>,
) -> Result<Exec, FleetError> {
    let timeout = Some(patience(verifier));
    let request = start(argv(&verifier.command, Vec::new()), env, spec.cwd.clone(), timeout);
    fleet.start_exec(actor, sandbox, request, None).await
}

/// The score, or why there is none.
pub fn judge(verifier: &Verifier, exec: &Exec) -> Result<f64, Ending> {
    let ending = of_exec(exec, None);
    if !ending.succeeded() {
        let said = tail(if exec.stderr.trim().is_empty() { &exec.stdout } else { &exec.stderr });
        let why = ending.detail.unwrap_or_default();
        let last: String = said.trim().lines().next_back().unwrap_or_default().chars().take(200).collect();
        let colon = if last.is_empty() { "" } else { ": " };
        return Err(Ending {
            end: AttemptEnd::Exit,
            detail: Some(format!("the verifier did not let it pass: {why}{colon}{last}")),
            exit_code: exec.exit_code,
        });
    }
    match verifier.score {
        ScoreFrom::Exit => Ok(1.0),
        ScoreFrom::Json => score(&exec.stdout).ok_or_else(|| {
            let last: String = exec.stdout.trim_end().lines().next_back().unwrap_or_default().into();
            let detail = format!(
                "the verifier's last line `{}` is neither a number nor an object with `score`",
                shown(&last)
            );
            Ending::new(AttemptEnd::Exit, detail)
        }),
    }
}

fn score(stdout: &str) -> Option<f64> {
    let last = stdout.trim_end().lines().next_back()?;
    let value: serde_json::Value = serde_json::from_str(last.trim()).ok()?;
    value.as_f64().or_else(|| value.get("score")?.as_f64()).filter(|score| score.is_finite())
}

/// True if a score is better than the best so far.
pub fn beats(best: Option<&JobBest>, index: u32, score: f64) -> bool {
    best.is_none_or(|best| score > best.score || (score == best.score && index < best.index))
}

/// True if no other candidate is needed any more.
pub fn decides(best_of: &BestOf, score: f64) -> bool {
    match best_of.rule {
        BestRule::FirstPass => true,
        BestRule::BestScore => best_of.enough.is_some_and(|enough| score >= enough),
    }
}

pub fn winner(index: u32, score: f64, mut changes: Vec<Change>) -> JobBest {
    let truncated = changes.len() > MOST_CHANGES;
    changes.truncate(MOST_CHANGES);
    JobBest { index, score, changes, truncated }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> JobSpec {
        crate::file::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_score_is_the_last_line() {
        assert_eq!(score("noise\n0.5\n"), Some(0.5));
        assert_eq!(score("{\"score\": 3, \"x\": 1}\n\n"), Some(3.0));
        for none in ["", "0.5 points", "[1]", "{\"points\": 1}", "1\nok", "NaN", "1e999"] {
            assert_eq!(score(none), None, "{none}");
        }
    }

    #[test]
    fn the_highest_wins_and_of_equal_ones_the_first() {
        let best = winner(3, 0.5, vec![]);
        assert!(beats(None, 9, -1.0) && beats(Some(&best), 9, 0.6) && beats(Some(&best), 2, 0.5));
        assert!(!beats(Some(&best), 4, 0.5) && !beats(Some(&best), 1, 0.4));
    }

    #[test]
    fn the_rule_says_when_it_is_decided() {
        let text = "best_of = {candidates = [{command = 'a'}], verifier = {command = 'b'}";
        let first = parse(&format!("{text}}}")).best_of.unwrap();
        let best = parse(&format!("{text}, rule = 'best_score'}}")).best_of.unwrap();
        let enough = parse(&format!("{text}, rule = 'best_score', enough = 2}}")).best_of.unwrap();
        assert!(decides(&first, -5.0) && !decides(&best, 99.0));
        assert!(!decides(&enough, 1.9) && decides(&enough, 2.0));
    }

    #[test]
    fn what_cannot_compete_is_refused_with_its_field() {
        let of = |rest: &str| format!("[best_of]\nverifier = {{command = 'v'}}\n{rest}");
        for (text, words) in [
            (of("candidates = []"), "`best_of.candidates`: `0`"),
            (of("candidates = [{command = 'a'}, {}]"), "`best_of.candidates[1]`"),
            (of("candidates = [{command = 'a', code = 'b'}]"), "two things"),
            (of("candidates = [{command = ' '}]"), "`best_of.candidates[0].command`"),
            (of("candidates = [{command = 'a', language = 'x'}]"), "only for `code`"),
            (of("candidates = [{command = 'a'}]\nenough = 1"), "only for the rule `best_score`"),
            (format!("template = 't'\n{}", of("sandbox = 's'\ncandidates = [{command = 'a'}]")), "both say"),
        ] {
            let spec = parse(&text);
            let error = check(&spec, spec.best_of.as_ref().unwrap()).unwrap_err();
            assert!(error.message.contains(words) && error.hint.is_some(), "{error:?}");
        }
    }
}
