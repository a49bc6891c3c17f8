//! npm's @anthropic-ai/sandbox-runtime, whose command is `srt`: bubblewrap with a proxy for the network.

use super::find;
use crate::command::{CommandLine, Environment};
use crate::contestants::{Contestant, Workload};
use crate::scratch::Scratch;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::time::Duration;

const PACKAGE: &str = "@anthropic-ai/sandbox-runtime";
const INSTALL: Duration = Duration::from_secs(300);

struct SandboxRuntime {
    node: PathBuf,
    program: PathBuf,
    home: PathBuf,
    version: String,
}

pub fn prepare(scratch: &Scratch, install: bool) -> Result<Box<dyn Contestant>> {
    let node = find("node").context("node is not installed")?;
    let home = scratch.directory("sandbox-runtime")?;
    let package = home.join("node_modules").join(PACKAGE);
    if !package.exists() {
        if !install {
            bail!("not installed because of --no-install");
        }
        let npm = find("npm").context("npm is not installed")?;
        eprintln!("installing {PACKAGE}");
        let line = CommandLine::new(npm).args(["install", "--no-audit", "--no-fund", "--prefix"]).arg(&home);
        line.arg(PACKAGE).output_within(INSTALL).context("npm install")?;
    }
    let (program, version) = described(&package)?;
    Ok(Box::new(SandboxRuntime { node, program, home, version }))
}

fn described(package: &Path) -> Result<(PathBuf, String)> {
    let text = std::fs::read(package.join("package.json")).context("no package.json")?;
    let value: serde_json::Value = serde_json::from_slice(&text)?;
    let program = value["bin"]["srt"].as_str().context("it has no command `srt`")?;
    Ok((package.join(program), format!("{PACKAGE} {}", value["version"].as_str().unwrap_or("unknown"))))
}

impl Contestant for SandboxRuntime {
    fn name(&self) -> &'static str {
        "sandbox-runtime"
    }

    fn version(&self) -> String {
        self.version.clone()
    }

    /// With a home of its own, so that no user's settings are read.
    fn command(&self, workload: Workload) -> CommandLine {
        let words = workload.command();
        let quoted: Vec<_> = words.iter().map(|word| format!("'{word}'")).collect();
        let mut line = CommandLine::new(&self.node).arg(&self.program).arg("-c").arg(quoted.join(" "));
        line.environment =
            Environment::Only(vec![("PATH", super::PATH.into()), ("HOME", self.home.clone().into())]);
        line
    }
}
