//! A dockerd with everything of it below the scratch directory.

use super::super::find;
use crate::interrupt;
use crate::scratch::Scratch;
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const START: Duration = Duration::from_secs(30);
const STOP: Duration = Duration::from_secs(20);

pub struct Daemon {
    process: Child,
    cgroup: String,
}

impl Daemon {
    /// Tries the storage drivers in the order of their speed. `is_ready` is told the address.
    pub fn start(scratch: &Scratch, mut is_ready: impl FnMut(&str) -> bool) -> Result<Daemon> {
        let program = find("dockerd").context("no daemon runs, and dockerd is not installed")?;
        if !rustix::process::geteuid().is_root() {
            bail!("no daemon runs, and only root can start one");
        }
        let mut reasons = Vec::new();
        for driver in ["overlay2", "vfs"] {
            let directory = scratch.directory(&format!("docker/{driver}"))?;
            let address = format!("unix://{}", directory.join("socket").display());
            let mut daemon = Daemon::spawn(&program, &directory, &address, driver)?;
            match daemon.wait_until(|| is_ready(&address)) {
                Ok(()) => return Ok(daemon),
                Err(error) => {
                    reasons.push(format!("{driver}: {error:#} ({})", last_line(&directory.join("log"))))
                }
            }
        }
        bail!("dockerd did not start: {}", reasons.join("; "))
    }

    fn spawn(program: &Path, directory: &Path, address: &str, driver: &str) -> Result<Daemon> {
        let cgroup = format!("paddock-bench-{}", std::process::id());
        let log = File::create(directory.join("log"))?;
        let mut command = Command::new(program);
        command
            .args(["--host", address, "--storage-driver", driver, "--cgroup-parent", &cgroup])
            .args(["--iptables=false", "--ip6tables=false", "--bridge=none"])
            .arg("--data-root")
            .arg(directory.join("data"))
            .arg("--exec-root")
            .arg(directory.join("exec"))
            .arg("--pidfile")
            .arg(directory.join("pid"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // Ctrl-C on the terminal is for the bench, which then stops the daemon in order.
            .process_group(0);
        // SAFETY: prctl is async-signal-safe and touches no memory of ours.
        unsafe { command.pre_exec(die_with_the_bench) };
        let process = command.spawn().context("dockerd")?;
        Ok(Daemon { process, cgroup })
    }

    fn wait_until(&mut self, mut is_ready: impl FnMut() -> bool) -> Result<()> {
        let until = Instant::now() + START;
        while Instant::now() < until {
            interrupt::check()?;
            if let Some(status) = self.process.try_wait()? {
                bail!("it ended with {status}");
            }
            if is_ready() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        bail!("it did not answer within {START:?}")
    }
}

impl Drop for Daemon {
    /// On SIGTERM dockerd stops its containers and its containerd.
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
        let until = Instant::now() + STOP;
        while Instant::now() < until && matches!(self.process.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
        for directory in cgroups_named(&self.cgroup) {
            let _ = std::fs::remove_dir(directory);
        }
    }
}

fn die_with_the_bench() -> std::io::Result<()> {
    // SAFETY: a call with plain numbers.
    match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// At the top of the only hierarchy (v2), or of each (v1).
fn cgroups_named(name: &str) -> Vec<PathBuf> {
    let top = Path::new("/sys/fs/cgroup");
    let hierarchies = std::fs::read_dir(top).into_iter().flatten().flatten().map(|entry| entry.path());
    let all = hierarchies.chain([top.to_owned()]).map(|hierarchy| hierarchy.join(name));
    all.filter(|path| path.is_dir()).collect()
}

fn last_line(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines().last().unwrap_or("its log is empty").chars().take(300).collect()
}
