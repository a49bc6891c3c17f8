//! Cleans up at once when the engine is killed: a process of its own that waits for the engine's end.
//!
//! Only sandboxes with stand-ins in a workspace get one. Everything else that a killed engine leaves (cgroups)
//! is out of sight, and removed by the next run.

use super::slot::{Slot, sweep_slot};
use std::io::{PipeWriter, Read, Result};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The first argument by which an executable knows that it is to be the janitor.
const MARK: &str = "--be-the-janitor";
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(10);
const PAUSE_BETWEEN_REMOVALS: Duration = Duration::from_millis(5);

/// True if this executable can be started as a janitor.
static ENABLED: AtomicBool = AtomicBool::new(false);

pub struct Janitor {
    process: Child,
    /// Closed by the kernel when the engine dies.
    _lifeline: PipeWriter,
}

/// To be called first in `main` by an executable that embeds the engine. Does not return in a janitor.
pub fn serve_if_asked() {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == MARK) {
        let given = [arguments.next(), arguments.next(), arguments.next()];
        if let [Some(state), Some(slot), Some(record)] = given
            && let Some(slot) = slot.to_str().and_then(|number| number.parse().ok())
        {
            serve(Path::new(&state), slot, Path::new(&record));
        }
        std::process::exit(0);
    }
    ENABLED.store(true, Ordering::Relaxed);
}

impl Janitor {
    /// `None` where the executable is not made for it; then the next run cleans up.
    pub fn start(state: &Path, slot: &Slot) -> Result<Option<Janitor>> {
        if !ENABLED.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let (wait, lifeline) = std::io::pipe()?;
        let process = Command::new("/proc/self/exe")
            .arg0("paddock-janitor")
            .arg(MARK)
            .arg(state)
            .arg(slot.number.to_string())
            .arg(slot.record())
            .env_clear()
            .current_dir("/")
            .stdin(wait)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A Ctrl-C at the terminal is for the engine.
            .process_group(0)
            .spawn()?;
        Ok(Some(Janitor { process, _lifeline: lifeline }))
    }
}

impl Drop for Janitor {
    /// The engine has cleaned up itself.
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn serve(state: &Path, slot: u32, record: &Path) {
    let mut end = [0];
    let _ = std::io::stdin().read(&mut end);
    let deadline = Instant::now() + REMOVAL_TIMEOUT;
    // The kernel lets go of the dead engine's lock a moment later, and until the sandbox itself is gone nothing
    // of it can be removed.
    while record.exists() && Instant::now() < deadline {
        sweep_slot(state, slot);
        std::thread::sleep(PAUSE_BETWEEN_REMOVALS);
    }
}
