//! The progress of a build, for a person: one line for each step that is over, and on a terminal, below it, the last
//! line that the step under way has printed, redrawn in place.

use crate::render::escape;
use paddock_builds::{Event, Watcher};
use paddock_model::format_bytes;
use std::io::Write;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const REDRAW: Duration = Duration::from_millis(100);
const WIDTH: usize = 76;

pub struct Steps {
    terminal: bool,
    state: Mutex<State>,
}

struct State {
    line: Vec<u8>,
    drawn: Instant,
}

impl Steps {
    pub fn new(terminal: bool) -> Steps {
        Steps { terminal, state: Mutex::new(State { line: Vec::new(), drawn: Instant::now() }) }
    }

    /// Takes the moving line away.
    pub fn clear(&self) {
        if self.terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }

    fn say(&self, line: &str) {
        self.clear();
        let _ = writeln!(std::io::stderr(), "{line}");
    }

    fn output(&self, bytes: &[u8]) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for byte in bytes {
            match byte {
                b'\n' | b'\r' if !state.line.is_empty() && state.drawn.elapsed() >= REDRAW => {
                    let _ = write!(std::io::stderr(), "\r\x1b[K      {}", shown(&state.line));
                    state.drawn = Instant::now();
                    state.line.clear();
                }
                b'\n' | b'\r' => state.line.clear(),
                _ if state.line.len() < 4 * WIDTH => state.line.push(*byte),
                _ => {}
            }
        }
    }
}

impl Watcher for Steps {
    fn event(&self, event: Event<'_>) {
        match event {
            Event::Step { number, total, what } if self.terminal => {
                let _ = write!(std::io::stderr(), "\r\x1b[K[{number}/{total}] {}", escape::line(what));
            }
            // Without a terminal a step is told when it begins too: it may take minutes.
            Event::Step { number, total, what } => {
                self.say(&format!("[{number}/{total}] {}", escape::line(what)))
            }
            Event::Note { text } => self.say(&format!("      {}", escape::line(text))),
            Event::Output { bytes } if self.terminal => self.output(bytes),
            Event::Output { .. } => {}
            Event::Done { number, total, what, cached, milliseconds, bytes } => {
                let result = if cached { "cached".to_string() } else { done(milliseconds, bytes) };
                let what = if self.terminal { format!(" {}:", escape::line(what)) } else { String::new() };
                self.say(&format!("[{number}/{total}]{what} {result}"));
            }
        }
    }
}

fn done(milliseconds: u64, bytes: u64) -> String {
    let seconds = milliseconds as f64 / 1e3;
    if bytes == 0 {
        format!("done in {seconds:.1} s")
    } else {
        format!("done in {seconds:.1} s, {}", format_bytes(bytes))
    }
}

fn shown(line: &[u8]) -> String {
    escape::line(&String::from_utf8_lossy(line)).chars().take(WIDTH).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_step_is_harmless_and_short() {
        assert_eq!(shown(b"ok \x1b[2J"), "ok \\u{1b}[2J");
        assert_eq!(shown(&[b'x'; 500]).len(), WIDTH);
        assert_eq!(done(1500, 0), "done in 1.5 s");
        assert_eq!(done(100, 2 << 20), "done in 0.1 s, 2 MiB");
    }
}
