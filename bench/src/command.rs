//! One command from start to end, with a deadline.

use crate::interrupt;
use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

/// Slower than anything that is measured here; a contestant that needs more hangs.
const DEADLINE: Duration = Duration::from_secs(60);

/// Environment of a command: the bench's own, or only the listed variables.
#[derive(Debug, Clone)]
pub enum Environment {
    Inherited(Vec<(&'static str, OsString)>),
    Only(Vec<(&'static str, OsString)>),
}

#[derive(Debug, Clone)]
pub struct CommandLine {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    pub environment: Environment,
}

impl CommandLine {
    pub fn new(program: impl Into<PathBuf>) -> CommandLine {
        let environment = Environment::Inherited(Vec::new());
        CommandLine { program: program.into(), arguments: Vec::new(), environment }
    }

    pub fn args<I: IntoIterator<Item: Into<OsString>>>(mut self, arguments: I) -> CommandLine {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    pub fn arg(self, argument: impl Into<OsString>) -> CommandLine {
        self.args([argument.into()])
    }

    /// Nothing is captured, no shell, no search in PATH: std starts this with posix_spawn, which shares memory
    /// with the bench until the exec, as vfork does.
    pub fn quiet(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        let (variables, cleared) = match &self.environment {
            Environment::Inherited(variables) => (variables, false),
            Environment::Only(variables) => (variables, true),
        };
        if cleared {
            command.env_clear();
        }
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// For setting up and for proof that a contestant works; fails unless the command succeeds.
    pub fn output(&self) -> Result<String> {
        self.output_within(DEADLINE)
    }

    pub fn output_within(&self, deadline: Duration) -> Result<String> {
        let mut command = self.quiet();
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let child = child.with_context(|| self.program.display().to_string())?;
        let Output { status, stdout, stderr } = collect(child, deadline)?;
        if !status.success() {
            bail!("{}: {status}: {}", self.program.display(), summary(&stderr));
        }
        Ok(String::from_utf8_lossy(&stdout).into_owned())
    }
}

/// Wall time from before the start until the end was seen.
pub fn time(command: &mut Command) -> Result<(Duration, ExitStatus)> {
    let started = Instant::now();
    let mut child = command.spawn()?;
    wait(&mut child, DEADLINE)?;
    let status = child.wait()?;
    Ok((started.elapsed(), status))
}

/// Returns when the child has ended; kills it when the deadline or an interrupt comes first.
pub fn wait(child: &mut Child, deadline: Duration) -> Result<()> {
    let outcome = wait_for_end(child, deadline);
    if outcome.is_err() {
        let _ = child.kill();
        let _ = child.wait();
    }
    outcome
}

fn wait_for_end(child: &Child, deadline: Duration) -> Result<()> {
    let handle = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let until = Instant::now() + deadline;
    loop {
        interrupt::check()?;
        let left = until.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => bail!("not done after {deadline:?}"),
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The pipes are drained by threads, so that a chatty child cannot block.
fn collect(mut child: Child, deadline: Duration) -> Result<Output> {
    fn drain(stream: Option<impl std::io::Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(mut stream) = stream {
                let _ = stream.read_to_end(&mut bytes);
            }
            bytes
        })
    }
    let (stdout, stderr) = (drain(child.stdout.take()), drain(child.stderr.take()));
    wait(&mut child, deadline)?;
    let status = child.wait()?;
    let (stdout, stderr) = (stdout.join().unwrap_or_default(), stderr.join().unwrap_or_default());
    Ok(Output { status, stdout, stderr })
}

/// The last line of an error output says most.
fn summary(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let last = text.lines().rev().find(|line| !line.trim().is_empty());
    last.unwrap_or("no message").trim().chars().take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_and_failure() {
        assert_eq!(CommandLine::new("/bin/sh").args(["-c", "echo hi"]).output().unwrap(), "hi\n");
        let error = CommandLine::new("/bin/sh").args(["-c", "echo why >&2; exit 3"]).output().unwrap_err();
        assert!(error.to_string().ends_with("exit status: 3: why"), "{error}");
    }

    #[test]
    fn only_the_listed_environment() {
        let mut line = CommandLine::new("/usr/bin/env");
        line.environment = Environment::Only(vec![("A", "1".into())]);
        assert_eq!(line.output().unwrap(), "A=1\n");
    }

    #[test]
    fn a_deadline_kills() {
        let mut child = Command::new("/bin/sleep").arg("60").spawn().unwrap();
        let started = Instant::now();
        assert!(wait(&mut child, Duration::from_millis(50)).is_err());
        assert!(started.elapsed() < Duration::from_secs(10));
    }
}
