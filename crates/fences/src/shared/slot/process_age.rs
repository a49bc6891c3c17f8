//! Telling a process from a later one of the same number.

/// When a process started, in ticks since boot; `None` when there is none.
pub fn start_time(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything; a zombie has ended.
    let (_, after) = text.rsplit_once(')')?;
    let mut fields = after.split_whitespace();
    (fields.next()? != "Z").then_some(())?;
    fields.nth(18)?.parse().ok()
}

/// The kernel's mark of a process that has begun to end. PID 1 of a namespace has it before any other process in there ends.
const ENDING: u64 = 0x4;

/// True if this very process runs, and is not just being ended.
pub fn is_running(pid: u32, started: u64) -> bool {
    let marks = || -> Option<u64> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        text.rsplit_once(')')?.1.split_whitespace().nth(6)?.parse().ok()
    };
    start_time(pid) == Some(started) && marks().is_some_and(|marks| marks & ENDING == 0)
}
