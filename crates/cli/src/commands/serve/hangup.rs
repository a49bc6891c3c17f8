//! Two meanings of SIGHUP: a user wants files to be read again, or the terminal that the server runs in has gone.

use std::fs::File;

/// The server's controlling terminal, if it had one when it started.
pub struct Terminal {
    had_one: bool,
}

impl Terminal {
    /// Precondition: no handler for SIGHUP is installed yet.
    pub fn look() -> Terminal {
        // A user that starts it with `nohup` wants it to outlive the terminal.
        Terminal { had_one: opens() && !hangups_are_ignored() }
    }

    /// A server that a user started by hand ends with its terminal.
    pub fn has_gone(&self) -> bool {
        self.had_one && !opens()
    }
}

fn hangups_are_ignored() -> bool {
    // SAFETY: a sigaction of zeroes is a valid one.
    let mut found: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: with no new action the call only writes the present one to `found`, which outlives it.
    let asked = unsafe { libc::sigaction(libc::SIGHUP, std::ptr::null(), &mut found) };
    asked == 0 && found.sa_sigaction == libc::SIG_IGN
}

/// The kernel opens this file only for a process with a controlling terminal.
fn opens() -> bool {
    File::open("/dev/tty").is_ok()
}
