//! `paddock serve` with directories of its own, from its start to its end.

use super::calls::Caller;
use super::client::{Address, Client};
use crate::contestants::Paddock;
use crate::scratch::Scratch;
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const START: Duration = Duration::from_secs(20);
const STOP: Duration = Duration::from_secs(20);

/// Sandboxes that the server keeps ready without being told to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// They would be measured in place of those that are created, and be counted as left behind.
    Nothing,
    ByDemand,
}

pub struct Server {
    pub paddock: Paddock,
    process: Child,
    socket: PathBuf,
    log: PathBuf,
    ready: Ready,
}

impl Server {
    pub async fn start(scratch: &Scratch, program: &Path, name: &str, ready: Ready) -> Result<Server> {
        let state = scratch.directory(&format!("{name}/state"))?;
        let temporary = scratch.directory(&format!("{name}/tmp"))?;
        let log = scratch.directory(name)?.join("log");
        // The path of a socket is short; that of a state directory need not be.
        let socket = scratch.directory(name)?.join("api.sock");
        let paddock = Paddock { program: program.to_owned(), state, temporary };
        let process = spawn(&paddock, &socket, &log, ready)?;
        let mut server = Server { paddock, process, socket, log, ready };
        server.wait_until_ready().await?;
        Ok(server)
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// As PADDOCK_URL names it.
    pub fn url(&self) -> String {
        format!("unix:{}", self.socket.display())
    }

    /// A connection of its own, which needs no token.
    pub async fn caller(&self) -> Result<Caller> {
        Ok(Caller::new(Client::connect(&Address::Unix(self.socket.clone()), None).await?))
    }

    pub async fn caller_by_tcp(&self, token: &str) -> Result<Caller> {
        Ok(Caller::new(Client::connect(&Address::Tcp(self.tcp_address()?), Some(token)).await?))
    }

    /// Kill -9, and the next one on the same state directory. Returns how long that one took to be ready.
    pub async fn crash_and_restart(&mut self) -> Result<Duration> {
        self.process.kill()?;
        self.process.wait()?;
        let started = Instant::now();
        self.process = spawn(&self.paddock, &self.socket, &self.log, self.ready)?;
        self.wait_until_ready().await?;
        Ok(started.elapsed())
    }

    /// As a service manager stops it. Sandboxes would keep running.
    pub fn stop(&mut self) -> Result<()> {
        kill_process(Pid::from_child(&self.process), Signal::TERM)?;
        let until = Instant::now() + STOP;
        while Instant::now() < until {
            match self.process.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("{status}; its log ends with: {}", self.last_line()),
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
        bail!("it still runs after {STOP:?}")
    }

    async fn wait_until_ready(&mut self) -> Result<()> {
        let until = Instant::now() + START;
        while Instant::now() < until {
            if let Some(status) = self.process.try_wait()? {
                bail!("paddock serve ended with {status}: {}", self.last_line());
            }
            if let Ok(mut caller) = self.caller().await
                && caller.is_ready().await
            {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        bail!("paddock serve was not ready within {START:?}: {}", self.last_line())
    }

    /// It was asked for any free port and says which it took.
    pub fn tcp_address(&self) -> Result<SocketAddr> {
        let text = std::fs::read_to_string(&self.log)?;
        let found = text.lines().rev().find_map(|line| line.split_once("listening on http://"));
        let (_, address) = found.context("the server does not say where it listens")?;
        address.trim().parse().with_context(|| format!("`{address}` is no address"))
    }

    fn last_line(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        text.lines().last().unwrap_or("its log is empty").chars().take(300).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn spawn(paddock: &Paddock, socket: &Path, log: &Path, ready: Ready) -> Result<Child> {
    let log = File::options().create(true).append(true).open(log)?;
    let mut command = Command::new(&paddock.program);
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--build-on-first-use", "none"])
        .args(["--ready-memory", "0"].iter().filter(|_| ready == Ready::Nothing))
        .arg("--socket")
        .arg(socket)
        .env("PADDOCK_STATE_DIR", &paddock.state)
        .env("TMPDIR", &paddock.temporary)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        // Ctrl-C on the terminal is for the bench, which then kills the sandboxes and stops the server.
        .process_group(0);
    command.spawn().context("paddock serve")
}
