//! Many sandboxes at once, each with a Python context that ran one line: the memory of each.

use super::super::memory;
use super::super::parallel;
use super::super::part::Findings;
use super::super::process::Server;
use super::{Setting, pool};
use anyhow::{Result, bail};
use std::time::{Duration, Instant};

const AT_A_TIME: usize = 50;
const MIB: f64 = 1_048_576.0;

/// Time for processes to come to rest, and for freed memory to be given back.
const SETTLE: Duration = Duration::from_secs(2);

pub async fn measure(setting: Setting<'_>, server: &Server) -> Result<Findings> {
    let mut findings = Findings::default();
    let mut caller = server.caller().await?;
    // Interpreters are forked from the pool's; of the pool's own sandboxes the fewest, which are measured with the first.
    pool::set(&mut caller, &mut findings, pool::TEMPLATE, 1, 1).await?;
    let mut live = Vec::new();
    fill(server, &mut live, 1, &mut findings).await?;
    let first = held(server, &live).await?;
    let started = Instant::now();
    fill(server, &mut live, setting.counts.crowd, &mut findings).await?;
    let filled = started.elapsed();
    let all = held(server, &live).await?;
    let others = live.len() as f64 - 1.0;
    if others < 1.0 {
        bail!("only one sandbox could be made: {}", findings.notes.join("; "));
    }
    let each = |more: f64, less: f64| (more - less) / others / MIB;
    findings.add("live sandboxes with a context", live.len() as f64, "");
    findings.add("time to make them", filled.as_secs_f64(), "s");
    findings.add("each beyond the first", each(all.inside + all.server, first.inside + first.server), "MiB");
    findings.add("of which processes inside", each(all.inside, first.inside), "MiB");
    findings.add("of which the server and its interpreters", each(all.server, first.server), "MiB");
    findings.add("each: whole machine", each(first.available, all.available), "MiB");
    findings.add("processes inside", all.processes as f64, "");
    let started = Instant::now();
    parallel::kill(server, live).await?;
    findings.add("time to kill them", started.elapsed().as_secs_f64(), "s");
    findings.notes.push(
        "Each beyond the first: growth of the proportional size (PSS, each shared page divided by its users) of all processes \
         of all sandboxes, and of the server with the processes that it started, from one sandbox to all of them, divided by \
         the others. Whole machine: what MemAvailable shrank by, with the kernel's own memory and everybody else's at work."
            .into(),
    );
    Ok(findings)
}

struct Held {
    inside: f64,
    server: f64,
    available: f64,
    processes: usize,
}

async fn held(server: &Server, live: &[String]) -> Result<Held> {
    tokio::time::sleep(SETTLE).await;
    let (processes, inside, own) =
        memory::proportional_of_sandboxes(&server.paddock.state, server.id(), live)?;
    if processes < 2 * live.len() {
        bail!("{processes} processes can be seen of {} sandboxes (another user's needs root)", live.len());
    }
    let available = memory::Machine::now()?.line("MemAvailable:");
    Ok(Held { inside: inside as f64, server: own as f64, available, processes })
}

/// Stops when the host is full.
async fn fill(server: &Server, live: &mut Vec<String>, wanted: usize, findings: &mut Findings) -> Result<()> {
    while live.len() < wanted {
        let count = AT_A_TIME.min(wanted - live.len());
        let made =
            parallel::each(server, parallel::CONNECTIONS, vec![(); count], |mut caller, ()| async move {
                let made = async {
                    let id = caller.create_from(pool::TEMPLATE).await?;
                    caller.run_code(&id, "x = 1", "").await?;
                    Ok(id)
                };
                let outcome = made.await;
                (caller, outcome)
            });
        let mut failed = false;
        for outcome in made.await? {
            match outcome {
                Ok(id) => live.push(id),
                Err(error) => {
                    if !failed {
                        findings.notes.push(format!("no more could be made: {error:#}"));
                    }
                    failed = true;
                }
            }
        }
        if failed {
            break;
        }
    }
    Ok(())
}
