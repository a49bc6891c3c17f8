//! Through the gate: the same client against the same server on loopback, inside with rules and outside without a fence.
//!
//! - `outside`: the server; `client.py`: the client
//! - [`idle`]: the memory of an idle gate
//! - [`PROMISES`]: the targets

mod idle;
mod outside;

pub use idle::measure as measure_idle;

use super::part::{Findings, Part};
use super::process::Server;
use super::promises::Limit::{AtLeast, AtMost};
use super::promises::Source::Fact;
use super::promises::{Promise, promise};
use crate::measure::Timing;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::time::Duration;

const CLIENT: &str = include_str!("client.py");
const BYTES: u64 = 1 << 30;
const CONNECTIONS: u64 = 2_000;
const REQUESTS: u64 = 1_000;
const NAME: &str = "bench.test";

pub const PROMISES: [Promise; 7] = [
    promise(Part::Gate, "one flow, proxy", ">= 300 MiB/s", Fact("flow, proxy"), AtLeast(300.0)),
    promise(
        Part::Gate,
        "one flow, plain connect",
        ">= 100 MiB/s",
        Fact("flow, plain connect"),
        AtLeast(100.0),
    ),
    promise(Part::Gate, "new connections, proxy", ">= 1,000/s", Fact("connections, proxy"), AtLeast(1_000.0)),
    promise(
        Part::Gate,
        "new connections, plain connect",
        ">= 1,000/s",
        Fact("connections, plain connect"),
        AtLeast(1_000.0),
    ),
    promise(Part::Gate, "added to a request, proxy, p50", "<= 0.5 ms", Fact("added, proxy"), AtMost(0.5)),
    promise(
        Part::Gate,
        "added to a request, plain connect, p50",
        "<= 0.5 ms",
        Fact("added, plain connect"),
        AtMost(0.5),
    ),
    promise(Part::GateIdle, "an idle gate holds", "<= 0.3 MiB", Fact("each gate: processes"), AtMost(0.3)),
];

/// The caller's place, and its way out.
#[derive(Clone, Copy)]
enum Way {
    Unfenced,
    Connect,
    Proxy,
}

struct Place<'a> {
    server: &'a Server,
    sandbox: String,
    port: u16,
}

pub async fn measure(server: &Server) -> Result<Findings> {
    let port = outside::start()?;
    let table = server.paddock.state.join("net");
    std::fs::create_dir_all(&table)?;
    std::fs::write(table.join("hosts"), format!("127.0.0.1 {NAME}\n"))?;
    let rules = json!({ "allow": [format!("{NAME}:{port}"), format!("127.0.0.1:{port}")] });
    let mut caller = server.caller().await?;
    let made = caller.post("/v1/sandboxes", &json!({ "network": rules, "ttl_seconds": 900 })).await?;
    let sandbox = super::calls::text(&made, "id")?;
    let place = Place { server, sandbox, port };
    let mut findings = Findings::default();
    // The first of each is not counted: it makes the parts that are made once.
    for way in [Way::Unfenced, Way::Connect, Way::Proxy] {
        place.client(way, "requests", 20).await?;
    }
    for (way, flow, connections) in [
        (Way::Unfenced, "flow, unfenced", "connections, unfenced"),
        (Way::Connect, "flow, plain connect", "connections, plain connect"),
        (Way::Proxy, "flow, proxy", "connections, proxy"),
    ] {
        findings.add(flow, best(&place, way, "flow", BYTES).await?, "MiB/s");
        findings.add(connections, best(&place, way, "connections", CONNECTIONS).await?, "/s");
    }
    let mut medians = Vec::new();
    for (way, name) in [(Way::Unfenced, "unfenced"), (Way::Connect, "plain connect"), (Way::Proxy, "proxy")] {
        let samples = place.client(way, "requests", REQUESTS).await?;
        let samples = samples.iter().map(|micros| Duration::from_nanos((micros * 1e3) as u64)).collect();
        let timing = Timing::new(name, String::new(), samples);
        medians.push(timing.median().as_secs_f64() * 1e3);
        findings.timings.push(timing);
    }
    if let [unfenced, connect, proxy] = medians[..] {
        findings.add("added, plain connect", connect - unfenced, "ms");
        findings.add("added, proxy", proxy - unfenced, "ms");
    }
    findings.notes.push(
        "The same Python client against the same server on loopback. Each request, and each of the connections, is a new \
         connection, one answer and its end. Flow: 1 GiB in one answer. Of three tries of flows and connections the median \
         counts."
            .into(),
    );
    Ok(findings)
}

/// The median of three: a flow is over in seconds, and others are at work.
async fn best(place: &Place<'_>, way: Way, what: &str, count: u64) -> Result<f64> {
    let mut tries = Vec::new();
    for _ in 0..3 {
        tries.push(*place.client(way, what, count).await?.first().context("no number")?);
    }
    tries.sort_by(f64::total_cmp);
    Ok(tries[1])
}

impl Place<'_> {
    async fn client(&self, way: Way, what: &str, count: u64) -> Result<Vec<f64>> {
        let (route, host) = match way {
            Way::Unfenced => ("direct", "127.0.0.1"),
            Way::Connect => ("direct", NAME),
            Way::Proxy => ("proxy", NAME),
        };
        let argv = [
            "python3".to_string(),
            "-c".into(),
            CLIENT.into(),
            what.into(),
            route.into(),
            host.into(),
            self.port.to_string(),
            count.to_string(),
        ];
        let said = match way {
            Way::Unfenced => outside(argv).await?,
            Way::Connect | Way::Proxy => self.inside(&argv).await?,
        };
        serde_json::from_str(&said).with_context(|| format!("the client said {said:?}"))
    }

    async fn inside(&self, argv: &[String]) -> Result<String> {
        let path = format!("/v1/sandboxes/{}/execs", self.sandbox);
        let exec: Value = self.server.caller().await?.post(&path, &json!({ "argv": argv })).await?;
        if exec["exit_code"] != 0 {
            bail!("the client ended with {}: {}", exec["exit_code"], exec["stderr"]);
        }
        super::calls::text(&exec, "stdout")
    }
}

async fn outside(argv: [String; 8]) -> Result<String> {
    let done = tokio::task::spawn_blocking(move || {
        std::process::Command::new(&argv[0]).args(&argv[1..]).env_remove("http_proxy").output()
    });
    let done = done.await??;
    if !done.status.success() {
        bail!("the client ended with {}: {}", done.status, String::from_utf8_lossy(&done.stderr));
    }
    Ok(String::from_utf8(done.stdout)?)
}
