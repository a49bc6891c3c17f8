//! A thousand idle sandboxes: the memory of each, and the server's speed beside them.

use super::calls::{Caller, timed};
use super::memory::{self, Machine};
use super::parallel;
use super::part::Findings;
use super::process::Server;
use crate::measure::Timing;
use anyhow::{Result, bail};
use hyper::Method;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const WANTED: usize = 1_000;
const AT_A_TIME: usize = 100;
const ROUNDS: usize = 200;
const LIST: &str = "/v1/sandboxes?limit=100";
const MIB: f64 = 1_048_576.0;

/// Time for processes to come to rest, and for freed memory to be given back.
const SETTLE: Duration = Duration::from_secs(2);

const KERNEL: [(&str, &str); 5] = [
    ("Slab:", "of which kernel objects (Slab)"),
    ("KernelStack:", "of which kernel stacks"),
    ("PageTables:", "of which page tables"),
    ("Percpu:", "of which per-processor memory"),
    ("AnonPages:", "of which pages of processes"),
];

/// All of it at one moment.
struct Held {
    /// An ordinary user cannot see processes of another user.
    processes: Result<Processes>,
    machine: Machine,
}

/// Proportional sizes.
struct Processes {
    guests: f64,
    server: f64,
}

pub async fn measure(server: &Server) -> Result<Findings> {
    let mut findings = Findings::default();
    let mut live = parallel::create(server, 1).await?;
    let first = held(server, live.len()).await?;
    let started = Instant::now();
    fill(server, &mut live, &mut findings).await?;
    let filled = started.elapsed();
    let all = held(server, live.len()).await?;
    findings.add("live sandboxes", live.len() as f64, "");
    findings.add("time to create them", filled.as_secs_f64(), "s");
    memory_of_each(&mut findings, &first, &all, live.len() as f64 - 1.0);
    findings.add("server, resident", memory::resident(server.id())? as f64 / MIB, "MiB");
    let mut caller = server.caller().await?;
    findings.timings = vec![
        time(&mut caller, "list of 100", |_| LIST.into()).await?,
        time(&mut caller, "get", |round| format!("/v1/sandboxes/{}", live[round * 7 % live.len()])).await?,
    ];
    let (killed, ()) = timed(parallel::kill(server, live)).await?;
    findings.add("time to kill them", killed.as_secs_f64(), "s");
    findings.timings.push(time(&mut caller, "list when all have ended", |_| LIST.into()).await?);
    Ok(findings)
}

/// Stops when the host is full.
pub async fn fill(server: &Server, live: &mut Vec<String>, findings: &mut Findings) -> Result<()> {
    while live.len() < WANTED {
        let count = AT_A_TIME.min(WANTED - live.len());
        let creates =
            parallel::each(server, parallel::CONNECTIONS, vec![(); count], |mut caller, ()| async move {
                let outcome = caller.create().await;
                (caller, outcome)
            });
        for outcome in creates.await? {
            match outcome {
                Ok(id) => live.push(id),
                Err(error) => findings.notes.push(format!("no more could be created: {error:#}")),
            }
        }
        if !findings.notes.is_empty() {
            findings.notes.truncate(1);
            break;
        }
    }
    if live.len() < 2 {
        bail!("only {} could be created: {}", live.len(), findings.notes.join("; "));
    }
    Ok(())
}

async fn held(server: &Server, sandboxes: usize) -> Result<Held> {
    tokio::time::sleep(SETTLE).await;
    Ok(Held { processes: processes(server, sandboxes), machine: Machine::now()? })
}

fn processes(server: &Server, sandboxes: usize) -> Result<Processes> {
    let (count, guests) = memory::proportional_of_guests(&server.paddock.state)?;
    if count < sandboxes {
        bail!("{count} guests can be seen of {sandboxes} sandboxes (another user's needs root)");
    }
    let server = memory::proportional(&PathBuf::from(format!("/proc/{}", server.id())))?;
    Ok(Processes { guests: guests as f64, server: server as f64 })
}

fn memory_of_each(findings: &mut Findings, first: &Held, all: &Held, others: f64) {
    let each = |more: f64, less: f64| (more - less) / others / MIB;
    match (&first.processes, &all.processes) {
        (Ok(first), Ok(all)) => {
            let (guest, server) = (each(all.guests, first.guests), each(all.server, first.server));
            findings.add("each: processes", guest + server, "MiB");
            findings.add("of which the guest", guest, "MiB");
            findings.add("of which the server", server, "MiB");
        }
        (Err(error), _) | (_, Err(error)) => {
            findings.notes.push(format!("memory of the processes: not measured: {error:#}"));
        }
    }
    let available = each(first.machine.line("MemAvailable:"), all.machine.line("MemAvailable:"));
    findings.add("each: whole machine", available, "MiB");
    for (key, name) in KERNEL {
        findings.add(name, each(all.machine.line(key), first.machine.line(key)), "MiB");
    }
    findings.notes.push(
        "Memory of each sandbox beyond the first, in two ways. Processes: growth of the proportional size (PSS) of all \
         guests and of the server; the kernel's own memory is not in it. Whole machine: what MemAvailable shrank by; \
         the kernel's memory and everybody else's at work are in it."
            .into(),
    );
}

/// The time until the whole answer was received; the caller's parsing is not counted.
async fn time(caller: &mut Caller, name: &'static str, path: impl Fn(usize) -> String) -> Result<Timing> {
    let mut samples = Vec::with_capacity(ROUNDS);
    for round in 0..ROUNDS {
        samples.push(timed(caller.client.call(Method::GET, &path(round), "")).await?.0);
    }
    Ok(Timing::new(name, String::new(), samples))
}
