//! The peers, each with its setup. A peer that cannot run is named with the reason.

mod bwrap;
mod docker;
pub mod install;
pub mod rootfs;
mod runc;
mod runsc;
mod sandbox_runtime;

use crate::contestants::Contestant;
use crate::scratch::Scratch;
use anyhow::Result;
use std::path::{Path, PathBuf};

/// The path that Paddock, and so also the peers, give their commands.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

#[derive(Debug, Clone)]
pub struct Missing {
    pub name: &'static str,
    pub reason: String,
}

type Prepare = fn(&Scratch) -> Result<Box<dyn Contestant>>;

pub fn prepare(scratch: &Scratch, installed: Option<&str>) -> (Vec<Box<dyn Contestant>>, Vec<Missing>) {
    let known: [(&'static str, Prepare); 3] =
        [("bwrap", bwrap::prepare), ("runc", runc::prepare), ("docker", docker::prepare)];
    let (mut peers, mut missing) = (Vec::new(), Vec::new());
    for (name, prepare) in known {
        match prepare(scratch) {
            Ok(peer) => peers.push(peer),
            Err(error) => {
                let note = installed.map(|note| format!("; {note}")).unwrap_or_default();
                missing.push(Missing { name, reason: format!("{error:#}{note}") });
            }
        }
    }
    (peers, missing)
}

/// gVisor without Paddock.
pub fn runsc(scratch: &Scratch) -> Result<Box<dyn Contestant>, Missing> {
    runsc::prepare(scratch, "runsc-races")
        .map_err(|error| Missing { name: "runsc", reason: format!("{error:#}") })
}

/// The peers that only run_code is measured beside.
pub fn prepare_more(scratch: &Scratch, install: bool) -> (Vec<Box<dyn Contestant>>, Vec<Missing>) {
    let (mut peers, mut missing) = (Vec::new(), Vec::new());
    let prepared = [
        ("runsc", runsc::prepare(scratch, "runsc")),
        ("sandbox-runtime", sandbox_runtime::prepare(scratch, install)),
    ];
    for (name, peer) in prepared {
        match peer {
            Ok(peer) => peers.push(peer),
            Err(error) => missing.push(Missing { name, reason: format!("{error:#}") }),
        }
    }
    (peers, missing)
}

/// The distribution's own program before one that was put in /usr/local.
fn find(program: &str) -> Option<PathBuf> {
    let own = ["/usr/bin", "/usr/sbin", "/bin", "/sbin"].map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = own.into_iter().chain(std::env::split_paths(&path));
    directories.map(|directory| directory.join(program)).find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or("unknown").trim().to_owned()
}
