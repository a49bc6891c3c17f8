//! `docker run --rm` against the daemon that runs, or against one that lives as long as the bench.

mod daemon;
mod running;

use super::{find, rootfs};
use crate::command::CommandLine;
use crate::contestants::{Contestant, Workload};
use crate::scratch::Scratch;
use anyhow::{Context, Result};
use daemon::Daemon;
use running::Running;
use std::path::{Path, PathBuf};
use std::time::Duration;

const SETTLE: Duration = Duration::from_millis(50);
const RUNNING: &str = "unix:///var/run/docker.sock";

struct Docker {
    client: Client,
    image: String,
    /// `true` is the image's own; without busybox it is the host's.
    has_busybox: bool,
    daemon: Option<Daemon>,
}

/// The client with a daemon's address and with no settings of the user's.
#[derive(Clone)]
struct Client {
    program: PathBuf,
    settings: PathBuf,
    address: String,
}

pub fn prepare(scratch: &Scratch) -> Result<Box<dyn Contestant>> {
    let program = find("docker").context("docker is not installed")?;
    let settings = scratch.directory("docker/settings")?;
    let mut client = Client { program, settings, address: RUNNING.into() };
    let daemon = match client.server_version() {
        Ok(_) => None,
        Err(_) => {
            let daemon = Daemon::start(scratch, |address| {
                client.address = address.to_owned();
                client.server_version().is_ok()
            })?;
            Some(daemon)
        }
    };
    let image = format!("paddock-bench-{}", std::process::id());
    let busybox = find("busybox").filter(|program| rootfs::is_static(program));
    // From here on the daemon and the image are removed with this value.
    let docker = Docker { client, image, has_busybox: busybox.is_some(), daemon };
    docker.import(scratch, busybox.as_deref()).context("docker import")?;
    Ok(Box::new(docker))
}

impl Client {
    fn base(&self) -> CommandLine {
        let base = CommandLine::new(&self.program).arg("--config").arg(&self.settings);
        base.args(["--host", self.address.as_str()])
    }

    fn server_version(&self) -> Result<String> {
        self.base()
            .args(["version", "--format", "{{.Client.Version}} with daemon {{.Server.Version}}"])
            .output()
    }
}

impl Docker {
    fn import(&self, scratch: &Scratch, busybox: Option<&Path>) -> Result<()> {
        let root = scratch.directory("docker/rootfs")?;
        rootfs::build(&root)?;
        if let Some(busybox) = busybox {
            rootfs::add_busybox(&root, busybox)?;
        }
        let archive = scratch.directory("docker")?.join("rootfs.tar");
        let tar = find("tar").context("no tar")?;
        CommandLine::new(tar).arg("-cf").arg(&archive).arg("-C").arg(&root).arg(".").output()?;
        self.client.base().arg("import").arg(archive).arg(&self.image).output()?;
        Ok(())
    }
}

impl Contestant for Docker {
    fn name(&self) -> &'static str {
        "docker"
    }

    fn version(&self) -> String {
        let version = self.client.server_version().unwrap_or_else(|_| "unknown".into());
        let whose = if self.daemon.is_some() { "started by the bench" } else { "already running" };
        format!("docker {} ({whose})", version.trim())
    }

    /// Without a network, which is cheaper for docker than its default.
    fn command(&self, workload: Workload) -> CommandLine {
        let mut line = self.client.base().args(["run", "--rm", "--network", "none"]);
        if workload != Workload::True || !self.has_busybox {
            line = line.args(["--volume", "/usr:/usr:ro"]);
        }
        line.arg(&self.image).args(workload.command())
    }

    fn running(&self) -> Option<Result<Box<dyn Contestant>>> {
        Some(
            Running::start(&self.client, &self.image).map(|running| Box::new(running) as Box<dyn Contestant>),
        )
    }

    fn settle(&self) -> Duration {
        SETTLE
    }
}

impl Drop for Docker {
    fn drop(&mut self) {
        let _ = self.client.base().args(["image", "rm", "--force"]).arg(&self.image).quiet().status();
    }
}
