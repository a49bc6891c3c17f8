//! The caller's terminal while a command has it.

use paddock_engine::WindowSize;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::io::Result;
use std::time::{Duration, Instant};

/// Raw until dropped: every key is the command's, Ctrl-C included.
pub struct Raw {
    before: Termios,
}

impl Raw {
    pub fn enter() -> Result<Raw> {
        let stdin = rustix::stdio::stdin();
        let before = tcgetattr(stdin)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin, OptionalActions::Drain, &raw)?;
        Ok(Raw { before })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Drain, &self.before);
    }
}

pub fn size() -> WindowSize {
    match tcgetwinsize(rustix::stdio::stdout()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => {
            WindowSize { rows: size.ws_row, columns: size.ws_col }
        }
        _ => WindowSize { rows: 24, columns: 80 },
    }
}

/// Tells a command that does not react to Ctrl-C from one that does. In a terminal the key is the command's
/// own; only when a second one follows soon, and the first had no answer but its echo, is it meant for us.
#[derive(Default)]
pub struct Interrupts {
    pressed: Option<Instant>,
}

const CTRL_C: u8 = 3;
const SECOND_CTRL_C_WITHIN: Duration = Duration::from_secs(2);
const ECHO: &[u8] = b"^C";

impl Interrupts {
    /// True if these keys mean: end the sandbox.
    pub fn typed(&mut self, keys: &[u8], now: Instant) -> bool {
        if !keys.contains(&CTRL_C) {
            self.pressed = None;
            return false;
        }
        let again = self.pressed.is_some_and(|before| now.duration_since(before) < SECOND_CTRL_C_WITHIN);
        self.pressed = Some(now);
        again || keys.iter().filter(|key| **key == CTRL_C).count() > 2
    }

    pub fn answered(&mut self, output: &[u8]) {
        if output != ECHO {
            self.pressed = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_second_unanswered_key_is_ours() {
        let now = Instant::now();
        let mut interrupts = Interrupts::default();
        assert!(!interrupts.typed(&[CTRL_C], now));
        interrupts.answered(ECHO);
        assert!(interrupts.typed(&[CTRL_C], now));

        let mut interrupts = Interrupts::default();
        assert!(!interrupts.typed(&[CTRL_C], now));
        interrupts.answered(b"\r\n$ ");
        assert!(!interrupts.typed(&[CTRL_C], now), "a shell that answers keeps its key");

        let mut interrupts = Interrupts::default();
        assert!(!interrupts.typed(&[CTRL_C], now));
        assert!(!interrupts.typed(&[CTRL_C], now + SECOND_CTRL_C_WITHIN), "long after is a new first");
    }
}
