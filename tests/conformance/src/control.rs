//! The same probe outside the fence: what it must be able to do there, or its failure inside shows nothing.
//!
//! Mounts, signals and settings are tried in throw-away namespaces only. A bare mount over /tmp once broke a
//! machine.

use crate::attack::{Control, Finding, Line};
use crate::fence::{Run, finish, start};
use crate::host::Host;
use anyhow::Result;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

pub struct Outside {
    probe: PathBuf,
    scratch: PathBuf,
    as_root: bool,
    secret: String,
}

/// Inside the throw-away namespaces: an overlay to be seen in mountinfo, and outside addresses on loopback.
const PREPARE: &str = "
mount -t tmpfs -o size=512m scratch \"$SCRATCH\" && cd \"$SCRATCH\" && mkdir low up work all place &&
mount -t overlay -o lowerdir=low,upperdir=up,workdir=work overlay all
ip link set lo up; ip address add 198.51.100.1/32 dev lo; ip address add 2001:db8::1/128 dev lo nodad
exec 7</
exec \"$@\"";

impl Outside {
    pub fn prepare(host: &Host) -> Result<Outside> {
        let folder = host.outside()?;
        let scratch = folder.with_file_name("scratch");
        Ok(Outside {
            probe: folder.join("probe"),
            scratch,
            as_root: host.as_root,
            secret: host.secret.clone(),
        })
    }

    pub fn run(&self, control: Control, arguments: &[&str]) -> Result<Run> {
        let mut command = match control {
            Control::Namespaces => {
                let mut command = Command::new("unshare");
                command.args([
                    "--mount",
                    "--propagation",
                    "private",
                    "--pid",
                    "--fork",
                    "--kill-child",
                    "--mount-proc",
                ]);
                command.args(["--net", "--ipc", "--uts", "--cgroup"]);
                if !self.as_root {
                    command.args(["--user", "--map-root-user"]);
                }
                command.args(["sh", "-c", PREPARE, "sh"]);
                command
            }
            _ => {
                let mut command = Command::new("sh");
                command.args(["-c", "exec 7</; exec \"$@\"", "sh"]);
                command
            }
        };
        command.arg(&self.probe).args(arguments);
        command.env("SCRATCH", &self.scratch).env("PADDOCK_CANARY_SECRET", &self.secret).current_dir("/");
        finish(start(command)?)
    }

    pub fn batch(&self, control: Control, ids: &[&str]) -> Result<BTreeMap<String, Finding>> {
        let run = self.run(control, &["--batch", &ids.join(",")])?;
        Ok(lines(&run.stdout))
    }

    /// A directory in memory, for controls that fill one.
    pub fn place(&self) -> String {
        self.scratch.join("place").display().to_string()
    }
}

/// The probe's answers; anything else on its stdout is not one.
pub fn lines(stdout: &str) -> BTreeMap<String, Finding> {
    let parsed = stdout.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
    parsed.map(|line| (line.attack, line.finding)).collect()
}
