//! Answers in SandboxFusion's shapes: every field is there, and null where there is nothing.

use super::{Problem, Result};
use paddock_model::api::{CodeError, CodeResult, Exec, ExecCause};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// SandboxFusion keeps so many bytes from the beginning of each stream.
const MOST_OUTPUT_BYTES: usize = 1 << 20;
/// The name of the error of a cell whose interpreter has gone.
pub const INTERPRETER_DIED: &str = "ContextDied";
/// As Python tells of a process that was killed.
const KILLED: i32 = -9;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Status {
    Success,
    Failed,
    SandboxError,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum CommandStatus {
    Finished,
    Error,
    TimeLimitExceeded,
}

/// One command that came to its end.
#[derive(Debug, Clone, Serialize)]
pub struct Command {
    pub status: CommandStatus,
    pub execution_time: Option<f64>,
    pub return_code: Option<i32>,
    pub stdout: Option<String>,
    pub stderr: Option<String>,
}

/// Of `/run_code`.
#[derive(Debug, Clone, Serialize)]
pub struct Answer {
    pub status: Status,
    pub message: String,
    pub compile_result: Option<Command>,
    pub run_result: Option<Command>,
    pub executor_pod_name: Option<String>,
    pub files: BTreeMap<String, String>,
}

/// Of `/run_jupyter`.
#[derive(Debug, Serialize)]
pub struct Notebook {
    pub status: Status,
    pub message: String,
    pub driver: Option<Command>,
    pub cells: Vec<Cell>,
    pub executor_pod_name: Option<String>,
    pub files: BTreeMap<String, String>,
}

#[derive(Debug, Serialize)]
pub struct Cell {
    pub stdout: String,
    pub stderr: String,
    /// Representations of one value, by their media types.
    pub display: Vec<Value>,
    pub error: Vec<Value>,
}

impl Answer {
    pub fn sandbox_error(message: String) -> Answer {
        Answer {
            status: Status::SandboxError,
            message,
            compile_result: None,
            run_result: None,
            executor_pod_name: None,
            files: BTreeMap::new(),
        }
    }

    /// Success if both commands ended with 0.
    pub fn of(compile_result: Option<Command>, run_result: Option<Command>) -> Answer {
        let good = [&compile_result, &run_result].into_iter().flatten().all(Command::is_good);
        let status = if good { Status::Success } else { Status::Failed };
        Answer { status, compile_result, run_result, ..Answer::sandbox_error(String::new()) }
    }
}

impl Command {
    pub fn is_good(&self) -> bool {
        self.status == CommandStatus::Finished && self.return_code == Some(0)
    }

    /// An end that is not the program's own is a failure of the sandbox.
    pub fn of(exec: Exec) -> Result<Command> {
        let mut stderr = beginning(exec.stderr);
        let (status, return_code) = match exec.cause {
            Some(ExecCause::Exited) => (CommandStatus::Finished, exec.exit_code),
            Some(ExecCause::Signaled { signal }) => (CommandStatus::Finished, Some(-signal)),
            Some(ExecCause::TimeLimit { .. }) => (CommandStatus::TimeLimitExceeded, None),
            Some(ExecCause::OutOfMemory) => {
                stderr.push_str("paddock: out of memory: the program was killed at its memory limit\n");
                (CommandStatus::Finished, Some(KILLED))
            }
            Some(ExecCause::NotStarted { detail }) => {
                return Err(Problem::sandbox(
                    "not_started",
                    format!("the program was not started: {detail}"),
                ));
            }
            Some(ExecCause::Killed | ExecCause::SandboxEnded) | None => {
                return Err(Problem::sandbox("sandbox_ended", "the sandbox ended before the program did"));
            }
        };
        let ended = exec.ended_at_ms.unwrap_or(exec.started_at_ms);
        Ok(Command {
            status,
            execution_time: Some(ended.saturating_sub(exec.started_at_ms) as f64 / 1000.0),
            return_code,
            stdout: Some(beginning(exec.stdout)),
            stderr: Some(stderr),
        })
    }
}

/// Cut between characters.
fn beginning(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MOST_OUTPUT_BYTES));
    text
}

