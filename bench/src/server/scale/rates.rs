//! Calls of more and more clients: throw-away uses from a pool and without one, and calls to live sandboxes.

use super::super::calls::Caller;
use super::super::code::{Steps, once, pool};
use super::super::part::{Curve, Findings};
use super::super::process::Server;
use super::super::{Setting, parallel};
use super::{milliseconds, processors};
use crate::measure::Timing;
use anyhow::{Result, bail};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const CLIENTS: [usize; 5] = [1, 4, 8, 16, 32];
/// The number of clients that the goals name, and the one that must not be slower.
const GOAL: usize = 16;
const BEYOND: usize = 32;
const COLUMNS: [&str; 8] = [
    "from a pool, /s",
    "p50, ms",
    "p99, ms",
    "without a pool, /s",
    "p50, ms",
    "p99, ms",
    "warm run_code, /s",
    "warm exec, /s",
];
/// The first calls make things that later ones find, so they are not counted.
const WARM_UP: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    ThrowAway,
    RunCode,
    Exec,
}

pub async fn measure(setting: Setting<'_>, server: &Server) -> Result<Findings> {
    let mut findings = Findings::default();
    let mut caller = server.caller().await?;
    let stretch = setting.counts.sustained / 12;
    let mut rows: Vec<Vec<Option<f64>>> = vec![Vec::new(); CLIENTS.len()];
    pool::set(&mut caller, &mut findings, pool::TEMPLATE, processors() * 8, processors() * 32).await?;
    for (row, clients) in rows.iter_mut().zip(CLIENTS) {
        row.extend(rate(server, Use::ThrowAway, clients, stretch).await?.map(Some));
    }
    pool::count(&mut caller, &mut findings, pool::TEMPLATE).await;
    pool::remove_all(server).await;
    for (row, clients) in rows.iter_mut().zip(CLIENTS) {
        row.extend(rate(server, Use::ThrowAway, clients, stretch).await?.map(Some));
    }
    for what in [Use::RunCode, Use::Exec] {
        for (row, clients) in rows.iter_mut().zip(CLIENTS) {
            row.push(Some(rate(server, what, clients, stretch).await?[0]));
        }
    }
    let at = |clients: usize, column: usize| {
        let row = CLIENTS.iter().position(|one| *one == clients).map(|index| &rows[index]);
        row.and_then(|row| row[column]).unwrap_or_default()
    };
    findings.add("from a pool, 16 clients", at(GOAL, 0), "/s");
    findings.add("from a pool, 16 clients, p99", at(GOAL, 2), "ms");
    findings.add("from a pool, 32 clients beside 16", at(BEYOND, 0) / at(GOAL, 0), "x");
    findings.add("without a pool, 16 clients", at(GOAL, 3), "/s");
    findings.add("without a pool, one client, p50", at(1, 4), "ms");
    findings.add("warm run_code, 16 clients", at(GOAL, 6), "/s");
    findings.add("warm exec, 16 clients", at(GOAL, 7), "/s");
    let points = CLIENTS.into_iter().zip(rows).collect();
    findings.curve = Some(Curve { along: "clients", columns: COLUMNS.to_vec(), points });
    findings.notes.push(format!(
        "Each client has a connection of its own and calls without pause for {:.0} s, after {:.0} s that do not count. A throw-away use is \
         create, run_code('print(1)') and kill. Warm: each client has a sandbox of its own. The clients run on the same processors.",
        stretch.as_secs_f64(),
        WARM_UP.as_secs_f64()
    ));
    Ok(findings)
}

/// How many a second, p50 and p99.
async fn rate(server: &Server, what: Use, clients: usize, stretch: Duration) -> Result<[f64; 3]> {
    let sandboxes = match what {
        Use::ThrowAway => vec![String::new(); clients],
        Use::RunCode | Use::Exec => parallel::create(server, clients).await?,
    };
    let begin = Instant::now() + WARM_UP;
    let end = begin + stretch;
    let mut workers = JoinSet::new();
    for sandbox in sandboxes.clone() {
        let mut caller = server.caller().await?;
        workers.spawn(async move {
            let mut samples = Vec::new();
            while Instant::now() < end {
                let began = Instant::now();
                used(&mut caller, what, &sandbox).await?;
                if began >= begin {
                    samples.push(began.elapsed());
                }
            }
            anyhow::Ok(samples)
        });
    }
    let mut samples = Vec::new();
    while let Some(done) = workers.join_next().await {
        samples.extend(done??);
    }
    if what != Use::ThrowAway {
        parallel::kill(server, sandboxes).await?;
    }
    if samples.is_empty() {
        bail!("not one of {clients} clients was answered within {stretch:?}");
    }
    let count = samples.len() as f64;
    eprintln!("  {what:?}, {clients} clients: {:.0}/s", count / stretch.as_secs_f64());
    let timing = Timing::new("use", String::new(), samples);
    Ok([
        count / stretch.as_secs_f64(),
        milliseconds(timing.percentile(50)),
        milliseconds(timing.percentile(99)),
    ])
}

async fn used(caller: &mut Caller, what: Use, sandbox: &str) -> Result<()> {
    match what {
        Use::ThrowAway => {
            once(caller, pool::TEMPLATE, "print(1)", &mut Steps::default()).await?;
        }
        Use::RunCode => {
            caller.run_code(sandbox, "print(1)", "1\n").await?;
        }
        Use::Exec => caller.exec(sandbox, &["true"]).await?,
    }
    Ok(())
}
