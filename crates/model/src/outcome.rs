//! How a run ended, why, and its resource use.

use crate::api::NetworkDecision;
use crate::guarantees::Guarantees;
use crate::scan::Finding;
use serde::{Deserialize, Serialize};

/// How the command itself came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitStatus {
    Exited(i32),
    Signaled(i32),
}

impl ExitStatus {
    /// The shell's convention: the code itself, or 128 and the signal's number.
    pub fn code(self) -> i32 {
        match self {
            ExitStatus::Exited(code) => code,
            ExitStatus::Signaled(signal) => 128 + signal,
        }
    }
}

/// Why the sandbox ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Cause {
    /// The command came to its own end, by exit or by a signal that was not ours.
    Finished,
    /// The caller ended it.
    Killed,
    TimeLimit {
        limit_ms: u64,
    },
    OutOfMemory {
        limit: u64,
    },
    /// More processes than its limit, where passing it ends the sandbox.
    ProcessLimit {
        limit: u32,
    },
    /// The guest agent went away without being asked to.
    GuestLost {
        detail: String,
    },
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use crate::quantity::{format_bytes, format_duration};
        match self {
            Cause::Finished => write!(f, "finished"),
            Cause::Killed => write!(f, "killed by the caller"),
            Cause::TimeLimit { limit_ms } => {
                write!(
                    f,
                    "time limit of {} reached",
                    format_duration(std::time::Duration::from_millis(*limit_ms))
                )
            }
            Cause::OutOfMemory { limit } => write!(f, "out of memory: limit {}", format_bytes(*limit)),
            Cause::ProcessLimit { limit } => write!(f, "limit of {limit} processes passed"),
            Cause::GuestLost { detail } => write!(f, "guest agent lost: {detail}"),
        }
    }
}

/// The resource use of a sandbox, over its whole life.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    pub wall_ms: f64,
    /// User and system time of everything that ran inside; `None` if nothing on the host counts it.
    pub cpu_ms: Option<f64>,
    /// `None` if nothing on the host counts it.
    pub peak_memory: Option<u64>,
    /// Bytes held by the private disk at the end, and bytes written to host directories.
    pub bytes_written: Option<u64>,
}

/// One output stream as it was kept: the whole, or its head and tail.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Captured {
    pub head: Vec<u8>,
    pub tail: Vec<u8>,
    /// Bytes between head and tail that were not kept.
    pub missing: u64,
}

impl Captured {
    /// Text for people and JSON: invalid UTF-8 is replaced, and a gap says how much is missing.
    pub fn to_text(&self) -> String {
        if self.missing == 0 {
            let mut whole = self.head.clone();
            whole.extend_from_slice(&self.tail);
            return String::from_utf8_lossy(&whole).into_owned();
        }
        format!(
            "{}\n[... {} bytes not kept ...]\n{}",
            String::from_utf8_lossy(&self.head),
            self.missing,
            String::from_utf8_lossy(&self.tail)
        )
    }
}

/// The output of `paddock run --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunReport {
    pub sandbox: String,
    pub stdout: String,
    pub stderr: String,
    pub stdout_missing_bytes: u64,
    pub stderr_missing_bytes: u64,
    pub exit_code: i32,
    pub timed_out: bool,
    pub cause: Cause,
    pub usage: Usage,
    pub guarantees: Guarantees,
    /// The findings in code that was scanned before it ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// Findings beyond the first hundred.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub findings_missing: u64,
    /// The first hundred decisions of its gate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<NetworkDecision>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}
