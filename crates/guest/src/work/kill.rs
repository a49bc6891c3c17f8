//! Ends everything that one exec started: its process group, and the rest of its session. Or all work there is.
//!
//! A look at all processes costs some ten microseconds for each. Code inside says how many there are, so that nothing that it can
//! bring about as often as it likes may take a look of its own.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// A program that forks faster than these rounds is stopped by the limit on processes.
const ROUNDS: usize = 16;

/// `leads`: the process that began the session has not been collected, so that its number is surely its own.
pub fn kill_session(leader: Pid, leads: bool) {
    kill_sessions(&[(leader, leads)]);
}

/// The same for several sessions, with one look at all processes in each round.
pub fn kill_sessions(sessions: &[(Pid, bool)]) {
    for (leader, _) in sessions.iter().filter(|(_, leads)| *leads) {
        let _ = kill_process_group(*leader, Signal::KILL);
    }
    for _ in 0..ROUNDS {
        let members = members(sessions);
        if members.is_empty() {
            return;
        }
        for (member, _) in members {
            let _ = kill_process(member, Signal::KILL);
        }
    }
}

/// Those of these sessions of which processes are left, although their leaders have gone.
pub fn sessions_left(mut leaders: Vec<Pid>) -> Vec<Pid> {
    let sessions: Vec<(Pid, bool)> = leaders.iter().map(|leader| (*leader, false)).collect();
    let members = members(&sessions);
    leaders.retain(|leader| members.iter().any(|(_, of)| of == leader));
    leaders
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

/// Living processes of these sessions, each with the leader of its own. None of a session whose number belongs to another process by now.
fn members(sessions: &[(Pid, bool)]) -> Vec<(Pid, Pid)> {
    if sessions.is_empty() {
        return Vec::new();
    }
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let (mut found, mut others) = (Vec::new(), Vec::new());
    for process in processes.flatten() {
        let name = process.file_name();
        let Some(pid) = name.to_str().and_then(|n| n.parse().ok()).and_then(Pid::from_raw) else { continue };
        let Ok(text) = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())) else {
            continue;
        };
        let Some((state, session)) = state_and_session(&text) else { continue };
        let wanted = sessions.iter().find(|(leader, _)| leader.as_raw_nonzero().get() == session);
        let Some((leader, leads)) = wanted.filter(|_| state != 'Z') else { continue };
        if pid == *leader && !leads {
            others.push(pid);
        }
        found.push((pid, *leader));
    }
    found.retain(|(_, leader)| !others.contains(leader));
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
