//! How a process ended, as E2B tells it: in the words of Go's library.

use paddock_model::api::{Exec, ExecCause};
use serde_json::{Value, json};

/// The last thing that is said of a process.
#[derive(Debug, PartialEq)]
pub enum End {
    /// An event.
    Event(Value),
    /// Its time was over: no event, but an error of the protocol.
    TimedOut,
    /// It never ran.
    NotStarted(String),
    /// Its sandbox has gone: nothing is said, the connection breaks.
    SandboxGone,
}

const KILLED: i32 = 9;

pub fn of(exec: &Exec) -> End {
    match &exec.cause {
        Some(ExecCause::TimeLimit { .. }) => End::TimedOut,
        Some(ExecCause::NotStarted { detail }) => End::NotStarted(detail.clone()),
        Some(ExecCause::SandboxEnded) => End::SandboxGone,
        Some(ExecCause::Signaled { signal }) => signaled(*signal),
        Some(ExecCause::OutOfMemory | ExecCause::Killed) => signaled(KILLED),
        Some(ExecCause::Exited) | None => exited(exec.exit_code.unwrap_or_default()),
    }
}

fn exited(code: i32) -> End {
    let status = format!("exit status {code}");
    let mut end = json!({ "exitCode": code, "exited": true, "status": status });
    if code != 0 {
        end["error"] = json!(status);
    }
    End::Event(end)
}

fn signaled(signal: i32) -> End {
    let status = format!("signal: {}", name(signal));
    End::Event(json!({ "exitCode": -1, "exited": false, "status": status, "error": status }))
}

/// As Go names them.
fn name(signal: i32) -> String {
    const NAMES: [(i32, &str); 12] = [
        (1, "hangup"),
        (2, "interrupt"),
        (3, "quit"),
        (4, "illegal instruction"),
        (6, "aborted"),
        (7, "bus error"),
        (8, "floating point exception"),
        (9, "killed"),
        (11, "segmentation fault"),
        (13, "broken pipe"),
        (14, "alarm clock"),
        (15, "terminated"),
    ];
    let known = NAMES.iter().find(|(number, _)| *number == signal);
    known.map_or_else(|| format!("signal {signal}"), |(_, name)| (*name).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_told_as_go_tells_them() {
        assert_eq!(
            exited(0),
            End::Event(json!({ "exitCode": 0, "exited": true, "status": "exit status 0" }))
        );
        let End::Event(failed) = exited(3) else { panic!("an event") };
        assert_eq!(failed["error"], "exit status 3");
        let End::Event(killed) = signaled(9) else { panic!("an event") };
        assert_eq!((&killed["exitCode"], &killed["status"]), (&json!(-1), &json!("signal: killed")));
        assert_eq!(name(31), "signal 31");
    }
}
