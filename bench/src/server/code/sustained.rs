//! Throw-away uses without pause, from four callers, for a minute: their number, and the growth of the server.

use super::super::memory;
use super::super::part::Findings;
use super::super::process::Server;
use super::once::{Steps, once};
use super::{Setting, pool};
use crate::measure::Timing;
use anyhow::Result;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const CALLERS: usize = 4;
const POOL: (usize, usize) = (16, 64);
const MIB: f64 = 1_048_576.0;

struct Done {
    samples: Vec<Duration>,
    failures: Vec<String>,
}

pub async fn measure(setting: Setting<'_>, server: &Server) -> Result<Findings> {
    let mut findings = Findings::default();
    let mut caller = server.caller().await?;
    pool::set(&mut caller, &mut findings, pool::TEMPLATE, POOL.0, POOL.1).await?;
    // Things that are made once, such as buffers and connections, are not growth.
    let settled = setting.counts.sustained / 6;
    work(server, settled).await?;
    let before = memory::resident(server.id())? as f64 / MIB;
    let started = Instant::now();
    let done = work(server, setting.counts.sustained).await?;
    let elapsed = started.elapsed().as_secs_f64();
    let after = memory::resident(server.id())? as f64 / MIB;
    findings.add("per second", done.samples.len() as f64 / elapsed, "/s");
    findings.add("in all", done.samples.len() as f64, "");
    findings.add("failed", done.failures.len() as f64, "");
    findings.add("server, resident at the begin", before, "MiB");
    findings.add("server, resident at the end", after, "MiB");
    findings.add(
        "growth for each thousand",
        (after - before) * 1_000.0 / done.samples.len().max(1) as f64,
        "MiB",
    );
    findings.add("growth of the server", (after - before) * 100.0 / before, "%");
    pool::count(&mut caller, &mut findings, pool::TEMPLATE).await;
    findings.timings = vec![Timing::new("create, run_code and kill", String::new(), done.samples)];
    findings.notes.extend(done.failures.iter().take(5).map(|failure| format!("failed: {failure}")));
    findings.notes.push(format!(
        "{CALLERS} callers for {:.0} s, after {:.0} s of the same that do not count.",
        setting.counts.sustained.as_secs_f64(),
        settled.as_secs_f64()
    ));
    Ok(findings)
}

async fn work(server: &Server, time: Duration) -> Result<Done> {
    let until = Instant::now() + time;
    let mut workers = JoinSet::new();
    for _ in 0..CALLERS {
        let mut caller = server.caller().await?;
        workers.spawn(async move {
            let mut done = Done { samples: Vec::new(), failures: Vec::new() };
            while Instant::now() < until {
                match once(&mut caller, pool::TEMPLATE, "print(1)", &mut Steps::default()).await {
                    Ok(elapsed) => done.samples.push(elapsed),
                    Err(error) => {
                        done.failures.push(format!("{error:#}"));
                        // A caller that cannot go on must not count its failures by the million.
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                }
            }
            done
        });
    }
    let mut all = Done { samples: Vec::new(), failures: Vec::new() };
    while let Some(done) = workers.join_next().await {
        let done = done?;
        all.samples.extend(done.samples);
        all.failures.extend(done.failures);
    }
    Ok(all)
}
