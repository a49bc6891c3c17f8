//! Commands and code inside a sandbox.

use super::contexts::{CodeError, CodeResult};
use crate::scan::Finding;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct StartExec {
    /// A command line for `/bin/sh -c`. Either this or `argv`.
    pub command: Option<String>,
    pub argv: Option<Vec<String>>,
    /// Added to the sandbox's.
    pub env: BTreeMap<String, String>,
    pub cwd: Option<String>,
    pub user: Option<String>,
    /// All of its standard input. Without it, and without `open_stdin`, the command reads nothing.
    pub stdin: Option<String>,
    /// Keep standard input open for `POST .../stdin`.
    pub open_stdin: bool,
    #[cfg_attr(feature = "schema", schema(exclusive_minimum = 0.0, maximum = 31622400.0))]
    pub timeout_seconds: Option<f64>,
    /// A terminal of this size; stdout and stderr are then one stream.
    pub terminal: Option<TerminalSize>,
    /// Answer at once instead of when the command has ended.
    pub background: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct TerminalSize {
    #[cfg_attr(feature = "schema", schema(minimum = 1))]
    pub rows: u16,
    #[cfg_attr(feature = "schema", schema(minimum = 1))]
    pub columns: u16,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RunCode {
    pub code: String,
    /// `python` (default), `javascript`, `typescript`, `bash`, `sh` (which remembers nothing), or one for which the
    /// template has a runner. With `context` it may be left out.
    #[serde(default)]
    pub language: Option<String>,
    /// The context to run in; the language's default one without it, made at its first use.
    #[serde(default)]
    pub context: Option<String>,
    /// All of its standard input, for this call. Without it the code reads nothing.
    #[serde(default)]
    pub stdin: Option<String>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    #[serde(default)]
    pub cwd: Option<String>,
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(exclusive_minimum = 0.0, maximum = 31622400.0))]
    pub timeout_seconds: Option<f64>,
    /// Answer at once instead of when the code has ended.
    #[serde(default)]
    pub background: bool,
    /// Answer with lines of JSON as things happen, as `GET .../output` does.
    #[serde(default)]
    pub stream: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ExecState {
    Running,
    Ended,
}

/// One command, running or ended. Output is filled in once it has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Exec {
    pub exec: u32,
    pub sandbox: String,
    pub state: ExecState,
    /// The command as it was given, as one line.
    pub command: String,
    pub started_at_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<u64>,
    /// The command's own, or 128 and the signal's number; 124 after a time limit, as in a shell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<ExecCause>,
    pub timed_out: bool,
    /// Text; bytes that are not UTF-8 are replaced. The exact bytes are at `.../stdout` and `.../stderr`.
    pub stdout: String,
    pub stderr: String,
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
    /// Bytes in the middle that were not kept.
    pub stdout_missing_bytes: u64,
    pub stderr_missing_bytes: u64,
    /// The context that the code ran in, or whose interpreter this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// Of code, once it has ended: what it displayed, and the value of its last expression.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<CodeResult>,
    /// Results that were not kept because there were too many.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub results_missing: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<CodeError>,
    /// The context had ended in this way before this call and began anew for it: what it remembered is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_restarted: Option<ExecCause>,
    /// Of code that was scanned before it ran: what was found in it, at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// Findings beyond those.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub findings_missing: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ExecCause {
    Exited,
    Signaled {
        signal: i32,
    },
    TimeLimit {
        limit_ms: u64,
    },
    OutOfMemory,
    /// By a call.
    Killed,
    /// It never ran: no such command, not executable, no such directory.
    NotStarted {
        detail: String,
    },
    /// Its sandbox ended, hibernated or was lost.
    SandboxEnded,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum StreamName {
    Stdout,
    Stderr,
}

/// One line of `GET .../output`, in the order in which things happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum OutputEvent {
    Output {
        stream: StreamName,
        /// Of the first byte, in its stream.
        offset: u64,
        /// Base64.
        data: String,
    },
    /// Bytes that were not kept.
    Gap { stream: StreamName, offset: u64, bytes: u64 },
    /// Of code: something that it displayed, or the value of its last expression.
    Result { result: Box<CodeResult> },
    /// Of code: why it did not come to its end.
    Error { error: CodeError },
    /// The last line; `exec` without its output.
    Ended { exec: Box<Exec> },
    /// Nothing happened for a while; the connection lives.
    Alive,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SignalExec {
    /// A name (`TERM`, `SIGINT`) or a number as text.
    pub signal: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct StdinReceived {
    /// All bytes of standard input so far; hand it back as `offset` with the next ones.
    pub offset: u64,
}