/// A cell that came to its end.
pub fn cell(exec: Exec) -> Cell {
    let mut stderr = exec.stderr;
    let error = exec.error.as_ref().filter(|error| error.name != INTERPRETER_DIED);
    // The traceback, which `/v1` prints for whoever reads only that, is told as the error alone.
    if let Some(text) = error.and_then(|error| stderr.strip_suffix(&error.traceback)) {
        stderr = text.to_string();
    }
    Cell {
        stdout: beginning(exec.stdout),
        stderr: beginning(stderr),
        display: exec.results.iter().map(display).collect(),
        error: exec.error.iter().map(error_of).collect(),
    }
}

/// As a Jupyter kernel sends it: one representation for each media type.
fn display(result: &CodeResult) -> Value {
    let texts = [
        ("text/plain", &result.text),
        ("text/html", &result.html),
        ("text/markdown", &result.markdown),
        ("text/latex", &result.latex),
        ("image/svg+xml", &result.svg),
        ("image/png", &result.png),
        ("image/jpeg", &result.jpeg),
        ("application/pdf", &result.pdf),
        ("application/javascript", &result.javascript),
    ];
    let texts = texts.into_iter().filter_map(|(kind, text)| Some((kind.to_string(), json!(text.as_ref()?))));
    let extra = result.extra.iter().map(|(kind, text)| (kind.clone(), json!(text)));
    let json = result.json.iter().map(|value| ("application/json".to_string(), value.clone()));
    Value::Object(texts.chain(extra).chain(json).collect::<Map<_, _>>())
}

fn error_of(error: &CodeError) -> Value {
    let traceback: Vec<&str> = error.traceback.lines().collect();
    json!({ "ename": error.name, "evalue": error.value, "traceback": traceback })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exec(cause: Value, exit_code: i32) -> Exec {
        serde_json::from_value(json!({
            "exec": 1, "sandbox": "sb-1", "state": "ended", "command": "x", "started_at_ms": 1000, "ended_at_ms": 1250,
            "exit_code": exit_code, "cause": cause, "timed_out": false, "stdout": "out", "stderr": "", "stdout_bytes": 3,
            "stderr_bytes": 0, "stdout_missing_bytes": 0, "stderr_missing_bytes": 0,
        }))
        .expect("an exec")
    }

    #[test]
    fn an_end_is_told_as_python_tells_it() {
        for (cause, exit_code, status, code) in [
            (json!({ "kind": "exited" }), 3, CommandStatus::Finished, Some(3)),
            (json!({ "kind": "signaled", "signal": 11 }), 139, CommandStatus::Finished, Some(-11)),
            (json!({ "kind": "time_limit", "limit_ms": 250 }), 124, CommandStatus::TimeLimitExceeded, None),
            (json!({ "kind": "out_of_memory" }), 137, CommandStatus::Finished, Some(-9)),
        ] {
            let command = Command::of(exec(cause, exit_code)).expect("an end of its own");
            assert_eq!((command.status, command.return_code), (status, code));
            assert_eq!((command.execution_time, command.stdout.as_deref()), (Some(0.25), Some("out")));
            let answer = Answer::of(None, Some(command));
            assert_eq!(answer.status, Status::Failed);
        }
        assert!(Command::of(exec(json!({ "kind": "sandbox_ended" }), 137)).is_err());
        let good = Command::of(exec(json!({ "kind": "exited" }), 0)).expect("good");
        let told = serde_json::to_value(Answer::of(None, Some(good))).expect("JSON");
        assert_eq!((&told["status"], &told["compile_result"]), (&json!("Success"), &Value::Null));
    }

    #[test]
    fn long_output_is_cut_between_characters() {
        assert_eq!(beginning("ä".repeat(MOST_OUTPUT_BYTES)).len(), MOST_OUTPUT_BYTES);
        assert_eq!(beginning(format!("x{}", "ä".repeat(MOST_OUTPUT_BYTES))).len(), MOST_OUTPUT_BYTES - 1);
    }
}
