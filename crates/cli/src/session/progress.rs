//! The progress of fetching and unpacking an image, for a person: one line on stderr, redrawn in place. Without a
//! terminal, one line for each step that takes long.

use paddock_images::Progress;
use paddock_model::format_bytes;
use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const WIDTH: u64 = 24;
const REDRAW: Duration = Duration::from_millis(100);
const QUIET_BEFORE_A_LINE: Duration = Duration::from_secs(1);

pub struct Bar {
    terminal: bool,
    step: Mutex<Option<Step>>,
}

struct Step {
    what: String,
    total: Option<u64>,
    done: u64,
    drawn: Instant,
    said: bool,
}

impl Bar {
    pub fn new() -> Bar {
        Bar { terminal: std::io::stderr().is_terminal(), step: Mutex::new(None) }
    }
}

impl Progress for Bar {
    fn start(&self, what: &str, total: Option<u64>) {
        let what = crate::render::escape::line(what);
        let step = Step { what, total, done: 0, drawn: Instant::now(), said: false };
        *self.step.lock().unwrap_or_else(PoisonError::into_inner) = Some(step);
    }

    fn advance(&self, bytes: u64) {
        let mut step = self.step.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(step) = step.as_mut() else { return };
        step.done += bytes;
        if self.terminal && step.drawn.elapsed() >= REDRAW {
            step.drawn = Instant::now();
            let _ = write!(std::io::stderr(), "\r\x1b[K{}", line(step));
        } else if !self.terminal && !step.said && step.drawn.elapsed() >= QUIET_BEFORE_A_LINE {
            step.said = true;
            let _ = writeln!(std::io::stderr(), "paddock: {}", line(step));
        }
    }

    fn done(&self) {
        *self.step.lock().unwrap_or_else(PoisonError::into_inner) = None;
        if self.terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

fn line(step: &Step) -> String {
    match step.total {
        Some(total) if total > 0 => {
            let filled = (WIDTH * step.done.min(total) / total) as usize;
            let bar = format!("{}{}", "#".repeat(filled), "-".repeat(WIDTH as usize - filled));
            format!("{} [{bar}] {} of {}", step.what, format_bytes(step.done), format_bytes(total))
        }
        _ => format!("{} {}", step.what, format_bytes(step.done)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_never_overflows_its_bar() {
        let step =
            |total, done| Step { what: "unpacking".into(), total, done, drawn: Instant::now(), said: false };
        assert_eq!(line(&step(Some(1024), 512)), "unpacking [############------------] 512 B of 1 KiB");
        assert!(line(&step(Some(10), 99)).contains(&"#".repeat(WIDTH as usize)));
        assert_eq!(line(&step(None, 3)), "unpacking 3 B");
        assert_eq!(line(&step(Some(0), 3)), "unpacking 3 B");
    }
}
