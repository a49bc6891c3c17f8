//! H: floods beyond the catalogue. Resources held by one sandbox must not be missing to its caller, or to others.

use super::limits::{ROOMY, bounded, out_of_memory};
use super::{Scenario, Shown, Stage, finding};
use crate::attack::{Finding, Outcome};
use anyhow::{Result, ensure};

pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        id: "H43-inotify",
        title: "64 watchers of files: the caller has 128 for everything",
        control: Shown::Part(&["inotify", "64"]),
        run: |stage| stage.said(&[], &["inotify", "64"]),
    },
    Scenario {
        id: "H44-terminals",
        title: "300 terminals: the machine has a few thousand",
        control: Shown::Part(&["terminals", "300"]),
        run: |stage| stage.said(&[], &["terminals", "300"]),
    },
    Scenario {
        id: "H45-timers",
        title: "20,000 timers in the caller's queue of signals",
        control: Shown::Part(&["timers", "20000"]),
        run: |stage| stage.said(&[], &["timers", "20000"]),
    },
    Scenario {
        id: "H46-pipes",
        title: "96 MiB that wait in pipes under --memory 64MiB",
        control: Shown::Part(&["pipes", "96"]),
        run: |stage| out_of_memory(stage, "pipes"),
    },
    Scenario {
        id: "H47-sockets",
        title: "96 MiB that wait in sockets under --memory 64MiB",
        control: Shown::Part(&["sockets", "96"]),
        run: |stage| out_of_memory(stage, "sockets"),
    },
    Scenario {
        id: "H48-mappings",
        title: "60,000 mappings of one page; the run still ends clean",
        control: Shown::Part(&["mappings", "60000"]),
        run: |stage| stage.said(ROOMY, &["mappings", "60000"]),
    },
    Scenario {
        id: "H49-symlinks",
        title: "100,000 long links in /tmp",
        control: Shown::Part(&["symlinks", "100000", "PLACE"]),
        run: |stage| bounded(stage, &["symlinks", "100000", "/tmp"]),
    },
    Scenario {
        id: "H50-odd-names",
        title: "names with newlines, escapes and bytes that are no text, said aloud",
        control: Shown::Behaviour,
        run: odd_names,
    },
    Scenario {
        id: "H51-short-lives",
        title: "5,000 processes one after the other under --pids 32",
        control: Shown::Part(&["short-lives", "5000"]),
        run: |stage| stage.said(&["--pids", "32"], &["short-lives", "5000"]),
    },
];

/// The report has to keep its form, and the workspace must be removable afterwards.
fn odd_names(stage: &Stage) -> Result<Finding> {
    let said = stage.said(&[], &["odd-names", "0", "/workspace"])?;
    ensure!(said.outcome == Outcome::Done, "{}", said.detail);
    let mut removed = 0;
    for entry in std::fs::read_dir(&stage.fence.workspace)? {
        let entry = entry?;
        // A device lies there too, which can be read for ever.
        let ours = entry.metadata().is_ok_and(|found| found.is_file() && found.len() == 3);
        if ours && std::fs::read(entry.path()).is_ok_and(|content| content == b"odd") {
            std::fs::remove_file(entry.path())?;
            removed += 1;
        }
    }
    finding(Outcome::Bounded, format!("{removed} names came out as they were"))
}
