//! `docker exec` into a container that runs already.

use super::{Client, SETTLE};
use crate::command::CommandLine;
use crate::contestants::{Contestant, Workload};
use anyhow::{Context, Result};
use std::time::Duration;

pub struct Running {
    client: Client,
    container: String,
}

impl Running {
    pub fn start(client: &Client, image: &str) -> Result<Running> {
        let run =
            client.base().args(["run", "--detach", "--rm", "--network", "none", "--volume", "/usr:/usr:ro"]);
        // Long enough for any bench, and no longer should it be killed.
        let started = run.arg(image).args(["sleep", "3600"]).output().context("docker run --detach")?;
        Ok(Running { client: client.clone(), container: started.trim().to_owned() })
    }
}

impl Contestant for Running {
    fn name(&self) -> &'static str {
        "docker exec"
    }

    fn version(&self) -> String {
        "the same docker, in a container that runs already and is shared by all".into()
    }

    fn command(&self, workload: Workload) -> CommandLine {
        self.client.base().arg("exec").arg(&self.container).args(workload.command())
    }

    fn settle(&self) -> Duration {
        SETTLE
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.client.base().args(["rm", "--force"]).arg(&self.container).quiet().status();
    }
}
