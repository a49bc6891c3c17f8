//! The report to the caller when a run is over.

use super::SessionError;
use super::network::{self, Decisions};
use crate::args::EXIT_SIGNALED;
use crate::render;
use paddock_engine::{ExitKind, Shortage};
use paddock_model::api::NetworkDecision;
use paddock_model::{Cause, ExitStatus, Guarantees, RunReport, ScanReport, Usage};
use paddock_records::capture::Capture;
use std::io::Write;
use std::sync::{Arc, Mutex};

/// As `timeout(1)` and Docker have it.
pub const TIME_LIMIT: i32 = 124;
pub const NOT_EXECUTABLE: i32 = 126;
pub const NOT_FOUND: i32 = 127;
const KILLED: i32 = 137;
/// The guest's word for the last step of a start; all before it are ours, not the command's.
const EXECUTE: &str = "execute";

/// Why the conversation ended.
#[derive(Debug, Clone)]
pub enum Ending {
    Exited(ExitKind),
    StartFailed { step: String, errno: i32 },
    TimeLimit,
    MemoryLimit,
    Killed { signal: i32 },
    Lost { detail: String },
}

pub struct Finished {
    pub sandbox: String,
    pub ending: Ending,
    pub out_of_memory: bool,
    pub lost_to: Option<Shortage>,
    pub usage: Usage,
    pub guarantees: Guarantees,
    pub limits: paddock_model::Limits,
    pub command: String,
    pub scanned: ScanReport,
    pub network: Vec<NetworkDecision>,
}

/// All that is left of a run.
pub struct Over {
    pub finished: Finished,
    pub stdout: Capture,
    pub stderr: Capture,
    pub decisions: Arc<Mutex<Decisions>>,
}

impl Over {
    /// Tells the caller, and returns the exit code.
    pub fn tell(self, json: bool) -> Result<i32, SessionError> {
        let code = self.finished.exit_code();
        if json {
            let text = render::json::text(&self.finished.report(self.stdout, self.stderr))?;
            let _ = std::io::stdout().write_all(text.as_bytes());
            return Ok(code);
        }
        let refusals = network::lock(&self.decisions).lines();
        for line in refusals.into_iter().chain(self.finished.message()) {
            let _ = writeln!(std::io::stderr(), "paddock: {line}");
        }
        Ok(code)
    }
}

impl Finished {
    pub fn cause(&self) -> Cause {
        let memory = Cause::OutOfMemory { limit: self.limits.memory };
        match &self.ending {
            // The kernel kills with SIGKILL; a shell around the victim passes 137 on.
            Ending::Exited(status) if self.out_of_memory && code(*status) == KILLED => memory,
            Ending::Exited(_) | Ending::StartFailed { .. } => Cause::Finished,
            Ending::TimeLimit => {
                Cause::TimeLimit { limit_ms: self.limits.timeout.map_or(0, |d| d.as_millis() as u64) }
            }
            Ending::MemoryLimit => memory,
            Ending::Lost { .. } if self.lost_to == Some(Shortage::Memory) => memory,
            Ending::Lost { .. } if self.lost_to == Some(Shortage::Processes) => {
                Cause::ProcessLimit { limit: self.limits.pids }
            }
            Ending::Killed { .. } => Cause::Killed,
            Ending::Lost { detail } => Cause::GuestLost { detail: render::escape::line(detail) },
        }
    }

    pub fn exit_code(&self) -> i32 {
        match (&self.ending, self.cause()) {
            (_, Cause::OutOfMemory { .. } | Cause::ProcessLimit { .. }) => KILLED,
            (Ending::Exited(status), _) => code(*status),
            (Ending::StartFailed { step, .. }, _) if step != EXECUTE => crate::args::EXIT_PADDOCK_FAILED,
            (Ending::StartFailed { errno, .. }, _) if *errno == libc::ENOENT => NOT_FOUND,
            (Ending::StartFailed { .. }, _) => NOT_EXECUTABLE,
            (Ending::TimeLimit, _) => TIME_LIMIT,
            (Ending::Killed { signal }, _) => EXIT_SIGNALED + signal,
            (Ending::Lost { .. } | Ending::MemoryLimit, _) => crate::args::EXIT_PADDOCK_FAILED,
        }
    }

    /// A message for a person at the terminal, beyond the command's own output.
    pub fn message(&self) -> Option<String> {
        match (&self.ending, self.cause()) {
            (Ending::StartFailed { step, errno }, _) => {
                let reason = std::io::Error::from_raw_os_error(*errno);
                let command = render::escape::line(&self.command);
                let step = if step == EXECUTE {
                    String::new()
                } else {
                    format!(" ({})", render::escape::line(step))
                };
                Some(format!("`{command}` could not be run inside the sandbox{step}: {reason}"))
            }
            (_, Cause::Finished | Cause::Killed) => None,
            (_, cause) => Some(cause.to_string()),
        }
    }

    /// As one object.
    pub fn report(&self, stdout: Capture, stderr: Capture) -> RunReport {
        let (stdout, mut stderr) = (stdout.finish(), stderr.finish());
        if let Ending::StartFailed { .. } = self.ending {
            // The caller of --json reads one object: the reason has to be in it.
            stderr.tail.extend(self.message().unwrap_or_default().into_bytes());
        }
        RunReport {
            sandbox: self.sandbox.clone(),
            stdout_missing_bytes: stdout.missing,
            stderr_missing_bytes: stderr.missing,
            stdout: stdout.to_text(),
            stderr: stderr.to_text(),
            exit_code: self.exit_code(),
            timed_out: matches!(self.ending, Ending::TimeLimit),
            cause: self.cause(),
            usage: self.usage.clone(),
            guarantees: self.guarantees.clone(),
            findings: self.scanned.findings.clone(),
            findings_missing: self.scanned.findings_missing,
            network: self.network.clone(),
        }
    }
}

fn code(status: ExitKind) -> i32 {
    match status {
        ExitKind::Exited(code) => ExitStatus::Exited(code).code(),
        ExitKind::Signaled(signal) => ExitStatus::Signaled(signal).code(),
    }
}
