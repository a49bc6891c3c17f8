//! E: processes, memory, disk, processor, open files.

use super::{Scenario, Shown, Stage, finding};
use crate::attack::{Finding, Outcome};
use crate::control::lines;
use crate::probe::AT_ONCE;
use anyhow::{Result, ensure};
use paddock_model::Cause;

pub const SMALL: &[&str] = &["--memory", "64MiB", "--disk", "16MiB"];
/// For scenarios that do not try the memory: behind gVisor all mapped parts of this program count, and in a build for
/// tests that is more than the small limit.
pub const ROOMY: &[&str] = &["--memory", "192MiB", "--disk", "16MiB"];

pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        id: "E1-fork-bomb",
        title: "64 processes under --pids 32",
        control: Shown::Part(&["fork", "64"]),
        run: |stage| stage.said(&["--pids", "32"], &["fork", "64"]),
    },
    Scenario {
        id: "E1-thread-bomb",
        title: "64 threads under --pids 32",
        control: Shown::Part(&["thread", "64"]),
        run: |stage| stage.said(&["--pids", "32"], &["thread", "64"]),
    },
    Scenario {
        id: "E2-memory",
        title: "96 MiB under --memory 64MiB: reported as out of memory, the guest alive",
        control: Shown::Part(&["memory", "96"]),
        run: |stage| out_of_memory(stage, "memory"),
    },
    Scenario {
        id: "E2-memory-in-child",
        title: "the same in a child of the command",
        control: Shown::Part(&["memory-in-child", "96"]),
        run: memory_in_child,
    },
    Scenario {
        id: "E2-memfd",
        title: "a memfd of 96 MiB under --memory 64MiB",
        control: Shown::Part(&["memfd", "96"]),
        run: |stage| out_of_memory(stage, "memfd"),
    },
    Scenario {
        id: "E2-system-v",
        title: "96 MiB of System V segments that nobody is attached to",
        control: Shown::Part(&["sysv", "96"]),
        run: |stage| out_of_memory(stage, "sysv"),
    },
    Scenario {
        id: "E2-shared-anonymous",
        title: "48 MiB of shared anonymous memory, and as much by way of /dev/zero",
        control: Shown::Part(&["shared", "96", AT_ONCE]),
        run: |stage| out_of_memory(stage, "shared"),
    },
    Scenario {
        id: "E2-memfd-mapped",
        title: "a memfd of 96 MiB that is mapped and closed",
        control: Shown::Part(&["memfd-mapped", "96", AT_ONCE]),
        run: |stage| out_of_memory(stage, "memfd-mapped"),
    },
    Scenario {
        id: "E2-deleted-file",
        title: "96 MiB in a removed file of /dev/shm and one of /tmp, both still open",
        control: Shown::Part(&["deleted", "96", "PLACE"]),
        run: deleted_files,
    },
    Scenario {
        id: "E2-shm-and-heap",
        title: "24 MiB in /dev/shm and 56 MiB of memory: each alone would be within the limit of 64 MiB",
        control: Shown::Part(&["shm-and-heap", "56", "PLACE"]),
        run: shm_and_heap,
    },
    Scenario {
        id: "E2-fill-tmp",
        title: "80 MiB into /tmp",
        control: Shown::Part(&["fill", "80", "PLACE"]),
        run: |stage| bounded(stage, &["fill", "80", "/tmp"]),
    },
    Scenario {
        id: "E2-fill-shm",
        title: "80 MiB into /dev/shm",
        control: Shown::Part(&["fill", "80", "PLACE"]),
        run: |stage| bounded(stage, &["fill", "80", "/dev/shm"]),
    },
    Scenario {
        id: "E5-fill-disk",
        title: "80 MiB into /var/tmp, on the private disk of 16 MiB",
        control: Shown::Part(&["fill", "80", "PLACE"]),
        run: |stage| bounded(stage, &["fill", "80", "/var/tmp"]),
    },
    Scenario {
        id: "E5-fill-home",
        title: "80 MiB into the home directory",
        control: Shown::Part(&["fill", "80", "PLACE"]),
        run: |stage| bounded(stage, &["fill", "80", "HOME"]),
    },
    Scenario {
        id: "E5-inodes",
        title: "100,000 files in /tmp",
        control: Shown::Part(&["inodes", "100000", "PLACE"]),
        run: |stage| bounded(stage, &["inodes", "100000", "/tmp"]),
    },
    Scenario {
        id: "E5-sparse",
        title: "a sparse file of 1 EiB; the run still ends clean",
        control: Shown::Part(&["sparse", "0", "PLACE"]),
        run: |stage| stage.said(ROOMY, &["sparse", "0", "/tmp"]),
    },
    Scenario {
        id: "E5-deep-tree",
        title: "10,000 directories in each other; the run still ends clean",
        control: Shown::Part(&["deep", "10000", "PLACE"]),
        run: |stage| stage.said(&["--disk", "64MiB"], &["deep", "10000", "/tmp"]),
    },
    Scenario {
        id: "E4-spin",
        title: "four spinning threads under --cpus 0.5",
        control: Shown::Part(&["spin", "4"]),
        run: |stage| stage.said(&["--cpus", "0.5"], &["spin", "4"]),
    },
    Scenario {
        id: "E10-open-files",
        title: "100 open files under --files 64",
        control: Shown::Part(&["files", "100"]),
        run: |stage| stage.said(&["--files", "64"], &["files", "100"]),
    },
];

