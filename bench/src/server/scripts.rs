//! Scripts with annotations: the time that volumes add before `main` runs. Whole commands, as a person types them.

use super::process::Server;
use crate::measure::Timing;
use anyhow::{Context, Result, ensure};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const MAIN: &str = "import time\ndef main(): return time.time()\n";
const VOLUMES: &str = "# volume: many /data/many\n# volume: few /data/few\n";
const STARTS: usize = 30;

/// The time to the first line of main, without volumes and with two warm ones, in turn.
///
/// Precondition: the volume `many` is there and has no writer.
pub fn starts(server: &Server) -> Result<(Timing, Timing)> {
    let file = |name: &str, text: String| -> Result<PathBuf> {
        let path = server.paddock.temporary.join(name);
        std::fs::write(&path, text)?;
        Ok(path)
    };
    let plain = file("plain.py", MAIN.into())?;
    let mounted = file("mounted.py", format!("{VOLUMES}{MAIN}"))?;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for round in 0..=STARTS {
        for (script, samples) in [(&plain, &mut without), (&mounted, &mut with)] {
            let elapsed = start(server, script)?;
            // The first one writes them out.
            if round > 0 {
                samples.push(elapsed);
            }
        }
    }
    let named = |name, samples| Timing::new(name, String::new(), samples);
    Ok((named("script without volumes", without), named("script with two volumes", with)))
}

/// The script says when its main began; both sides have one clock.
fn start(server: &Server, script: &PathBuf) -> Result<Duration> {
    let begun = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let output = Command::new(&server.paddock.program)
        .args(["script", "run"])
        .arg(script)
        .env("PADDOCK_URL", server.url())
        .env("PADDOCK_STATE_DIR", &server.paddock.state)
        .env_remove("PADDOCK_TOKEN")
        .stdin(Stdio::null())
        .output()
        .context("paddock script")?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let at: f64 = said.trim().parse().with_context(|| format!("no time: {said}"))?;
    Ok(Duration::try_from_secs_f64(at)?.saturating_sub(begun))
}
