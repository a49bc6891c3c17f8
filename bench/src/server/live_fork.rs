//! A Python context with data in it, forked as it stands: how long it stood still, when the copy answered, and its
//! memory.

use super::calls::{Caller, text, timed};
use super::part::{Findings, Part};
use super::process::Server;
use super::promises::{Limit, Promise, Source, promise};
use super::{memory, parallel};
use crate::measure::Timing;
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::time::Duration;

const MEBIBYTE: f64 = 1_048_576.0;
const ROUNDS: usize = 50;
const ROUNDS_OF_ALL_CHILDREN: usize = 3;
const CHILDREN: usize = 100;
const WEIGHED_CHILDREN: usize = 8;
const CURVE_ROUNDS: usize = 5;
const GVISOR_ROUNDS: usize = 5;
/// The kernel takes a sandbox apart for a while after it was killed.
const REST: Duration = Duration::from_millis(20);
/// The data of the size that is measured most, in MiB.
const DATA: u64 = 64;
/// The sizes of touched data, and the names of the curve's points: of a fork, and of `os.fork()` beside it.
const CURVE: [(u64, &str, &str); 5] = [
    (16, "stood still, 16 MiB", "os.fork(), 16 MiB"),
    (64, "stood still, 64 MiB", "os.fork(), 64 MiB"),
    (256, "stood still, 256 MiB", "os.fork(), 256 MiB"),
    (1024, "stood still, 1 GiB", "os.fork(), 1 GiB"),
    (4096, "stood still, 4 GiB", "os.fork(), 4 GiB"),
];
const STOOD_STILL: &str = "the source stood still";
const ANSWERED: &str = "fork, and the child answers";
const FILES: &str = "fork of the files alone";
const FORK_OF_100: &str = "fork of 100";
const PLAIN: &str = "os.fork() of the same process";
const GVISOR: &str = "gVisor: fork, and the child answers";

/// The time of `os.fork()` in the process itself, in microseconds.
const OS_FORK: &str = "\
import os, time
def once():
    began = time.perf_counter_ns()
    child = os.fork()
    if child == 0:
        os._exit(0)
    took = time.perf_counter_ns() - began
    os.waitpid(child, 0)
    return took // 1000
print(*(once() for _ in range(%)))";

pub const PROMISES: [Promise; 5] = [
    promise(
        Part::LiveFork,
        "the source stood still, 64 MiB, p50",
        "<= 5 ms",
        Source::Percentile(STOOD_STILL, 50),
        Limit::AtMost(5.0),
    ),
    promise(
        Part::LiveFork,
        "the child answers run_code after the call, p50",
        "<= 15 ms",
        Source::Percentile(ANSWERED, 50),
        Limit::AtMost(15.0),
    ),
    promise(
        Part::LiveFork,
        "100 children in one call, slowest",
        "<= 1 s",
        Source::Percentile(FORK_OF_100, 100),
        Limit::AtMost(1_000.0),
    ),
    promise(
        Part::LiveFork,
        "memory of a child beyond the shared",
        "<= 4 MiB",
        Source::Fact("each child: its own"),
        Limit::AtMost(4.0),
    ),
    promise(
        Part::LiveFork,
        "gVisor's fork with memory beside it",
        ">= 10 x",
        Source::Ratio(GVISOR, ANSWERED),
        Limit::AtLeast(10.0),
    ),
];

pub async fn measure(server: &Server) -> Result<Findings> {
    let mut caller = server.caller().await?;
    let mut findings = Findings::default();
    let source = filled(&mut caller, "process", DATA).await?;
    one_by_one(&mut caller, &source, &mut findings).await?;
    let plain = os_fork(&mut caller, &source, ROUNDS).await?;
    findings.timings.push(Timing::new(PLAIN, String::new(), plain));
    many(server, &mut caller, &source, &mut findings).await?;
    sizes(server, &mut caller, &source, &mut findings).await?;
    caller.kill(&source).await?;
    for (size, of_fork, of_plain) in CURVE {
        let source = filled(&mut caller, "process", size).await?;
        let mut still = Vec::new();
        for _ in 0..CURVE_ROUNDS {
            let (child, stood_still) = fork(&mut caller, &source).await?;
            still.push(stood_still);
            caller.kill(&child).await?;
        }
        let plain = os_fork(&mut caller, &source, CURVE_ROUNDS).await?;
        caller.kill(&source).await?;
        findings.add(of_fork, median_ms(of_fork, still), "ms");
        findings.add(of_plain, median_ms(of_plain, plain), "ms");
    }
    match beside_gvisor(&mut caller).await {
        Ok(samples) => findings.timings.push(Timing::new(GVISOR, String::new(), samples)),
        Err(error) => findings.notes.push(format!("gVisor was not measured beside it: {error:#}.")),
    }
    findings.notes.push(
        "A Python context with 64 MiB of touched bytes and a dictionary of 200,000 strings (the curve: the named size of touched bytes, and \
         the dictionary). `and the child answers`: from the call of fork to the answer of run_code in the child, which says how long the \
         dictionary is; killed before the next round, which begins 20 ms later. `stood still`: from the moment that the interpreter is stopped until it waits again, \
         as the answer of fork has it. `os.fork()`: of the same interpreter by its own code, until it goes on. `its own`: pages that no other \
         process has (private, of smaps_rollup) of the interpreters of eight children that were not called yet, and of their guests."
            .into(),
    );
    Ok(findings)
}

