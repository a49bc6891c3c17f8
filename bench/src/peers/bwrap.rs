//! bubblewrap: every namespace, and the mounts that Paddock makes without an image.

use super::{PATH, find, first_line};
use crate::command::CommandLine;
use crate::contestants::{Contestant, Workload};
use crate::scratch::Scratch;
use anyhow::{Context, Result};
use std::path::PathBuf;

const FENCE: &[&str] = &[
    "--unshare-all",
    "--unshare-user",
    "--new-session",
    "--die-with-parent",
    "--cap-drop",
    "ALL",
    "--hostname",
    "paddock",
    "--clearenv",
    "--setenv",
    "PATH",
    PATH,
    "--setenv",
    "LANG",
    "C.UTF-8",
];

const MOUNTS: &[&str] = &[
    "--ro-bind",
    "/usr",
    "/usr",
    "--symlink",
    "usr/bin",
    "/bin",
    "--symlink",
    "usr/lib",
    "/lib",
    "--symlink",
    "usr/lib64",
    "/lib64",
    "--symlink",
    "usr/sbin",
    "/sbin",
    "--proc",
    "/proc",
    "--dev",
    "/dev",
    "--tmpfs",
    "/tmp",
    "--tmpfs",
    "/workspace",
    "--chdir",
    "/workspace",
];

struct Bwrap {
    program: PathBuf,
}

pub fn prepare(_scratch: &Scratch) -> Result<Box<dyn Contestant>> {
    Ok(Box::new(Bwrap { program: find("bwrap").context("bwrap is not installed")? }))
}

impl Contestant for Bwrap {
    fn name(&self) -> &'static str {
        "bwrap"
    }

    fn version(&self) -> String {
        let version = CommandLine::new(&self.program).arg("--version").output();
        version.map_or_else(|_| "unknown".into(), |text| first_line(&text))
    }

    fn command(&self, workload: Workload) -> CommandLine {
        CommandLine::new(&self.program).args(FENCE).args(MOUNTS).arg("--").args(workload.command())
    }
}
