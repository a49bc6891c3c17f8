//! The server: `paddock serve` with a state directory of its own, called over HTTP as an SDK calls it.
//!
//! - [`part`]: the parts that can be measured, and their findings
//! - [`process`]: the server from its start to its end
//! - [`client`], [`calls`]: HTTP/1.1 over a unix socket or TCP, and the calls that are measured
//! - [`parallel`]: many calls on several connections
//! - [`memory`]: the numbers of /proc for processes and for the host
//! - [`first`], [`warm`], [`burst`], [`crowd`], [`stream`], [`fork`], [`recovery`]: one part each
//! - [`gate`]: the network of a sandbox; [`volumes`], [`scripts`]: files that outlive it; [`jobs`]: a queue of work;
//!   [`machines`]: kernels of their own; [`live_fork`]: forks that remember
//! - [`agents`]: the time that tools and MCP add to a call
//! - [`laptop`]: one person with the SDK; [`e2b`]: a program that was written for E2B; [`inspect`]: an evaluation; [`run_code`]: rewards for code; [`dashboard`]: an open page;
//!   [`scale`]: thousands of sandboxes, many clients
//! - [`code`]: run_code, with pools, beside other products that run Python
//! - [`remains`]: the remains of killed sandboxes
//! - [`promises`]: the targets, against the findings

mod agents;
mod burst;
mod calls;
mod client;
mod code;
mod crowd;
mod dashboard;
mod e2b;
mod first;
mod fork;
mod frameworks;
mod gate;
mod inspect;
mod jobs;
mod laptop;
mod live_fork;
mod machines;
mod memory;
mod parallel;
mod part;
mod process;
mod promises;
mod recovery;
mod remains;
mod run_code;
mod scale;
mod scripts;
mod stream;
mod volumes;
mod warm;

pub use code::{Counts, Setting};
pub use part::{Curve, Fact, Findings, Measured, Part};
pub use promises::{format, judge};

use crate::contestants::Field;
use crate::interrupt;
use anyhow::{Context, Result, bail};
use process::{Ready, Server};
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// The time for one part; several times the need of a slow host.
const PART_TIMEOUT: Duration = Duration::from_secs(120);
/// A thousand interpreters are started; a minute is measured whole; emulated VMs take their time.
const PATIENCE_WITH_CODE: Duration = Duration::from_secs(400);

/// Twenty thousand are made and killed; a soak takes as long as it was told.
const PATIENCE_AT_SCALE: Duration = Duration::from_secs(600);
/// Threads that call where many clients do: fewer than processors, which the server needs.
const CALLING_THREADS: usize = 4;

/// Each part has a fresh server. A part that fails is reported with its reason, and the others are still measured.
pub fn measure(
    setting: Setting<'_>,
    paddock: &Path,
    mut field: Option<Field>,
    parts: &[Part],
) -> Result<Vec<Measured>> {
    let mut all = Vec::new();
    for &part in parts {
        eprintln!("{}: {}", part.name(), part.title());
        // The other parts are not measured beside a daemon of docker's.
        if !part.has_peers() {
            field = None;
        }
        let runtime = runtime(part)?;
        let outcome = runtime.block_on(one(setting, paddock, field.as_ref(), part));
        interrupt::check()?;
        if let Err(error) = &outcome {
            eprintln!("{}: {error:#}", part.name());
        }
        all.push(Measured { part, outcome });
    }
    Ok(all)
}

fn runtime(part: Part) -> Result<Runtime> {
    let threads =
        std::thread::available_parallelism().map_or(1, usize::from).div_ceil(4).min(CALLING_THREADS);
    let mut builder = match part.is_scale() {
        true => Builder::new_multi_thread(),
        false => Builder::new_current_thread(),
    };
    Ok(builder.worker_threads(threads).enable_all().build()?)
}

async fn one(setting: Setting<'_>, paddock: &Path, beside: Option<&Field>, part: Part) -> Result<Findings> {
    let ready = if part == Part::Laptop { Ready::ByDemand } else { Ready::Nothing };
    let mut server = Server::start(setting.scratch, paddock, part.name(), ready).await?;
    let patience = if part.is_scale() {
        PATIENCE_AT_SCALE + setting.soak
    } else if part.is_code()
        || matches!(part, Part::Machines | Part::LiveFork | Part::Inspect | Part::Dashboard)
    {
        PATIENCE_WITH_CODE
    } else {
        PART_TIMEOUT
    };
    let outcome = tokio::select! {
        outcome = run(setting, &mut server, beside, part) => outcome,
        error = out_of_patience(patience) => Err(error),
    };
    if part.is_code() || part.is_scale() || part == Part::RunCode {
        code::remove_pools(&server).await;
    }
    // In any case: sandboxes outlive their server.
    let ended = remains::kill_all(&server).await;
    if ended.is_err() && server.crash_and_restart().await.is_ok() {
        let _ = remains::kill_all(&server).await;
    }
    let remains = remains::look(&server).await;
    let stopped = server.stop();
    let mut findings = outcome?;
    ended.context("sandboxes could not be killed at the end")?;
    stopped.context("the server did not end as it was asked to")?;
    findings.left = remains?;
    findings.left.extend(remains::mounts(&server));
    Ok(findings)
}

async fn run(
    setting: Setting<'_>,
    server: &mut Server,
    beside: Option<&Field>,
    part: Part,
) -> Result<Findings> {
    match part {
        Part::First => first::measure(server, beside).await,
        Part::Warm => warm::measure(server).await,
        Part::Burst => burst::measure(server).await,
        Part::Crowd => crowd::measure(server).await,
        Part::Stream => stream::measure(server).await,
        Part::Fork => fork::measure(server).await,
        Part::Recovery => recovery::measure(server).await,
        Part::Gate => gate::measure(server).await,
        Part::AgentsMcp | Part::AgentsHandle => agents::measure(server, part).await,
        Part::Volumes => volumes::measure(server).await,
        Part::Jobs => jobs::measure(server).await,
        Part::Machines => machines::measure(server, beside).await,
        Part::LiveFork => live_fork::measure(server).await,
        Part::Laptop => laptop::measure(setting, server).await,
        Part::E2b => e2b::measure(setting, server).await,
        Part::Inspect => inspect::measure(setting, server).await,
        Part::RunCode => run_code::measure(setting, server).await,
        Part::Dashboard => dashboard::measure(server).await,
        _ if part.is_scale() => scale::measure(setting, server, part).await,
        Part::GateIdle => gate::measure_idle(server, setting.counts.crowd).await,
        _ => code::measure(setting, server, beside, part).await,
    }
}

/// Ends with the reason to stop waiting; never without one.
async fn out_of_patience(patience: Duration) -> anyhow::Error {
    let until = Instant::now() + patience;
    loop {
        tokio::time::sleep(Duration::from_millis(250)).await;
        let checked = interrupt::check().and_then(|()| match Instant::now() < until {
            true => Ok(()),
            false => bail!("not done after {patience:?}"),
        });
        if let Err(error) = checked {
            return error;
        }
    }
}
