//! runc: the bundle of `runc spec`, with the host's /usr bound into it.

use super::{PATH, find, first_line, rootfs};
use crate::command::CommandLine;
use crate::contestants::{Contestant, Workload};
use crate::scratch::Scratch;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

struct Runc {
    program: PathBuf,
    state: PathBuf,
    bundles: PathBuf,
    container: String,
}

pub fn prepare(scratch: &Scratch) -> Result<Box<dyn Contestant>> {
    let program = find("runc").context("runc is not installed")?;
    if !rustix::process::geteuid().is_root() {
        bail!("runc needs root for its cgroup");
    }
    let (state, bundles) = (scratch.directory("runc/state")?, scratch.directory("runc/bundles")?);
    // Its cgroup has this name, too: not that of docker's.
    let container = format!("paddock-bench-runc-{}", std::process::id());
    for workload in Workload::WITH_PANDAS {
        let bundle = scratch.directory(&format!("runc/bundles/{}", workload.name()))?;
        rootfs::build(&scratch.directory(&format!("runc/bundles/{}/rootfs", workload.name()))?)?;
        write_config(&program, &bundle, workload).context("runc spec")?;
    }
    Ok(Box::new(Runc { program, state, bundles, container }))
}

/// `runsc spec` has the same options, and writes the same file.
pub fn write_config(program: &Path, bundle: &Path, workload: Workload) -> Result<()> {
    CommandLine::new(program).args(["spec", "--bundle"]).arg(bundle).output()?;
    let path = bundle.join("config.json");
    let mut config: Value = serde_json::from_slice(&std::fs::read(&path)?)?;
    config["process"]["terminal"] = json!(false);
    config["process"]["args"] = json!(workload.command());
    config["process"]["env"] = json!([format!("PATH={PATH}"), "LANG=C.UTF-8"]);
    let mounts = config["mounts"].as_array_mut().context("no mounts in its config.json")?;
    mounts.push(json!({
        "destination": "/usr", "type": "bind", "source": "/usr", "options": ["bind", "ro", "nosuid", "nodev"]
    }));
    for place in ["/tmp", "/workspace"] {
        mounts.push(json!({
            "destination": place, "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev"]
        }));
    }
    Ok(std::fs::write(path, serde_json::to_vec_pretty(&config)?)?)
}

impl Runc {
    fn base(&self) -> CommandLine {
        CommandLine::new(&self.program).arg("--root").arg(&self.state)
    }
}

impl Contestant for Runc {
    fn name(&self) -> &'static str {
        "runc"
    }

    fn version(&self) -> String {
        let version = CommandLine::new(&self.program).arg("--version").output();
        version.map_or_else(|_| "unknown".into(), |text| first_line(&text))
    }

    /// `runc run` removes the container at its end, so that the name is free again.
    fn command(&self, workload: Workload) -> CommandLine {
        let bundle = self.bundles.join(workload.name());
        self.base().args(["run", "--bundle"]).arg(bundle).arg(&self.container)
    }
}

impl Drop for Runc {
    /// Only an interrupted run leaves a container.
    fn drop(&mut self) {
        if self.state.join(&self.container).exists() {
            let _ = self.base().args(["delete", "--force"]).arg(&self.container).quiet().status();
        }
    }
}