/// A sandbox whose interpreter has so many MiB of data that it has touched.
pub async fn filled(caller: &mut Caller, backend: &str, size: u64) -> Result<String> {
    let memory = (size + 512) << 20;
    let body = json!({ "backend": backend, "ttl_seconds": 900, "live_forks": true, "limits": { "memory_bytes": memory } });
    let source = text(&caller.post("/v1/sandboxes", &body).await?, "id")?;
    let code = format!(
        "b = bytearray({size} << 20)\nfor i in range(0, len(b), 4096): b[i] = 1\nd = {{i: str(i) for i in range(200000)}}\nprint(len(d))"
    );
    caller.run_code(&source, &code, "200000\n").await?;
    Ok(source)
}

/// The child, and how long the source stood still for it.
async fn fork(caller: &mut Caller, source: &str) -> Result<(String, Duration)> {
    let forked = caller.post(&format!("/v1/sandboxes/{source}/fork"), &json!({ "live": true })).await?;
    ensure!(forked["kind"] == "interpreter", "the fork is of kind {}", forked["kind"]);
    let stood_still = forked["contexts"][0]["stood_still_us"].as_u64().context("the answer has no time")?;
    Ok((text(&forked["sandboxes"][0], "id")?, Duration::from_micros(stood_still)))
}

async fn one_by_one(caller: &mut Caller, source: &str, findings: &mut Findings) -> Result<()> {
    let (mut stood_still, mut answered, mut files) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        tokio::time::sleep(REST).await;
        let (elapsed, (child, still)) = timed(async {
            let (child, still) = fork(caller, source).await?;
            caller.run_code(&child, "print(len(d))", "200000\n").await?;
            Ok((child, still))
        })
        .await?;
        stood_still.push(still);
        answered.push(elapsed);
        caller.kill(&child).await?;
        tokio::time::sleep(REST).await;
        let path = format!("/v1/sandboxes/{source}/fork");
        let (elapsed, forked) = timed(caller.post(&path, &json!({ "live": false }))).await?;
        files.push(elapsed);
        caller.kill(&text(&forked["sandboxes"][0], "id")?).await?;
    }
    let named = |name, samples| Timing::new(name, String::new(), samples);
    findings.timings.extend([
        named(STOOD_STILL, stood_still),
        named(ANSWERED, answered),
        named(FILES, files),
    ]);
    Ok(())
}

pub fn ids(forked: &Value) -> Result<Vec<String>> {
    let children = forked["sandboxes"].as_array().context("the answer has no sandboxes")?;
    children.iter().map(|child| text(child, "id")).collect()
}

async fn many(server: &Server, caller: &mut Caller, source: &str, findings: &mut Findings) -> Result<()> {
    let mut forks = Vec::new();
    for _ in 0..ROUNDS_OF_ALL_CHILDREN {
        let path = format!("/v1/sandboxes/{source}/fork");
        let body = json!({ "live": true, "count": CHILDREN });
        let (elapsed, forked) = timed(caller.post(&path, &body)).await?;
        forks.push(elapsed);
        let children = ids(&forked)?;
        ensure!(children.len() == CHILDREN, "{} children came of {CHILDREN}", children.len());
        for child in [&children[0], &children[CHILDREN - 1]] {
            caller.run_code(child, "print(len(d))", "200000\n").await?;
        }
        parallel::kill(server, children).await?;
    }
    findings.timings.push(Timing::new(FORK_OF_100, String::new(), forks));
    Ok(())
}

/// The sizes of children before their first call.
async fn sizes(server: &Server, caller: &mut Caller, source: &str, findings: &mut Findings) -> Result<()> {
    let path = format!("/v1/sandboxes/{source}/fork");
    let forked = caller.post(&path, &json!({ "live": true, "count": WEIGHED_CHILDREN })).await?;
    let children = ids(&forked)?;
    let (work, guests) = memory::private_of_children(&server.paddock.state, &children)?;
    findings.add("each child: its own", (work + guests) / WEIGHED_CHILDREN as f64 / MEBIBYTE, "MiB");
    findings.add("each child: its own, interpreter", work / WEIGHED_CHILDREN as f64 / MEBIBYTE, "MiB");
    parallel::kill(server, children).await
}

async fn os_fork(caller: &mut Caller, source: &str, rounds: usize) -> Result<Vec<Duration>> {
    let body = json!({ "code": OS_FORK.replace('%', &rounds.to_string()) });
    let answer = caller.post(&format!("/v1/sandboxes/{source}/code"), &body).await?;
    let printed = answer["stdout"].as_str().unwrap_or_default();
    let times: Vec<Duration> =
        printed.split_whitespace().filter_map(|word| word.parse().ok()).map(Duration::from_micros).collect();
    if times.len() != rounds {
        bail!("os.fork() printed {printed:?}, and {}", answer["error"]);
    }
    Ok(times)
}

async fn beside_gvisor(caller: &mut Caller) -> Result<Vec<Duration>> {
    let source = filled(caller, "gvisor", DATA).await?;
    let mut samples = Vec::new();
    for _ in 0..GVISOR_ROUNDS {
        let (elapsed, child) = timed(async {
            let forked = caller.post(&format!("/v1/sandboxes/{source}/fork"), &json!({})).await?;
            ensure!(forked["kind"] == "memory", "the fork is of kind {}", forked["kind"]);
            let child = text(&forked["sandboxes"][0], "id")?;
            caller.run_code(&child, "print(len(d))", "200000\n").await?;
            Ok(child)
        })
        .await?;
        samples.push(elapsed);
        caller.kill(&child).await?;
    }
    caller.kill(&source).await?;
    Ok(samples)
}

fn median_ms(name: &'static str, samples: Vec<Duration>) -> f64 {
    Timing::new(name, String::new(), samples).median().as_secs_f64() * 1e3
}
