//! How an attempt ended, by the fleet's facts about its command and its sandbox.

use paddock_fleet::{FleetError, Kind};
use paddock_model::api::{
    AttemptEnd, CodeResult, EndCause, Exec, ExecCause, JobRetries, JobState, RetryOn, Sandbox,
};
use serde_json::Value;

/// Bytes of each stream that are kept with a task.
const TAIL_BYTES: usize = 4096;
/// Larger results are left to the log.
const LARGEST_RESULT: usize = 64 << 10;

pub struct Ending {
    pub end: AttemptEnd,
    pub detail: Option<String>,
    pub exit_code: Option<i32>,
}

impl Ending {
    pub fn new(end: AttemptEnd, detail: impl Into<String>) -> Ending {
        Ending { end, detail: Some(detail.into()), exit_code: None }
    }

    pub fn succeeded(&self) -> bool {
        self.end == AttemptEnd::Succeeded
    }
}

/// `sandbox` is asked for where the command ended with it.
pub fn of_exec(exec: &Exec, sandbox: Option<&Sandbox>) -> Ending {
    let exit_code = exec.exit_code;
    let error = exec.error.as_ref().map(|error| format!("{}: {}", error.name, error.value));
    let with = |end, detail: Option<String>| Ending { end, detail, exit_code };
    match exec.cause.as_ref() {
        Some(ExecCause::Exited) if exit_code == Some(0) && error.is_none() => {
            with(AttemptEnd::Succeeded, None)
        }
        Some(ExecCause::Exited) => {
            with(AttemptEnd::Exit, error.or(exit_code.map(|code| format!("exit code {code}"))))
        }
        Some(ExecCause::Signaled { signal }) => {
            with(AttemptEnd::Exit, Some(format!("ended by signal {signal}")))
        }
        Some(ExecCause::TimeLimit { limit_ms }) => {
            with(AttemptEnd::Timeout, Some(format!("time limit of {} s reached", *limit_ms as f64 / 1000.0)))
        }
        Some(ExecCause::OutOfMemory) => with(AttemptEnd::OutOfMemory, Some("out of memory".into())),
        Some(ExecCause::Killed) => with(AttemptEnd::Exit, Some("its command was killed by a call".into())),
        Some(ExecCause::NotStarted { detail }) => with(AttemptEnd::Exit, Some(detail.clone())),
        Some(ExecCause::SandboxEnded) | None => of_sandbox(sandbox, exit_code),
    }
}

fn of_sandbox(sandbox: Option<&Sandbox>, exit_code: Option<i32>) -> Ending {
    let Some(end) = sandbox.and_then(|sandbox| sandbox.end.as_ref()) else {
        return Ending::new(AttemptEnd::Lost, "its sandbox has gone");
    };
    let kind = match end.cause {
        EndCause::OutOfMemory => AttemptEnd::OutOfMemory,
        EndCause::TimeToLive => AttemptEnd::Timeout,
        _ => AttemptEnd::Lost,
    };
    Ending { end: kind, detail: Some(format!("its sandbox ended: {}", end.reason)), exit_code }
}

/// The ending for a refused create, input or start.
pub fn of_error(error: &FleetError) -> Ending {
    let end = match error.kind {
        Kind::Internal | Kind::Unavailable | Kind::Busy { .. } | Kind::Gone => AttemptEnd::Lost,
        _ => AttemptEnd::Refused,
    };
    let hint = error.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
    Ending::new(end, format!("{}{hint}", error.message))
}

/// True if there may be room later: nothing has begun, and it counts as no attempt.
pub fn may_begin_later(error: &FleetError) -> bool {
    matches!(error.kind, Kind::TooMany { .. } | Kind::Conflict | Kind::Unavailable | Kind::Busy { .. })
}

pub fn is_retried(end: AttemptEnd, retries: &JobRetries, ended: u32) -> bool {
    let on = match end {
        AttemptEnd::Exit => RetryOn::Exit,
        AttemptEnd::Timeout => RetryOn::Timeout,
        AttemptEnd::OutOfMemory => RetryOn::OutOfMemory,
        AttemptEnd::Lost => RetryOn::Lost,
        AttemptEnd::Succeeded | AttemptEnd::Refused | AttemptEnd::Outputs | AttemptEnd::Cancelled => {
            return false;
        }
    };
    ended <= retries.attempts && retries.on.contains(&on)
}

/// The state of a task that is not tried again.
pub fn state_after(end: AttemptEnd) -> JobState {
    match end {
        AttemptEnd::Succeeded => JobState::Succeeded,
        AttemptEnd::Cancelled => JobState::Cancelled,
        _ => JobState::Failed,
    }
}

/// The end of a text, without half a character.
pub fn tail(text: &str) -> String {
    let start = text.len().saturating_sub(TAIL_BYTES);
    let start = (start..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    text[start..].to_string()
}

/// The value of the code's last expression.
pub fn value_of(results: &[CodeResult]) -> Option<Value> {
    let main = results.iter().rev().find(|result| result.main)?;
    let value = main.json.clone().or_else(|| main.text.clone().map(Value::from))?;
    (value.to_string().len() <= LARGEST_RESULT).then_some(value)
}

/// An error and its causes, in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_retried_is_what_the_job_names_and_only_so_often() {
        let retries =
            JobRetries { attempts: 2, on: vec![RetryOn::Timeout, RetryOn::Lost], ..JobRetries::default() };
        for (end, ended, again) in [
            (AttemptEnd::Timeout, 1, true),
            (AttemptEnd::Timeout, 2, true),
            (AttemptEnd::Timeout, 3, false),
            (AttemptEnd::Lost, 1, true),
            (AttemptEnd::Exit, 1, false),
            (AttemptEnd::OutOfMemory, 1, false),
            (AttemptEnd::Succeeded, 1, false),
            (AttemptEnd::Refused, 1, false),
            (AttemptEnd::Cancelled, 1, false),
        ] {
            assert_eq!(is_retried(end, &retries, ended), again, "{end:?} {ended}");
        }
        assert!(!is_retried(AttemptEnd::Exit, &JobRetries::default(), 1));
    }

    #[test]
    fn a_tail_is_short_and_whole_characters() {
        assert_eq!(tail("abc"), "abc");
        let long = "ä".repeat(5000);
        assert!(tail(&long).len() <= TAIL_BYTES && tail(&long).chars().all(|c| c == 'ä'));
    }

    #[test]
    fn only_the_value_of_the_last_expression_is_the_result() {
        let result = |main, text: &str| CodeResult { main, text: Some(text.into()), ..CodeResult::default() };
        assert_eq!(value_of(&[result(true, "1"), result(false, "shown")]), Some("1".into()));
        assert_eq!(value_of(&[result(false, "shown")]), None);
        assert_eq!(value_of(&[result(true, &"x".repeat(LARGEST_RESULT))]), None);
    }
}
