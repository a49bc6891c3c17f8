//! jupyter_client with ipykernel, in an environment of its own: driven by a small program, one line for each turn.

use super::Setting;
use crate::command::CommandLine;
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

const INSTALL: Duration = Duration::from_secs(600);
const DRIVER: &str = include_str!("jupyter.py");

pub struct Jupyter {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    version: String,
}

impl Jupyter {
    pub fn start(setting: Setting<'_>) -> Result<Jupyter> {
        let directory = setting.scratch.directory("jupyter")?;
        let python = environment(&directory, setting.install)?;
        let driver = directory.join("driver.py");
        std::fs::write(&driver, DRIVER)?;
        let mut process = Command::new(&python)
            .arg(&driver)
            // Connection files and settings of its own.
            .env("HOME", &directory)
            .env("JUPYTER_PLATFORM_DIRS", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("jupyter")?;
        let input = process.stdin.take().context("no input")?;
        let output = BufReader::new(process.stdout.take().context("no output")?);
        let mut jupyter = Jupyter { process, input, output, version: String::new() };
        jupyter.version = jupyter.line().context("the driver does not start")?;
        jupyter.warm().context("no execution")?;
        Ok(jupyter)
    }

    pub fn version(&self) -> &str {
        &self.version
    }

    /// A kernel from its start to its end, with `print(1)` in it.
    pub fn cold(&mut self) -> Result<Duration> {
        self.ask("cold")
    }

    /// `1+1` in a kernel that is there.
    pub fn warm(&mut self) -> Result<Duration> {
        self.ask("warm")
    }

    fn ask(&mut self, what: &str) -> Result<Duration> {
        writeln!(self.input, "{what}")?;
        let answer = self.line()?;
        let seconds: f64 = answer.parse().with_context(|| format!("the driver said `{answer}`"))?;
        Ok(Duration::from_secs_f64(seconds))
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            bail!("the driver has ended");
        }
        Ok(line.trim().to_owned())
    }
}

impl Drop for Jupyter {
    /// The end of its input is its own, and that of its kernel.
    fn drop(&mut self) {
        let _ = writeln!(self.input, "end");
        let _ = crate::command::wait(&mut self.process, Duration::from_secs(10));
        let _ = self.process.wait();
    }
}

/// The Python of an environment that has both packages.
fn environment(directory: &Path, install: bool) -> Result<PathBuf> {
    let python = directory.join("venv/bin/python");
    if python.exists() {
        return Ok(python);
    }
    if !install {
        bail!("not installed because of --no-install");
    }
    eprintln!("installing jupyter_client and ipykernel");
    let venv = directory.join("venv");
    let made = |program: &str| {
        CommandLine::new(program).args(["-m", "venv", "--clear"]).arg(&venv).output_within(INSTALL)
    };
    made("/usr/bin/python3")
        .or_else(|_| made("python3"))
        .context("no environment (Debian's python3-venv)")?;
    let packages = ["-m", "pip", "install", "--quiet", "jupyter_client", "ipykernel"];
    let installed = CommandLine::new(&python).args(packages).output_within(INSTALL);
    if let Err(error) = installed {
        let _ = std::fs::remove_dir_all(&venv);
        return Err(error.context("pip cannot install jupyter_client and ipykernel"));
    }
    Ok(python)
}