/// A disk that has room for more than the memory limit lets it hold.
fn deleted_files(stage: &Stage) -> Result<Finding> {
    held_or_out_of_memory(stage, &["--memory", "64MiB", "--disk", "128MiB"], &["deleted", "96", "/dev/shm"])
}

fn shm_and_heap(stage: &Stage) -> Result<Finding> {
    held_or_out_of_memory(stage, &["--memory", "64MiB"], &["shm-and-heap", "56", "/dev/shm"])
}

/// Full of something: an error inside, or an end for memory that is reported as one.
pub fn bounded(stage: &Stage, arguments: &[&str]) -> Result<Finding> {
    let run = stage.part(SMALL, arguments)?;
    let report = run.report()?;
    match lines(&report.stdout).remove(arguments[0]) {
        Some(said) => Ok(said),
        None => {
            ensure!(matches!(report.cause, Cause::OutOfMemory { .. }), "ended with {:?}", report.cause);
            finding(Outcome::Bounded, "out of memory, and reported so")
        }
    }
}

pub fn out_of_memory(stage: &Stage, part: &str) -> Result<Finding> {
    held_or_out_of_memory(stage, &["--memory", "64MiB"], &[part, "96"])
}

fn held_or_out_of_memory(stage: &Stage, flags: &[&str], part: &[&str]) -> Result<Finding> {
    let run = stage.part(flags, part)?;
    let report = run.report()?;
    if let Some(said) = lines(&report.stdout).remove(part[0]) {
        return Ok(said);
    }
    ensure!(matches!(report.cause, Cause::OutOfMemory { .. }), "ended with {:?}", report.cause);
    ensure!(report.exit_code == 137 && run.status.code() == Some(137), "exit {}", report.exit_code);
    finding(Outcome::Bounded, format!("out of memory after {:?}", run.wall))
}

/// The kernel or the watcher chooses the process that dies; the guest must not, so there is a report either way.
fn memory_in_child(stage: &Stage) -> Result<Finding> {
    let report = stage.part(&["--memory", "64MiB"], &["memory-in-child", "96"])?.report()?;
    match lines(&report.stdout).remove("memory-in-child") {
        Some(said) => Ok(said),
        None => {
            ensure!(matches!(report.cause, Cause::OutOfMemory { .. }), "ended with {:?}", report.cause);
            finding(Outcome::Bounded, "the whole run ended, reported as out of memory")
        }
    }
}
