//! Stops all work of a sandbox where it stands. The guest is not in these cgroups, and goes on.

use crate::shared::cgroups::{WorkGroup, with_path};
use std::io::{Error, ErrorKind, Result};
use std::path::Path;
use std::time::{Duration, Instant};

/// A process in the middle of a system call that cannot be interrupted takes so long to stop, at most.
const FREEZE_TIMEOUT: Duration = Duration::from_secs(5);
/// After so many looks v1 is let go for a moment and told anew: while processes begin in it, it may come to no end.
const LOOKS: u32 = 40;

impl WorkGroup {
    /// Returns when everything is frozen. If that takes too long, everything goes on as before.
    pub fn freeze(&self, name: &str) -> Result<()> {
        *self.unchanged() = None;
        let Some(freezer) = self.hierarchies.freezer(name) else { return Err(unsupported()) };
        let deadline = Instant::now() + FREEZE_TIMEOUT;
        let mut pause = Duration::from_micros(50);
        for look in 1.. {
            // Told each time: v1 passes over a process that is just beginning when it is told.
            write(&freezer.file, freezer.freeze)?;
            let report = std::fs::read_to_string(&freezer.report)
                .map_err(|error| with_path(&freezer.report, error))?;
            if report.lines().any(|line| line == freezer.frozen) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                break;
            }
            if look % LOOKS == 0 {
                write(&freezer.file, freezer.thaw)?;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(10));
        }
        write(&freezer.file, freezer.thaw)?;
        Err(Error::new(ErrorKind::TimedOut, "the work did not stop in time and goes on"))
    }

    pub fn thaw(&self, name: &str) -> Result<()> {
        let Some(freezer) = self.hierarchies.freezer(name) else { return Err(unsupported()) };
        // Most are not frozen when a new server thaws all, and a write takes a lock over all cgroups.
        match super::has(&freezer.file, freezer.thaw) {
            true => Ok(()),
            false => write(&freezer.file, freezer.thaw),
        }
    }

    /// Ends everything in it, and waits for that. Stopped first where it can be, so that nothing is begun meanwhile.
    pub fn end_all(&self, name: &str) -> Result<()> {
        let deadline = Instant::now() + FREEZE_TIMEOUT;
        loop {
            let stopped = self.freeze(name).is_ok();
            let members = self.members()?;
            for member in &members {
                let _ = rustix::process::kill_process(*member, rustix::process::Signal::KILL);
            }
            if stopped {
                self.thaw(name)?;
            }
            if members.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(Error::new(ErrorKind::TimedOut, "the work does not end"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The pids on the host. Ended processes that wait to be collected are not among them.
    fn members(&self) -> Result<Vec<rustix::process::Pid>> {
        let Some(directory) = self.directories.first() else { return Ok(Vec::new()) };
        let file = directory.join("cgroup.procs");
        let text = match std::fs::read_to_string(&file) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            read => read.map_err(|error| with_path(&file, error))?,
        };
        let numbers = text.lines().filter_map(|line| line.parse().ok());
        Ok(numbers.filter_map(rustix::process::Pid::from_raw).collect())
    }

    /// Thaws processes that cgroup v1 has frozen: a frozen process does not even die.
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
    Error::new(ErrorKind::Unsupported, "this host lends no freezer to this user")
}
