//! The time of each call with more and more live sandboxes, and the memory of each sandbox.

use super::super::calls::{Caller, timed};
use super::super::memory::{self, Machine};
use super::super::parallel;
use super::super::part::{Curve, Findings};
use super::super::process::Server;
use super::super::{PATIENCE_AT_SCALE, Setting};
use super::{clients, floor, milliseconds};
use crate::measure::Timing;
use anyhow::{Result, bail};
use hyper::Method;
use std::time::{Duration, Instant};

/// Live sandboxes at which the calls are measured, as far as `--live` goes; `--live` itself is the last point.
const POINTS: [usize; 6] = [0, 100, 1_000, 5_000, 10_000, 20_000];
const ROUNDS: usize = 40;
const METRICS_ROUNDS: usize = 10;
const RUN_ROUNDS: usize = 20;
/// So that one that hits a limit of the host is noticed soon.
const AT_A_TIME: usize = 250;
const LIST: &str = "/v1/sandboxes?limit=100";
const MIB: f64 = 1_048_576.0;
const KIB: f64 = 1_024.0;
/// Time for the kernel to give back the memory of the last calls.
const SETTLE: Duration = Duration::from_secs(1);

const COLUMNS: [&str; 12] = [
    "filled, /s",
    "create, ms",
    "create p99",
    "exec, ms",
    "kill, ms",
    "list of 100, ms",
    "metrics, ms",
    "`paddock run`, ms",
    "bare `unshare`, ms",
    "host, MiB each",
    "server, KiB each",
    "descriptors each",
];

/// Medians in the order of [`COLUMNS`], from `create` on.
struct Calls {
    create: Timing,
    exec: Timing,
    kill: Timing,
    list: Timing,
    metrics: Timing,
    run: Timing,
    bare: Option<Timing>,
}

/// The numbers with no live sandbox, from which the growth of each is counted.
struct Empty {
    available: f64,
    resident: f64,
    descriptors: f64,
}

pub async fn measure(setting: Setting<'_>, server: &mut Server) -> Result<Findings> {
    let mut findings = Findings::default();
    let mut curve = Curve { along: "live", columns: COLUMNS.to_vec(), points: Vec::new() };
    let mut live = Vec::new();
    // Things that are made once, such as the guest's executable and the storage, are there before anything is timed.
    parallel::kill(server, parallel::create(server, clients()).await?).await?;
    tokio::time::sleep(SETTLE).await;
    let empty = empty(server)?;
    let mut first: Option<Calls> = None;
    let mut slowest_fill = f64::INFINITY;
    for point in points(setting.live) {
        let wanted = point - live.len();
        let began = Instant::now();
        let refused = fill(server, &mut live, point).await?;
        let filled = (wanted > 0).then(|| wanted as f64 / began.elapsed().as_secs_f64());
        if let Some(refused) = refused {
            findings.notes.push(format!("No more than {} could live: {refused}", live.len()));
            break;
        }
        slowest_fill = filled.unwrap_or(slowest_fill).min(slowest_fill);
        tokio::time::sleep(SETTLE).await;
        let held = held(server, &empty, live.len())?;
        let calls = calls(server, &mut findings).await?;
        eprintln!("  {point} live: create {:.2} ms", milliseconds(calls.create.median()));
        curve.points.push((point, row(filled, &calls, held)));
        match &first {
            None => first = Some(calls),
            Some(first) => compare(&mut findings, first, &calls),
        }
    }
    let [host, of_server, descriptors] = held(server, &empty, live.len())?;
    findings.add("live sandboxes", live.len() as f64, "");
    findings.add("filling, slowest stretch", slowest_fill, "/s");
    findings.add("each: of the host", host.unwrap_or_default(), "MiB");
    findings.add("each: of the server", of_server.unwrap_or_default(), "KiB");
    findings.add("each: descriptors of the server", descriptors.unwrap_or_default(), "");
    restart(server, &mut findings, live.len()).await?;
    let (killed, ()) = timed(parallel::kill(server, live)).await?;
    findings.add("killing all", killed.as_secs_f64(), "s");
    findings.curve = Some(curve);
    findings.notes.push(format!(
        "One caller, {ROUNDS} rounds at each point, medians; `filled` by {} callers. `bare unshare`: util-linux's, with the same \
         namespaces and nothing else. `host`: what MemAvailable shrank by since the first point, divided by the live sandboxes: kernel \
         memory and per-processor counters are in it, and everybody else's work. The part ends after {} s.",
        clients(),
        PATIENCE_AT_SCALE.as_secs()
    ));
    Ok(findings)
}

/// In ascending order, `live` the last.
fn points(live: usize) -> impl Iterator<Item = usize> {
    POINTS.into_iter().filter(move |point| *point < live).chain([live])
}

