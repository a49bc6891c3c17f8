//! Cgroups of a caller's own, below which Paddock makes those of its sandboxes: so they can be told from the sandboxes
//! of all other users of this host. Version 1 only: on version 2 Paddock goes to the top.

use anyhow::Result;
use std::fs::{File, OpenOptions, read_to_string};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

const CONTROLLERS: [&str; 4] = ["memory", "cpu", "cpuacct", "pids"];

pub struct Groups {
    directories: Vec<PathBuf>,
    entrances: Arc<Vec<File>>,
}

impl Groups {
    /// Empty where there is no version 1.
    pub fn make(name: &str) -> Result<Groups> {
        let mut groups = Groups {
            directories: parents().iter().map(|p| p.join(name)).collect(),
            entrances: Arc::default(),
        };
        let mut entrances = Vec::new();
        for directory in &groups.directories {
            std::fs::create_dir(directory)?;
            entrances.push(OpenOptions::new().write(true).open(directory.join("cgroup.procs"))?);
        }
        groups.entrances = Arc::new(entrances);
        Ok(groups)
    }

    pub fn directories(&self) -> &[PathBuf] {
        &self.directories
    }

    /// The program and all that it starts will be in them.
    pub fn enter(&self, command: &mut Command) {
        let entrances = self.entrances.clone();
        // SAFETY: only writes to descriptors that the closure keeps open, which is safe between fork and exec.
        unsafe {
            command.pre_exec(move || {
                for entrance in entrances.iter() {
                    if libc::write(entrance.as_raw_fd(), c"0".as_ptr().cast(), 1) != 1 {
                        return Err(std::io::Error::last_os_error());
                    }
                }
                Ok(())
            });
        }
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for directory in &self.directories {
            // After a failed test something may still be dying in there.
            let _ = crate::until(std::time::Duration::from_secs(2), "an empty cgroup", || {
                for left in crate::leftovers::entries(directory) {
                    let _ = std::fs::remove_dir(left);
                }
                std::fs::remove_dir(directory).ok()
            });
        }
    }
}

/// Where this process is, in each hierarchy that Paddock uses.
fn parents() -> Vec<PathBuf> {
    let (mounts, own) = (text("/proc/self/mountinfo"), text("/proc/self/cgroup"));
    let mut found = Vec::new();
    for (place, controllers) in mounts.lines().filter_map(version_1) {
        let wanted = |names: &str| {
            names
                .split(',')
                .any(|name| CONTROLLERS.contains(&name) && controllers.split(',').any(|c| c == name))
        };
        let path = own.lines().find_map(|line| {
            let (names, path) = line.split_once(':')?.1.split_once(':')?;
            wanted(names).then_some(path)
        });
        found.extend(path.map(|path| Path::new(place).join(path.trim_start_matches('/'))));
    }
    found
}

/// Mount point and controllers of one line of mountinfo.
fn version_1(line: &str) -> Option<(&str, &str)> {
    let (before, after) = line.split_once(" - ")?;
    let mut after = after.split(' ');
    (after.next()? == "cgroup").then_some(())?;
    Some((before.split(' ').nth(4)?, after.nth(1)?))
}

fn text(path: &str) -> String {
    read_to_string(path).unwrap_or_default()
}
