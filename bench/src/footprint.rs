//! The guest: how large its executable is, and how much memory it holds while a command runs.

use crate::command;
use crate::contestants::Paddock;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub struct Guest {
    pub executable_bytes: Result<u64>,
    pub memory: Result<Memory>,
}

pub struct Memory {
    pub resident_bytes: u64,
    /// Each shared page divided by its users; nothing where the kernel does not show it.
    pub proportional_bytes: Option<u64>,
}

/// Precondition: Paddock has run once with its state directory.
pub fn measure(paddock: &Paddock) -> Guest {
    let executable = executable(&paddock.state);
    let executable_bytes = match &executable {
        Ok(path) => path.metadata().context("guest").map(|found| found.len()),
        Err(error) => Err(anyhow::anyhow!("{error:#}")),
    };
    Guest { executable_bytes, memory: executable.and_then(|path| memory(paddock, &path)) }
}

fn executable(state: &Path) -> Result<PathBuf> {
    let directory = state.join("guest");
    let entries = std::fs::read_dir(&directory).context("no guest in the state directory")?;
    let files: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    match files.as_slice() {
        [only] => Ok(only.clone()),
        several => bail!("{} guests in the state directory", several.len()),
    }
}

fn memory(paddock: &Paddock, guest: &Path) -> Result<Memory> {
    let mut child = paddock.run(&["sleep", "2"]).quiet().spawn()?;
    let found = observe(guest);
    // The sandbox is left to end by itself: the next engine would have to sweep the remains of a killed one.
    command::wait(&mut child, Duration::from_secs(20))?;
    let status = child.wait()?;
    if !status.success() {
        bail!("paddock run -- sleep 2: {status}");
    }
    found
}

fn observe(guest: &Path) -> Result<Memory> {
    let until = Instant::now() + Duration::from_secs(1);
    while processes_below(guest).is_empty() {
        if Instant::now() > until {
            bail!("no process of the guest can be seen (another user's needs root)");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    // Between fork and exec the command, too, is the guest.
    std::thread::sleep(Duration::from_millis(300));
    let memories = processes_below(guest).into_iter().map(read).collect::<Result<Vec<_>>>()?;
    memories.into_iter().max_by_key(|memory| memory.resident_bytes).context("the guest ended early")
}

/// The processes whose executable is at or below a path.
pub fn processes_below(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    entries
        .filter(|entry| std::fs::read_link(entry.join("exe")).is_ok_and(|exe| exe.starts_with(path)))
        .collect()
}

fn read(process: PathBuf) -> Result<Memory> {
    let rollup = std::fs::read_to_string(process.join("smaps_rollup")).unwrap_or_default();
    let status = std::fs::read_to_string(process.join("status"))?;
    let resident = kilobytes(&rollup, "Rss:").or_else(|| kilobytes(&status, "VmRSS:"));
    Ok(Memory {
        resident_bytes: resident.context("no resident size in /proc")?,
        proportional_bytes: kilobytes(&rollup, "Pss:"),
    })
}

/// The value of one line of /proc, in bytes.
pub fn kilobytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_proc() {
        let text = "55-7f ---p 00000000 00:00 0 [rollup]\nRss:            1548 kB\nPss:              23 kB\nPss_Anon: 9 kB\n";
        assert_eq!(kilobytes(text, "Rss:"), Some(1548 * 1024));
        assert_eq!(kilobytes(text, "Pss:"), Some(23 * 1024));
        assert_eq!(kilobytes(text, "VmRSS:"), None);
    }

    #[test]
    fn this_process_is_found_by_its_executable() {
        let found = processes_below(&std::env::current_exe().unwrap());
        assert!(found.contains(&PathBuf::from(format!("/proc/{}", std::process::id()))));
    }
}
