//! Signals by the names that people write.

use crate::FleetError;
use crate::request::invalid;

const NAMES: [(&str, i32); 20] = [
    ("HUP", libc::SIGHUP),
    ("INT", libc::SIGINT),
    ("QUIT", libc::SIGQUIT),
    ("ILL", libc::SIGILL),
    ("TRAP", libc::SIGTRAP),
    ("ABRT", libc::SIGABRT),
    ("BUS", libc::SIGBUS),
    ("FPE", libc::SIGFPE),
    ("KILL", libc::SIGKILL),
    ("USR1", libc::SIGUSR1),
    ("SEGV", libc::SIGSEGV),
    ("USR2", libc::SIGUSR2),
    ("PIPE", libc::SIGPIPE),
    ("ALRM", libc::SIGALRM),
    ("TERM", libc::SIGTERM),
    ("CONT", libc::SIGCONT),
    ("STOP", libc::SIGSTOP),
    ("TSTP", libc::SIGTSTP),
    ("WINCH", libc::SIGWINCH),
    ("CHLD", libc::SIGCHLD),
];

/// `TERM`, `SIGTERM` or `15`.
pub fn parse(text: &str) -> Result<i32, FleetError> {
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let named = NAMES.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
    let numbered = || text.parse().ok().filter(|number| (1..=31).contains(number));
    named.or_else(numbered).ok_or_else(|| {
        let shown: String = text.chars().take(40).collect();
        invalid(format!("signal `{}` is not known", shown.escape_debug()))
            .hint("write a name such as TERM, INT or KILL, or a number from 1 to 31")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        for text in ["TERM", "sigterm", "15"] {
            assert_eq!(parse(text).unwrap(), libc::SIGTERM);
        }
        for bad in ["", "SIG", "0", "32", "-9", "TERM\n", "x"] {
            parse(bad).expect_err(bad);
        }
    }
}
