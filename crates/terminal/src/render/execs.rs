//! The commands of one sandbox.

use super::style::Style;
use super::table::{Cell, Table};
use super::time;
use paddock_model::api::{Exec, ExecCause, ExecState, Sandbox, SandboxState};
use paddock_model::format_duration;
use std::time::Duration;

/// The guest's word for the last step of a start.
const EXECUTE: &str = "execute: ";

pub fn text(execs: &[Exec], now_ms: u64, colour: bool) -> String {
    let mut table = Table::with_header(&["EXEC", "STATE", "STARTED", "COMMAND"]);
    for exec in execs {
        let (state, style) = match (exec.state, exec.exit_code) {
            (ExecState::Running, _) => ("running".to_string(), Style::Good),
            (ExecState::Ended, Some(0)) => ("exit code 0".to_string(), Style::Plain),
            (ExecState::Ended, Some(code)) => (format!("exit code {code}"), Style::Warning),
            (ExecState::Ended, None) => ("ended".to_string(), Style::Warning),
        };
        table.row([
            exec.exec.to_string().as_str().into(),
            Cell::new(&state, style),
            time::relative(exec.started_at_ms, now_ms).as_str().into(),
            exec.command.as_str().into(),
        ]);
    }
    table.render(colour)
}

/// A remark for a person beyond the command's own output and exit code. The sandbox is given if it may know more.
pub fn remark(exec: &Exec, sandbox: Option<&Sandbox>) -> Option<String> {
    match exec.cause.as_ref()? {
        ExecCause::Exited | ExecCause::Signaled { .. } | ExecCause::Killed => None,
        ExecCause::TimeLimit { limit_ms } => Some(format!(
            "the time limit of {} was reached",
            format_duration(Duration::from_millis(*limit_ms))
        )),
        ExecCause::OutOfMemory => Some("the sandbox ran out of memory".to_string()),
        ExecCause::NotStarted { detail } => {
            // The guest's step is told unless it was the execution itself.
            let detail = detail.strip_prefix(EXECUTE).unwrap_or(detail);
            Some(format!("`{}` could not be run inside the sandbox: {detail}", exec.command))
        }
        ExecCause::SandboxEnded => Some(match sandbox.map(|sandbox| (sandbox.state, &sandbox.end)) {
            Some((_, Some(end))) => format!("its sandbox ended: {}", end.reason),
            Some((SandboxState::Hibernated, _)) => "its sandbox hibernates".to_string(),
            _ => "its sandbox ended, hibernated or was lost".to_string(),
        }),
    }
}
