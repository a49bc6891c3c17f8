//! The time that the kernel alone takes, beside the same by `paddock run`.

use crate::contestants::Paddock;
use anyhow::{Context, Result, ensure};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// User, pid, mount, ipc, uts, network and cgroup namespaces.
const NAMESPACES: [&str; 9] =
    ["--user", "--map-root-user", "--pid", "--fork", "--mount", "--ipc", "--uts", "--net", "--cgroup"];

pub fn bare(rounds: usize) -> Result<Vec<Duration>> {
    time(rounds, || {
        let mut command = Command::new("unshare");
        command.args(NAMESPACES).arg("true");
        command
    })
}

pub fn paddock_run(paddock: &Paddock, rounds: usize) -> Result<Vec<Duration>> {
    time(rounds, || {
        let mut command = Command::new(&paddock.program);
        command
            .args(["run", "--", "true"])
            .env("PADDOCK_STATE_DIR", &paddock.state)
            .env("TMPDIR", &paddock.temporary);
        command
    })
}

fn time(rounds: usize, command: impl Fn() -> Command) -> Result<Vec<Duration>> {
    let once = || {
        let mut command = command();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let began = Instant::now();
        let status = command.status().with_context(|| format!("{:?}", command.get_program()))?;
        ensure!(status.success(), "{:?} ended with {status}", command.get_program());
        Ok(began.elapsed())
    };
    (0..rounds).map(|_| once()).collect()
}
