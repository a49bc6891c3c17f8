//! `make bench`: Paddock beside its peers, in one run on one machine.
//!
//! - `options`: flags and the environment
//! - `contestants`, `peers/`: who runs, and what has to be set up for it
//! - `measure`, `command`: one command with a deadline; many of them, interleaved
//! - `footprint`, `leftovers`: the guest's size and memory; what 200 runs leave behind
//! - `targets`: the promises, and whether this run kept them
//! - `report/`: the table on the terminal, `run.md` and `run.json`
//!
//! A missed target is said plainly and is no failure: timings of a shared machine decide nothing.

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
mod targets;

use anyhow::{Context, Result, bail};
use options::Options;
use report::Report;
use scratch::Scratch;
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
    let machine = machine::describe(&options.paddock);
    let installed = peers::install::missing(options.install);
    let field = contestants::Field::assemble(&scratch, &options.paddock, installed.as_deref())?;
    let build = field.paddock.identity()?;

    let mut races = Vec::new();
    for &workload in &options.workloads {
        races.push(measure::race(&field, workload, options.rounds)?);
    }
    let guest = footprint::measure(&field.paddock);
    let leftovers = leftovers::after_runs(&field.paddock, leftovers::RUNS)?;
    if field.paddock.identity()? != build {
        bail!("another paddock was put in the place of the measured one meanwhile; run again");
    }
    let targets = targets::judge(&races, &guest, &leftovers);
    let report = Report { machine, races, guest, leftovers, targets };
    // The peers are stopped before anything is said to be done.
    drop(field);

    print!("{}", report.markdown());
    let written = report.write(&options.results)?;
    eprintln!("written: {}", written.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", "));
    Ok(())
}
