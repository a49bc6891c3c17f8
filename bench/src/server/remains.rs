//! Nothing of a sandbox is left when it was killed. The server is the bench's own: all that it ever made is listed.

use super::parallel;
use super::process::Server;
use crate::footprint::processes_below;
use crate::leftovers::{RUN, cgroups, entries};
use crate::scratch::mounts_below;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A thing that stays longer than this was left.
const REMAINS_TIMEOUT: Duration = Duration::from_secs(5);
/// All that ever ended is listed: after a soak that is hundreds of pages.
const LIST: Duration = Duration::from_secs(120);
const KILL: Duration = Duration::from_secs(60);

pub async fn kill_all(server: &Server) -> Result<()> {
    let kill = async {
        let live = server.caller().await?.live().await?;
        parallel::kill(server, live).await
    };
    tokio::time::timeout(KILL, kill).await.context("they were not killed in time")?
}

/// Precondition: all sandboxes were killed.
pub async fn look(server: &Server) -> Result<Vec<String>> {
    let ended = tokio::time::timeout(LIST, async { server.caller().await?.ended().await });
    let ended: BTreeSet<_> = ended.await.context("the list did not come in time")??.into_iter().collect();
    if ended.is_empty() {
        bail!("the server knows of no sandbox that ended, so nothing was looked for");
    }
    let until = Instant::now() + REMAINS_TIMEOUT;
    // The processes of a VM that stands to be copied belong to no sandbox: they end with the server.
    let standing = super::machines::standing(&mut server.caller().await?).await?;
    loop {
        let found = of_sandboxes(&server.paddock.state, &ended);
        let is_theirs = found.len() == standing && found.iter().all(|one| one.starts_with("process "));
        if found.is_empty() || is_theirs {
            return Ok(Vec::new());
        }
        if Instant::now() > until {
            return Ok(found);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Remains that belong to no single sandbox.
///
/// Precondition: the server has ended.
pub fn mounts(server: &Server) -> Vec<String> {
    let state = &server.paddock.state;
    let processes = processes_below(state).into_iter().map(|path| format!("process {}", path.display()));
    let mounts = mounts_below(state).into_iter().map(|path| format!("mount {}", path.display()));
    let devices = entries(Path::new("/sys/block")).into_iter().filter(|device| {
        let file = std::fs::read_to_string(device.join("loop/backing_file")).unwrap_or_default();
        Path::new(file.trim_end()).starts_with(state)
    });
    processes.chain(mounts).chain(devices.map(|path| format!("loop device {}", path.display()))).collect()
}

fn of_sandboxes(state: &Path, ids: &BTreeSet<String>) -> Vec<String> {
    let is_ours = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        ids.contains(name.as_ref()) || ids.contains(name.trim_start_matches("paddock-"))
    };
    let mut found: Vec<_> =
        processes_below(state).iter().map(|path| format!("process {}", path.display())).collect();
    let groups = cgroups(Path::new("/sys/fs/cgroup"), 0).into_iter().filter(|path| is_ours(path));
    found.extend(groups.map(|path| format!("cgroup {}", path.display())));
    let run = RUN.map(PathBuf::from).into_iter().chain([state.join("run")]);
    let records = run.flat_map(|directory| entries(&directory)).filter(|path| {
        is_ours(path)
            || std::fs::read_to_string(path).is_ok_and(|text| ids.iter().any(|id| text.contains(id)))
    });
    found.extend(records.map(|path| format!("file {}", path.display())));
    // Checked out versions of volumes belong to no sandbox: the next one begins with them, and their number is bounded.
    let is_version =
        |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vv-"));
    // An empty spare disk belongs to no sandbox either.
    let is_spare = |path: &Path| {
        let spare = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".spare-"));
        spare && entries(&path.join("fs")).is_empty()
    };
    let disks = entries(&state.join("storage/disks"));
    let disks: BTreeSet<_> = disks.iter().filter(|path| !is_version(path) && !is_spare(path)).collect();
    found.extend(disks.into_iter().map(|path| format!("disk {}", path.display())));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A check that cannot fail proves nothing. No sandbox of another test has such an id.
    #[test]
    fn a_disk_a_record_and_a_process_are_noticed() {
        let scratch = crate::scratch::Scratch::new().unwrap();
        let state = scratch.directory("state").unwrap();
        let disk = scratch.directory("state/storage/disks/sb-x1").unwrap();
        scratch.directory("state/storage/disks/vv-1-2").unwrap();
        scratch.directory("state/storage/disks/.spare-1/fs").unwrap();
        let not_empty = scratch.directory("state/storage/disks/.spare-2").unwrap();
        scratch.directory("state/storage/disks/.spare-2/fs/left").unwrap();
        let record = scratch.directory("state/run").unwrap().join("7.json");
        std::fs::write(&record, r#"{"sandbox":"sb-x1"}"#).unwrap();
        std::fs::write(record.with_file_name("8.json"), r#"{"sandbox":"sb-x2"}"#).unwrap();
        std::fs::copy("/bin/sleep", state.join("guest")).unwrap();
        let mut child = std::process::Command::new(state.join("guest")).arg("60").spawn().unwrap();
        let found = of_sandboxes(&state, &["sb-x1".to_owned()].into());
        child.kill().unwrap();
        child.wait().unwrap();
        let expected = [
            format!("process /proc/{}", child.id()),
            format!("file {}", record.display()),
            format!("disk {}", not_empty.display()),
            format!("disk {}", disk.display()),
        ];
        assert_eq!(found, expected);
    }
}
