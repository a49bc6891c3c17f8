//! The log of a client's build: bounded, in memory while the build runs, and in a file afterwards.

use super::run::{Event, Watcher};
use paddock_model::api::{BuildLogEntry, LogLevel};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

const MOST_ENTRIES: usize = 10_000;
const MOST_BYTES: usize = 2 << 20;
const LONGEST_LINE: usize = 4096;

#[derive(Debug, Default)]
pub struct Log(Mutex<Lines>);

#[derive(Debug, Default)]
struct Lines {
    entries: Vec<BuildLogEntry>,
    bytes: usize,
    /// The step that runs, from 1 on; the base is the first. 0: none does.
    number: usize,
    total: usize,
    /// The output of the running step since its last line break.
    rest: Vec<u8>,
    full: bool,
    /// True if the last step tries the start and the ready command.
    has_check: bool,
    /// The steps of the builder before the first that the client or the build file names.
    before: usize,
}

/// The base, and the user that it gets.
const BEFORE_STEPS_OF_CLIENTS: usize = 2;
/// The base.
const BEFORE_STEPS_OF_FILES: usize = 1;

impl Log {
    /// `has_check`: the last step tries the start and the ready command.
    pub fn new(has_check: bool) -> Log {
        Log(Mutex::new(Lines { has_check, before: BEFORE_STEPS_OF_CLIENTS, ..Lines::default() }))
    }

    /// Of a build file.
    pub(super) fn of_command() -> Log {
        Log(Mutex::new(Lines { before: BEFORE_STEPS_OF_FILES, ..Lines::default() }))
    }

    pub fn say(&self, level: LogLevel, message: impl Into<String>) {
        let mut lines = self.lines();
        lines.break_line();
        lines.add(level, message.into());
    }

    /// The entries of this level and above, from the offset on.
    pub fn entries(&self, offset: usize, limit: usize, level: LogLevel) -> Vec<BuildLogEntry> {
        chosen(&self.lines().entries, offset, limit, level)
    }

    /// The running step, as clients count: `base`, the number from 1 on, or `finalize`.
    pub fn step(&self) -> Option<String> {
        self.lines().step()
    }

    pub fn save(&self, path: &Path) -> io::Result<()> {
        let bytes = serde_json::to_vec(&self.lines().entries)?;
        let directory = path.parent().unwrap_or(Path::new("/"));
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        io::Write::write_all(&mut file, &bytes)?;
        file.persist(path).map(drop).map_err(|error| error.error)
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The entries of a build that is over. A log that is gone or damaged is empty.
pub fn saved_entries(path: &PathBuf, offset: usize, limit: usize, level: LogLevel) -> Vec<BuildLogEntry> {
    let entries: Vec<BuildLogEntry> =
        std::fs::read(path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    chosen(&entries, offset, limit, level)
}

fn chosen(entries: &[BuildLogEntry], offset: usize, limit: usize, level: LogLevel) -> Vec<BuildLogEntry> {
    entries.iter().filter(|entry| entry.level >= level).skip(offset).take(limit).cloned().collect()
}

impl Watcher for Log {
    fn event(&self, event: Event<'_>) {
        let mut lines = self.lines();
        match event {
            Event::Step { number, total, what } => {
                lines.break_line();
                (lines.number, lines.total) = (number, total);
                lines.add(LogLevel::Info, format!("[{number}/{total}] {what}"));
            }
            Event::Note { text } => lines.add(LogLevel::Debug, text.into()),
            Event::Output { bytes } => lines.output(bytes),
            Event::Done { cached, milliseconds, .. } => {
                lines.break_line();
                let message = match cached {
                    true => "cached".to_string(),
                    false => format!("done in {:.1} s", milliseconds as f64 / 1000.0),
                };
                lines.add(LogLevel::Debug, message);
            }
        }
    }
}

impl Lines {
    fn step(&self) -> Option<String> {
        match self.number {
            0 => None,
            number if number <= self.before => Some("base".into()),
            number if self.has_check && number == self.total => Some("finalize".into()),
            number => Some((number - self.before).to_string()),
        }
    }

    fn output(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match byte {
                b'\n' => self.break_line(),
                _ if self.rest.len() >= LONGEST_LINE => {
                    self.break_line();
                    self.rest.push(byte);
                }
                byte => self.rest.push(byte),
            }
        }
    }

    fn break_line(&mut self) {
        let rest = std::mem::take(&mut self.rest);
        if !rest.is_empty() {
            self.add(LogLevel::Info, String::from_utf8_lossy(&rest).trim_end_matches('\r').to_string());
        }
    }

    fn add(&mut self, level: LogLevel, mut message: String) {
        // Warnings and errors are few, and the reason of a failure comes last.
        let room = self.entries.len() < MOST_ENTRIES && self.bytes < MOST_BYTES;
        if !room && level < LogLevel::Warn {
            if self.full {
                return;
            }
            self.full = true;
            let (level, message) =
                (LogLevel::Warn, "the log is full: the lines after this one are not kept".into());
            return self.push(level, message);
        }
        if message.len() > 2 * LONGEST_LINE {
            message = message.chars().take(LONGEST_LINE).collect();
        }
        self.push(level, message);
    }

    fn push(&mut self, level: LogLevel, message: String) {
        self.bytes += message.len() + 64;
        let at_ms = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |elapsed| elapsed.as_millis() as u64);
        let step = self.step();
        self.entries.push(BuildLogEntry { at_ms, level, message, step });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_becomes_lines_of_its_step() {
        let log = Log::new(true);
        log.event(Event::Step { number: 1, total: 4, what: "base x" });
        log.event(Event::Step { number: 3, total: 4, what: "RUN y" });
        log.event(Event::Output { bytes: b"one\r\ntw" });
        log.event(Event::Output { bytes: b"o\nrest" });
        log.event(Event::Step { number: 4, total: 4, what: "start and ready command" });
        log.say(LogLevel::Error, "failed");
        let all = log.entries(0, 100, LogLevel::Debug);
        let shown: Vec<_> = all.iter().map(|entry| (entry.message.as_str(), entry.step.as_deref())).collect();
        assert_eq!(
            shown,
            [
                ("[1/4] base x", Some("base")),
                ("[3/4] RUN y", Some("1")),
                ("one", Some("1")),
                ("two", Some("1")),
                ("rest", Some("1")),
                ("[4/4] start and ready command", Some("finalize")),
                ("failed", Some("finalize")),
            ]
        );
        assert_eq!(log.entries(0, 100, LogLevel::Warn).len(), 1);
        assert_eq!(log.entries(2, 2, LogLevel::Info)[0].message, "one");
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("log");
        log.save(&path).unwrap();
        assert_eq!(saved_entries(&path, 0, 100, LogLevel::Debug), all);
        assert!(saved_entries(&place.path().join("none"), 0, 1, LogLevel::Debug).is_empty());
    }

    #[test]
    fn endless_output_has_an_end_in_the_log_and_the_reason_still_fits() {
        let log = Log::new(false);
        for _ in 0..20_000 {
            log.event(Event::Output { bytes: b"line\n" });
        }
        log.event(Event::Output { bytes: &vec![b'x'; 1 << 20] });
        log.say(LogLevel::Error, "why");
        let all = log.entries(0, usize::MAX, LogLevel::Debug);
        assert_eq!(all.len(), MOST_ENTRIES + 2);
        assert_eq!(all.last().unwrap().message, "why");
    }
}
