//! Ends everything that one exec started: its process group, and the rest of its session. Or all work there is.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// A program that forks faster than these rounds is stopped by the limit on processes.
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

/// True if a process of the session is left, although its leader has gone.
pub fn has_left_processes(leader: Pid) -> bool {
    !members(leader, false).is_empty()
}

/// Everything in this namespace but this process, and nothing in the namespaces below it: sandboxes that nest here go on.
pub fn kill_all_but_nested() {
    // The engine ends processes that /proc does not show here, with the cgroup.
    for _ in 0..ROUNDS {
        let own = own_processes();
        if own.is_empty() {
            return;
        }
        for process in own {
            let _ = kill_process(process, Signal::KILL);
        }
    }
}

/// Living processes whose innermost namespace is this one.
fn own_processes() -> Vec<Pid> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let numbers = processes.flatten().filter_map(|process| process.file_name().to_str()?.parse().ok());
    let living = |pid: &Pid| {
        let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero()));
        !pid.is_init() && status.is_ok_and(|status| is_own_and_lives(&status))
    };
    numbers.filter_map(Pid::from_raw).filter(living).collect()
}

fn is_own_and_lives(status: &str) -> bool {
    let field = |name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().split_whitespace()
    };
    // A process in a namespace below has a number there, too.
    let levels = field("NSpid:").count();
    let ended = field("State:").next().is_some_and(|state| ["Z", "X"].contains(&state));
    levels <= 1 && !ended
}

/// Living processes of the session. Empty if the number belongs to another process by now.
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
    fn who_nests_and_who_is_dead_is_not_killed() {
        assert!(is_own_and_lives("Name:\tsh\nState:\tS (sleeping)\nNSpid:\t7\n"));
        assert!(is_own_and_lives("Name:\tsh\nState:\tS (sleeping)\n"), "a kernel that does not say so");
        assert!(!is_own_and_lives("Name:\tsh\nState:\tS (sleeping)\nNSpid:\t7\t1\n"));
        assert!(!is_own_and_lives("Name:\tsh\nState:\tZ (zombie)\nNSpid:\t7\n"));
    }

    #[test]
    fn a_hostile_name_does_not_shift_the_fields() {
        let stat = "7 (a) R 1 2 3) S 1 7 42 0 -1 4194560";
        assert_eq!(state_and_session(stat), Some(('S', 42)));
        assert_eq!(state_and_session("7 (a"), None);
    }
}
