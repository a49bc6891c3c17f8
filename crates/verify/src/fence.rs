//! Runs a command behind a backend, through the `paddock` binary, as root and as an ordinary user.

use crate::host::Host;
use crate::interrupt;
use crate::probe::PROBE;
use anyhow::{Context, Result};
use paddock_model::RunReport;
use serde::Deserialize;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// The user that the rootless engine runs as; an id without an owner on any host, and without a passwd entry.
pub const ORDINARY_UID: u32 = 61_234;

/// Longest that any one run may take before the suite calls it hung: the first of a size boots a VM, perhaps on a busy
/// host.
const RUN_TIMEOUT: Duration = Duration::from_secs(180);
/// More than any report has.
const MOST_KEPT: u64 = 32 << 20;
/// Longest that output may stay open after the end of the process that was started.
const STRAGGLERS: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    Root,
    Rootless,
}

impl std::fmt::Display for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Engine::Root => "root",
            Engine::Rootless => "rootless",
        })
    }
}

/// The user of the engine, and the user inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    pub engine: Engine,
    pub user: &'static str,
}

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.engine, self.user)
    }
}

pub struct Fence {
    pub backend: String,
    pub identity: Identity,
    pub binary: PathBuf,
    pub inside: PathBuf,
    pub readonly: PathBuf,
    pub workspace: PathBuf,
    pub home: PathBuf,
}

pub struct Run {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
    pub wall: Duration,
    /// Most memory that the paddock process itself ever had resident.
    pub peak_resident: u64,
}

impl Run {
    pub fn report(&self) -> Result<RunReport> {
        serde_json::from_str(&self.stdout).with_context(|| {
            let head: String = self.stdout.chars().take(300).collect();
            format!("no report ({}): stdout {head:?}, stderr {:?}", self.status, self.stderr.trim())
        })
    }
}

impl Fence {
    /// The command line up to `--`, with the flags of every run.
    pub fn command(&self, host: &Host, json: bool, flags: &[&str], inside: &[&str]) -> Command {
        let mut command = self.paddock(host);
        command.args(["run", "--backend", &self.backend, "--user", self.identity.user]);
        if json {
            command.arg("--json");
        }
        command.arg("--read").arg(format!("{}:/probe", self.inside.display()));
        command.arg("--read").arg(format!("{}:/readonly", self.readonly.display()));
        command.arg("--workspace").arg(&self.workspace);
        command.args(["--protect", "deep/area/keys", "--protect", "later/missing"]);
        command.args(flags).arg("--").args(inside);
        command
    }

    /// `paddock` with its caller's user and home, and a secret in its environment.
    pub fn paddock(&self, host: &Host) -> Command {
        let mut command = Command::new(&self.binary);
        as_caller(&mut command, self.identity.engine, host.as_root, &self.home);
        command.env("PADDOCK_CANARY_SECRET", &host.secret);
        command.envs(host.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    pub fn run(&self, host: &Host, flags: &[&str], inside: &[&str]) -> Result<Run> {
        let run = finish(start(self.command(host, true, flags, inside))?)?;
        if let Ok(report) = run.report() {
            host.remember(&report.sandbox);
        }
        Ok(run)
    }

    pub fn probe(&self, host: &Host, flags: &[&str], arguments: &[&str]) -> Result<Run> {
        self.run(host, flags, &inside(arguments))
    }
}

/// The command inside that is the probe.
pub fn inside<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    ["/probe/probe", PROBE].into_iter().chain(arguments.iter().copied()).collect()
}

/// An ordinary user where the engine is rootless. A descriptor of a host directory is left open on purpose: it must
/// not arrive inside.
pub fn as_caller(command: &mut Command, engine: Engine, as_root: bool, home: &Path) {
    if engine == Engine::Rootless && as_root {
        // No other groups: the standard library drops them with the user.
        command.uid(ORDINARY_UID).gid(ORDINARY_UID);
    }
    // A state directory of the suite's own: nothing of it stays in the caller's.
    command.current_dir("/").env("HOME", home).env("PADDOCK_STATE_DIR", home.join("state"));
    for (name, folder) in
        [("XDG_STATE_HOME", "state"), ("XDG_RUNTIME_DIR", "run"), ("XDG_CACHE_HOME", "cache")]
    {
        command.env(name, home.join(folder));
    }
    // SAFETY: only async-signal-safe calls between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::open(c"/".as_ptr(), libc::O_PATH | libc::O_DIRECTORY);
            Ok(())
        });
    }
}

/// Ended when it is dropped, if its end was not seen before.
pub struct Started {
    pub child: Child,
    collected: bool,
    begun: Instant,
    /// The other end of stdin, ended but open: a socket that came through would still take descriptors.
    _far: UnixStream,
}

/// Starts with a socket as stdin, so that one that is passed through as it is would show.
pub fn start(mut command: Command) -> Result<Started> {
    let (near, far) = UnixStream::pair()?;
    far.shutdown(std::net::Shutdown::Write)?;
    command.stdin(OwnedFd::from(near)).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(Started {
        child: command.spawn().context("cannot start")?,
        collected: false,
        begun: Instant::now(),
        _far: far,
    })
}

pub fn finish(mut started: Started) -> Result<Run> {
    let (child, begun) = (&mut started.child, started.begun);
    let out = child.stdout.take().map(drain);
    let err = child.stderr.take().map(drain);
    let (status, peak_resident) = wait(child, begun)?;
    started.collected = true;
    let wall = begun.elapsed();
    let text = |reader: Option<Receiver<Vec<u8>>>| -> Result<String> {
        let Some(reader) = reader else { return Ok(String::new()) };
        let bytes = reader.recv_timeout(STRAGGLERS).context("ended, but something keeps its output open")?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    Ok(Run { status, stdout: text(out)?, stderr: text(err)?, wall, peak_resident })
}

impl Drop for Started {
    fn drop(&mut self) {
        if !self.collected {
            // A child that has ended, and that `kill_engine` collected, is left alone by both.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn drain(mut from: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // An early end of the stream shows when the caller parses the bytes; a caller that has given up wants none. The
        // bytes after the first megabytes are read and forgotten: code inside may print for ever.
        let _ = from.by_ref().take(MOST_KEPT).read_to_end(&mut bytes);
        let _ = std::io::copy(&mut from, &mut std::io::sink());
        let _ = sender.send(bytes);
    });
    receiver
}

fn wait(child: &Child, begun: Instant) -> Result<(ExitStatus, u64)> {
    let pid = child.id() as i32;
    loop {
        let mut status = 0;
        // SAFETY: an all-zero rusage is valid; both outlive the call.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: as above; the pid is our own child, reaped only here.
        if unsafe { libc::wait4(pid, &raw mut status, libc::WNOHANG, &raw mut usage) } == pid {
            return Ok((ExitStatus::from_raw(status), usage.ru_maxrss as u64 * 1024));
        }
        let hung = begun.elapsed() > RUN_TIMEOUT;
        if hung || interrupt::noticed() {
            // SAFETY: takes no memory; the pid is our own child, not reaped yet.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            interrupt::check()?;
            anyhow::bail!("hung for {RUN_TIMEOUT:?}");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
