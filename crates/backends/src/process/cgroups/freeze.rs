//! Stops all work of a sandbox where it stands. The guest is not in these cgroups, and goes on.

use super::{WorkGroup, with_path};
use std::io::{Error, ErrorKind, Result};
use std::path::Path;
use std::time::{Duration, Instant};

/// A process in the middle of a system call that cannot be interrupted takes so long to stop, at most.
const PATIENCE: Duration = Duration::from_secs(5);

impl WorkGroup {
    /// Returns when everything stands still; what could not be stopped in time goes on as before.
    pub fn freeze(&self, name: &str) -> Result<()> {
        let Some(freezer) = self.hierarchies.freezer(name) else { return Err(unsupported()) };
        write(&freezer.file, freezer.freeze)?;
        let deadline = Instant::now() + PATIENCE;
        let mut pause = Duration::from_micros(50);
        loop {
            let report = std::fs::read_to_string(&freezer.report)
                .map_err(|error| with_path(&freezer.report, error))?;
            if report.lines().any(|line| line == freezer.frozen) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                write(&freezer.file, freezer.thaw)?;
                return Err(Error::new(ErrorKind::TimedOut, "the work did not stop in time and goes on"));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(10));
        }
    }

    pub fn thaw(&self, name: &str) -> Result<()> {
        let Some(freezer) = self.hierarchies.freezer(name) else { return Err(unsupported()) };
        write(&freezer.file, freezer.thaw)
    }

    /// What v1 has frozen does not even die before it is let go.
    ///
    /// Precondition: the guest was killed, and everything inside with it; it has a moment to hear of it first.
    pub fn let_die(&self, name: &str) {
        let Some(freezer) = self.hierarchies.freezer(name) else { return };
        let report = std::fs::read_to_string(&freezer.report).unwrap_or_default();
        if report.lines().any(|line| line == freezer.frozen || line == "FREEZING") {
            std::thread::sleep(Duration::from_millis(1));
            let _ = write(&freezer.file, freezer.thaw);
        }
    }
}

fn write(file: &Path, value: &str) -> Result<()> {
    std::fs::write(file, value).map_err(|error| with_path(file, error))
}

fn unsupported() -> Error {
    Error::new(ErrorKind::Unsupported, "this machine lends no freezer to this user")
}
