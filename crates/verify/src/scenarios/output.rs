//! E7, E12: more output than anyone keeps, and more input than a command line takes.

use super::{Scenario, Shown, Stage, finding};
use crate::attack::{Finding, Outcome};
use crate::fence::{finish, inside, start};
use anyhow::{Result, ensure};
use std::os::unix::process::CommandExt;
use std::time::Duration;

/// The most bytes that the paddock process may have resident, with any amount of output.
const FLAT: u64 = 64 << 20;
const FLOOD_MEBIBYTES: u64 = 256;

pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        id: "E7-flood-stdout",
        title: "a line of 256 MiB under --output 1MiB",
        control: Shown::Behaviour,
        run: |stage| flood(stage, "flood-out"),
    },
    Scenario {
        id: "E7-flood-stderr",
        title: "256 MiB of empty lines on stderr",
        control: Shown::Behaviour,
        run: |stage| flood(stage, "flood-err"),
    },
    Scenario {
        id: "E7-stopped-reader",
        title: "a flood that nobody reads, until the time limit",
        control: Shown::Behaviour,
        run: stopped_reader,
    },
    Scenario { id: "E12-arguments", title: "2 MiB of arguments", control: Shown::Behaviour, run: arguments },
    Scenario {
        id: "E12-environment",
        title: "100,000 variables",
        control: Shown::Behaviour,
        run: environment,
    },
];

fn flood(stage: &Stage, part: &str) -> Result<Finding> {
    let amount = FLOOD_MEBIBYTES.to_string();
    let run = stage.part(&["--output", "1MiB", "--timeout", "30s"], &[part, &amount])?;
    let report = run.report()?;
    ensure!(report.exit_code == 0, "exit {} ({:?})", report.exit_code, report.cause);
    let (kept, missing) = match part {
        "flood-out" => (report.stdout.len(), report.stdout_missing_bytes),
        _ => (report.stderr.len(), report.stderr_missing_bytes),
    };
    ensure!(kept < 1_200_000, "kept {kept} bytes");
    ensure!(missing == (FLOOD_MEBIBYTES - 1) << 20, "says that {missing} bytes are missing");
    let resident = run.peak_resident >> 20;
    let outcome = if run.peak_resident < FLAT { Outcome::Bounded } else { Outcome::Done };
    finding(outcome, format!("{resident} MiB resident, {:?}", run.wall))
}

fn stopped_reader(stage: &Stage) -> Result<Finding> {
    let flood = inside(&["--do", "flood-out", "4096"]);
    let command = stage.fence.command(stage.host, false, &["--timeout", "2s"], &flood);
    let started = start(command)?;
    let pid = started.child.id();
    std::thread::sleep(Duration::from_millis(1500));
    let resident = most_resident(pid);
    // No byte was read so far; the limit has to come all the same once reading begins.
    std::thread::sleep(Duration::from_millis(1500));
    let run = finish(started)?;
    ensure!(run.status.code() == Some(124), "ended with {}, stderr {:?}", run.status, run.stderr.trim());
    ensure!(run.wall < Duration::from_secs(30) + stage.grace, "took {:?}", run.wall);
    let outcome = if resident.is_some_and(|r| r < FLAT) { Outcome::Bounded } else { Outcome::Done };
    finding(outcome, format!("{resident:?} bytes resident, {:?}", run.wall))
}

fn most_resident(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

/// Paddock's own refusal: 125 and a reason, and no command run.
fn refused(run: &crate::fence::Run) -> Result<Finding> {
    let reason = run.stderr.trim().chars().take(200).collect::<String>();
    ensure!(!run.stderr.contains("panicked"), "panicked: {reason}");
    if run.status.code() == Some(125) && !reason.is_empty() {
        return finding(Outcome::Denied, reason);
    }
    finding(Outcome::Done, format!("ended with {}, stderr {reason:?}", run.status))
}

fn arguments(stage: &Stage) -> Result<Finding> {
    let long = "a".repeat(100_000);
    let mut inside = vec!["/bin/true"];
    inside.extend(std::iter::repeat_n(long.as_str(), 21));
    let mut command = stage.fence.command(stage.host, true, &[], &inside);
    // The kernel allows arguments a quarter of the stack: enough for paddock to be given them. The sandbox's
    // own stack limit is the usual one.
    // SAFETY: only async-signal-safe calls between fork and exec.
    unsafe {
        command.pre_exec(|| {
            let limit = libc::rlimit { rlim_cur: 64 << 20, rlim_max: libc::RLIM_INFINITY };
            match libc::setrlimit(libc::RLIMIT_STACK, &raw const limit) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
    refused(&finish(start(command)?)?)
}

fn environment(stage: &Stage) -> Result<Finding> {
    let file = stage.fence.home.join("many-variables");
    let text: String = (0..100_000).map(|n| format!("VARIABLE_NUMBER_{n}=some value or other\n")).collect();
    std::fs::write(&file, text)?;
    let file = file.display().to_string();
    refused(&stage.fence.run(stage.host, &["--env-file", &file], &["/bin/true"])?)
}
