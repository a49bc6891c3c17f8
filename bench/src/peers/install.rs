//! Debian's packages of the peers, where this may and can be done.

use super::find;
use crate::command::{CommandLine, Environment};
use std::time::Duration;

const PACKAGES: [(&str, &str); 7] = [
    ("bwrap", "bubblewrap"),
    ("runc", "runc"),
    ("dockerd", "docker.io"),
    ("busybox", "busybox-static"),
    ("runsc", "runsc"),
    // The tools of sandbox-runtime, besides bwrap.
    ("socat", "socat"),
    ("rg", "ripgrep"),
];

/// A package manager that is killed half-way leaves a mess; a slow mirror is no reason for it.
const INSTALL_TIMEOUT: Duration = Duration::from_secs(900);

/// Installs missing packages. Returns the reason if it did not.
pub fn missing(allowed: bool) -> Option<String> {
    let wanted: Vec<_> =
        PACKAGES.iter().filter(|(program, _)| find(program).is_none()).map(|(_, package)| *package).collect();
    if wanted.is_empty() {
        return None;
    }
    let names = wanted.join(" ");
    if !allowed {
        return Some(format!("not installed because of --no-install: {names}"));
    }
    if !rustix::process::geteuid().is_root() {
        return Some(format!("only root can install {names}"));
    }
    let Some(program) = find("apt-get") else { return Some(format!("no apt-get to install {names}")) };
    eprintln!("installing {names}");
    let apt = |arguments: &[&str]| {
        let mut line = CommandLine::new(&program).args(arguments);
        line.environment = Environment::Inherited(vec![("DEBIAN_FRONTEND", "noninteractive".into())]);
        line.output_within(INSTALL_TIMEOUT)
    };
    let install = [&["install", "-y", "--no-install-recommends"], wanted.as_slice()].concat();
    // A fresh host has no package lists yet.
    let outcome = apt(&install).or_else(|_| apt(&["update"]).and_then(|_| apt(&install)));
    outcome.err().map(|error| format!("apt-get install {names} failed: {error:#}"))
}
