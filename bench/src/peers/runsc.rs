//! gVisor: `runsc run` of the bundle that runc is given, with the platform that needs no KVM.

use super::{find, first_line, rootfs, runc};
use crate::command::CommandLine;
use crate::contestants::{Contestant, Workload};
use crate::scratch::Scratch;
use anyhow::{Context, Result, bail};
use std::path::PathBuf;

struct Runsc {
    program: PathBuf,
    state: PathBuf,
    bundles: PathBuf,
    container: String,
}

/// `place`: where in the scratch directory its own things are.
pub fn prepare(scratch: &Scratch, place: &str) -> Result<Box<dyn Contestant>> {
    let program = find("runsc").context("runsc is not installed")?;
    if !rustix::process::geteuid().is_root() {
        bail!("runsc needs root for its cgroup");
    }
    let (state, bundles) =
        (scratch.directory(&format!("{place}/state"))?, scratch.directory(&format!("{place}/bundles"))?);
    for workload in Workload::WITH_PANDAS {
        let bundle = scratch.directory(&format!("{place}/bundles/{}", workload.name()))?;
        rootfs::build(&scratch.directory(&format!("{place}/bundles/{}/rootfs", workload.name()))?)?;
        runc::write_config(&program, &bundle, workload).context("runsc spec")?;
    }
    let container = format!("paddock-bench-{place}-{}", std::process::id());
    Ok(Box::new(Runsc { program, state, bundles, container }))
}

impl Runsc {
    fn base(&self) -> CommandLine {
        let base = CommandLine::new(&self.program).args(["--platform=ptrace", "--network=none", "--root"]);
        base.arg(&self.state)
    }
}

impl Contestant for Runsc {
    fn name(&self) -> &'static str {
        "runsc"
    }

    fn version(&self) -> String {
        let version = CommandLine::new(&self.program).arg("--version").output();
        let version = version.map_or_else(|_| "unknown".into(), |text| first_line(&text));
        format!("{version}, platform ptrace")
    }

    fn command(&self, workload: Workload) -> CommandLine {
        let bundle = self.bundles.join(workload.name());
        self.base().args(["run", "--bundle"]).arg(bundle).arg(&self.container)
    }
}

impl Drop for Runsc {
    /// Only an interrupted run leaves a container.
    fn drop(&mut self) {
        let _ = self.base().args(["delete", "--force"]).arg(&self.container).quiet().status();
    }
}
