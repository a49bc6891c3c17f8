//! How fast the kernel and Python alone could do Paddock's work: the least that any fence of this kind needs, by a
//! small program that does nothing else. A target below this cannot be reached on this host.

use super::super::part::Findings;
use super::super::process::Server;
use super::once::{Steps, once};
use super::{Setting, pool};
use crate::measure::Timing;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

const PROGRAM: &str = include_str!("floor.py");
const PYTHON: &str = "/usr/bin/python3";

pub async fn measure(setting: Setting<'_>, server: &Server) -> Result<Findings> {
    // So that the later look for remains has a sandbox to look for.
    once(&mut server.caller().await?, pool::TEMPLATE, "print(1)", &mut Steps::default()).await?;
    if !rustix::process::geteuid().is_root() {
        bail!("it makes cgroups: only as root");
    }
    let directory = setting.scratch.directory("floor")?;
    let program = directory.join("floor.py");
    std::fs::write(&program, PROGRAM)?;
    let root = directory.join("root");
    std::fs::create_dir_all(&root)?;
    let time = setting.counts.sustained / 6;
    let processors = available_parallelism()?.get();
    let (alone, _) = run(&program, &root, time, 1)?;
    let (together, elapsed) = run(&program, &root, time, processors)?;
    let mut findings = Findings::default();
    findings.add("per second, on all processors", together.len() as f64 / elapsed.as_secs_f64(), "/s");
    findings.timings = vec![
        Timing::new("one after the other", String::new(), alone),
        Timing::new("on all processors", String::new(), together),
    ];
    findings.notes.push(format!(
        "An interpreter that is there already is forked into seven namespaces, cgroups and a root of its own, prints, and is \
         ended: no server, guest, disk, record, audit or check. {processors} programs at once for {:.0} s.",
        time.as_secs_f64()
    ));
    Ok(findings)
}

/// How long each took that `count` programs did, and how long all of them were at it.
fn run(program: &Path, root: &Path, time: Duration, count: usize) -> Result<(Vec<Duration>, Duration)> {
    let started = Instant::now();
    let programs: Vec<_> = (0..count)
        .map(|_| {
            let mut command = Command::new(PYTHON);
            command.arg(program).arg(root).arg(time.as_secs_f64().to_string());
            command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context(PYTHON)
        })
        .collect::<Result<_>>()?;
    let mut samples = Vec::new();
    for program in programs {
        let output = program.wait_with_output()?;
        if !output.status.success() {
            bail!("the program failed: {}", output.status);
        }
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            samples.push(Duration::from_secs_f64(line.parse().context("not a time")?));
        }
    }
    Ok((samples, started.elapsed()))
}