/// The reason, where the host or the server takes no more.
async fn fill(server: &Server, live: &mut Vec<String>, wanted: usize) -> Result<Option<String>> {
    while live.len() < wanted {
        let count = AT_A_TIME.min(wanted - live.len());
        let creates = parallel::each(server, clients(), vec![(); count], |mut caller, ()| async move {
            let outcome = caller.create().await;
            (caller, outcome)
        });
        let mut refused = None;
        for outcome in creates.await? {
            match outcome {
                Ok(id) => live.push(id),
                Err(error) => refused = Some(format!("{error:#}")),
            }
        }
        if refused.is_some() {
            return Ok(refused);
        }
    }
    Ok(None)
}

async fn calls(server: &Server, findings: &mut Findings) -> Result<Calls> {
    let mut caller = server.caller().await?;
    let (mut create, mut exec, mut kill, mut list) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (elapsed, id) = timed(caller.create()).await?;
        create.push(elapsed);
        exec.push(timed(caller.exec(&id, &["true"])).await?.0);
        kill.push(timed(caller.kill(&id)).await?.0);
        list.push(read(&mut caller, LIST).await?);
    }
    let mut metrics = Vec::new();
    for _ in 0..METRICS_ROUNDS {
        metrics.push(read(&mut caller, "/metrics").await?);
    }
    let run = floor::paddock_run(&server.paddock, RUN_ROUNDS)?;
    let bare = match floor::bare(RUN_ROUNDS) {
        Ok(times) => Some(Timing::new("bare", String::new(), times)),
        Err(error) => {
            let note = format!("`unshare` was not measured beside it: {error:#}.");
            if !findings.notes.contains(&note) {
                findings.notes.push(note);
            }
            None
        }
    };
    let named = |name, samples| Timing::new(name, String::new(), samples);
    Ok(Calls {
        create: named("create", create),
        exec: named("exec", exec),
        kill: named("kill", kill),
        list: named("list", list),
        metrics: named("metrics", metrics),
        run: named("run", run),
        bare,
    })
}

async fn read(caller: &mut Caller, path: &str) -> Result<Duration> {
    Ok(timed(caller.client.call(Method::GET, path, "")).await?.0)
}

fn row(filled: Option<f64>, calls: &Calls, held: [Option<f64>; 3]) -> Vec<Option<f64>> {
    let median = |timing: &Timing| Some(milliseconds(timing.median()));
    let mut row = vec![filled, median(&calls.create), Some(milliseconds(calls.create.percentile(99)))];
    row.extend([&calls.exec, &calls.kill, &calls.list, &calls.metrics, &calls.run].map(median));
    row.push(calls.bare.as_ref().and_then(median));
    row.extend(held);
    row
}

/// The ratio of the last point to the first; a later point replaces an earlier finding.
fn compare(findings: &mut Findings, first: &Calls, last: &Calls) {
    let pairs = [
        ("create, beside none live", &first.create, &last.create),
        ("exec, beside none live", &first.exec, &last.exec),
        ("kill, beside none live", &first.kill, &last.kill),
        ("metrics, beside none live", &first.metrics, &last.metrics),
        ("`paddock run`, beside none live", &first.run, &last.run),
    ];
    findings.facts.retain(|fact| !pairs.iter().any(|(name, ..)| fact.name == *name));
    for (name, first, last) in pairs {
        findings.add(name, last.median().as_secs_f64() / first.median().as_secs_f64(), "x");
    }
}

fn empty(server: &Server) -> Result<Empty> {
    Ok(Empty {
        available: Machine::now()?.line("MemAvailable:"),
        resident: memory::resident(server.id())? as f64,
        descriptors: descriptors(server)?,
    })
}

/// MiB of the host, KiB of the server, descriptors of the server: of each.
fn held(server: &Server, empty: &Empty, live: usize) -> Result<[Option<f64>; 3]> {
    if live == 0 {
        return Ok([None; 3]);
    }
    let now = self::empty(server)?;
    let each = live as f64;
    Ok([
        Some((empty.available - now.available) / each / MIB),
        Some((now.resident - empty.resident) / each / KIB),
        Some((now.descriptors - empty.descriptors) / each),
    ])
}

fn descriptors(server: &Server) -> Result<f64> {
    Ok(std::fs::read_dir(format!("/proc/{}/fd", server.id()))?.count() as f64)
}

async fn restart(server: &mut Server, findings: &mut Findings, live: usize) -> Result<()> {
    let ready = server.crash_and_restart().await?;
    let found = server.caller().await?.live().await?.len();
    findings.add("start with all of them after kill -9", ready.as_secs_f64(), "s");
    findings.add("lost by the kill", live as f64 - found as f64, "");
    if found > live {
        bail!("{found} live after the restart, where {live} were created");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::points;

    #[test]
    fn the_wanted_number_is_the_last_point() {
        assert_eq!(points(2_000).collect::<Vec<_>>(), [0, 100, 1_000, 2_000]);
        assert_eq!(points(1_000).collect::<Vec<_>>(), [0, 100, 1_000]);
        assert_eq!(points(20_000).count(), 6);
    }
}
