//! `make bench`: Paddock beside its peers, in one run on one host.
//!
//! - `options`: flags and the environment
//! - `contestants`, `peers/`: the contestants, and the setup of each
//! - `measure`, `command`: one command with a deadline; many of them, interleaved
//! - `footprint`, `leftovers`: the guest's size and memory; the remains of 200 runs
//! - `targets`: the promises, and the verdict of this run
//! - `server/`: `paddock serve` and its sandboxes, over HTTP
//! - `report/`: the tables on the terminal, `run.md`, `server.md`, `gate.md`, `agents.md`, `volumes.md`, `jobs.md`, `microvm.md`, `live-fork.md`, `laptop.md`, `e2b.md`, `inspect.md`, `run-code.md`, `dashboard.md`, `scale.md` and `code.md`, each with a `.json`, and a plot
//!
//! A missed target is said plainly and is no failure: timings of a shared host decide nothing.

mod command;
mod contestants;
mod footprint;
mod interrupt;
mod leftovers;
mod machine;
mod measure;
mod options;
mod peers;
mod report;
mod scratch;
mod server;
mod targets;

use anyhow::{Context, Result};
use contestants::Field;
use machine::Machine;
use options::Options;
use report::{CodeReport, Report, ServerReport};
use scratch::Scratch;
use server::{Counts, Part, Setting};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let outcome = Options::from_process().and_then(|options| match options {
        Some(options) => bench(&options),
        None => Ok(()),
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("paddock-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn bench(options: &Options) -> Result<()> {
    interrupt::watch();
    let scratch = Scratch::new().context("temporary directory")?;
    let paddock = &installed(&scratch, &options.paddock)?;
    let assemble = || {
        let missing = peers::install::missing(options.install);
        Field::assemble(&scratch, paddock, missing.as_deref())
    };
    let mut field = None;
    if !options.workloads.is_empty() || options.parts.contains(&Part::First) {
        field = Some(assemble()?);
    }
    if let Some(field) = field.as_ref().filter(|_| !options.workloads.is_empty()) {
        let report = run(field, machine::describe(paddock), options)?;
        print!("{}", report.markdown());
        say(report.write(&options.results)?);
    }
    let setting = Setting {
        scratch: &scratch,
        counts: Counts::new(options.quick),
        live: options.live,
        soak: options.soak,
        install: options.install,
    };
    let of =
        |group: &str| options.parts.iter().copied().filter(|part| part.group() == group).collect::<Vec<_>>();
    let code = of("code");
    let titles = [
        ("server", "the server"),
        ("gate", "the gate"),
        ("agents", "what agents call"),
        ("volumes", "volumes"),
        ("jobs", "jobs"),
        ("microvm", "kernels of their own"),
        ("live-fork", "forks that remember"),
        ("laptop", "the first minute"),
        ("e2b", "programs that were written for E2B"),
        ("inspect", "samples of an evaluation"),
        ("run-code", "rewards for code"),
        ("dashboard", "the dashboard"),
        ("scale", "thousands of sandboxes"),
    ];
    for (group, title) in titles {
        let parts = of(group);
        if parts.is_empty() {
            continue;
        }
        let machine = machine::describe(paddock);
        let beside = match field.take() {
            None if parts.iter().any(|part| part.has_peers()) => Some(assemble()?),
            taken => taken,
        };
        // The peers are stopped before anything is said to be done.
        let measured = server::measure(setting, paddock, beside, &parts)?;
        let targets = server::judge(&measured);
        let report = ServerReport { group, title, machine, measured, targets };
        print!("{}", report.markdown());
        say(report.write(&options.results)?);
    }
    drop(field);
    if !code.is_empty() {
        let machine = machine::describe(paddock);
        let field = code.iter().any(|part| part.has_peers()).then(assemble).transpose()?;
        let measured = server::measure(setting, paddock, field, &code)?;
        let targets = server::judge(&measured);
        let report = CodeReport { machine, measured, targets, quick: options.quick };
        print!("{}", report.markdown());
        report.write(&options.results, options.repository.as_deref())?.iter().for_each(|path| tell(path));
    }
    Ok(())
}

fn tell(path: &Path) {
    eprintln!("written: {}", path.display());
}

/// A copy, as an installation makes one and as the peers have: a file that a linker has just written lies in the page
/// cache in small pieces, which makes every start of it half a millisecond longer. It also stays the same while a
/// build goes on.
fn installed(scratch: &Scratch, paddock: &Path) -> Result<PathBuf> {
    let copy = scratch.directory("bin")?.join("paddock");
    std::fs::copy(paddock, &copy).with_context(|| format!("copy {}", paddock.display()))?;
    Ok(copy)
}

fn run(field: &Field, machine: Machine, options: &Options) -> Result<Report> {
    let mut races = Vec::new();
    for &workload in &options.workloads {
        races.push(measure::race(field, workload, options.rounds)?);
    }
    let guest = footprint::measure(&field.paddock);
    let leftovers = leftovers::after_runs(&field.paddock, leftovers::RUNS)?;
    let targets = targets::judge(&races, &guest, &leftovers);
    Ok(Report { machine, races, guest, leftovers, targets })
}

fn say(written: impl IntoIterator<Item = PathBuf>) {
    written.into_iter().for_each(|path| tell(&path));
}
