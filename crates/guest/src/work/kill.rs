//! Ends everything that one exec started: its process group, and what stayed in its session.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// Whoever forks faster than that is caught by the limit on processes.
const ROUNDS: usize = 16;

/// `leads`: the process that began the session has not been collected, so that its number is surely its own.
pub fn kill_session(leader: Pid, leads: bool) {
    if leads {
        let _ = kill_process_group(leader, Signal::KILL);
    }
    for _ in 0..ROUNDS {
        let members = members(leader, leads);
        if members.is_empty() {
            return;
        }
        for member in members {
            let _ = kill_process(member, Signal::KILL);
        }
    }
}

/// Living processes of the session. Empty where the number belongs to somebody else by now.
fn members(leader: Pid, leads: bool) -> Vec<Pid> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let mut found = Vec::new();
    for process in processes.flatten() {
        let name = process.file_name();
        let Some(pid) = name.to_str().and_then(|n| n.parse().ok()).and_then(Pid::from_raw) else { continue };
        let Ok(text) = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())) else {
            continue;
        };
        let Some((state, session)) = state_and_session(&text) else { continue };
        if session != leader.as_raw_nonzero().get() || state == 'Z' {
            continue;
        }
        if pid == leader && !leads {
            return Vec::new();
        }
        found.push(pid);
    }
    found
}

/// The name before them may contain anything, also brackets.
fn state_and_session(stat: &str) -> Option<(char, i32)> {
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(2)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_name_does_not_shift_the_fields() {
        let stat = "7 (a) R 1 2 3) S 1 7 42 0 -1 4194560";
        assert_eq!(state_and_session(stat), Some(('S', 42)));
        assert_eq!(state_and_session("7 (a"), None);
    }
}
