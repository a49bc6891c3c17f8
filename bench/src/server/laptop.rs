//! One person with a laptop and the Python SDK, without any setup.

use super::Setting;
use super::agents::interpreter;
use super::part::{Findings, Part};
use super::process::{Ready, Server};
use super::promises::{Limit, Promise, Source, promise};
use crate::measure::Timing;
use crate::targets::milliseconds;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

/// Servers that are asked for the first time.
const FIRST_ASKED_SERVERS: usize = 10;
const ROUNDS: usize = 100;
const SCRIPT: &str = include_str!("laptop.py");
const SDK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../sdk/python/src");

const FIRST: &str = "the very first use of a fresh server";
const LATER: &str = "a use, from the third on";
const BARE: &str = "bare Python, `python3 -c 'print(1)'`";
const BY_SDK: &str = "warm run_code by the SDK";
const BY_HAND: &str = "the same by hand";
const IMPORT: &str = "`import paddock`";
const ADDED: &str = "added by the SDK to a call";

pub const PROMISES: [Promise; 4] = [
    promise(
        Part::Laptop,
        "first use beside bare Python, p50",
        "<= 1.5 x",
        Source::Ratio(FIRST, BARE),
        Limit::AtMost(1.5),
    ),
    promise(
        Part::Laptop,
        "a use from the third on beside bare Python, p50",
        "< 0.5 x",
        Source::Ratio(LATER, BARE),
        Limit::Below(0.5),
    ),
    promise(Part::Laptop, ADDED, "<= 0.3 ms", Source::Fact(ADDED), Limit::AtMost(0.3)),
    promise(Part::Laptop, IMPORT, "<= 60 ms", Source::Percentile(IMPORT, 50), Limit::AtMost(60.0)),
];

pub async fn measure(setting: Setting<'_>, server: &Server) -> Result<Findings> {
    let mut findings = Findings::default();
    let told = ask(server, &["later", &ROUNDS.to_string()])?;
    let (mut first, mut bare) = (Vec::new(), samples(&told, "bare")?);
    for number in 0..FIRST_ASKED_SERVERS {
        let name = format!("laptop-{number}");
        let mut fresh =
            Server::start(setting.scratch, &server.paddock.program, &name, Ready::ByDemand).await?;
        let told = ask(&fresh, &["first"])?;
        fresh.stop()?;
        first.extend(samples(&told, "first")?);
        bare.extend(samples(&told, "bare")?);
    }
    let timing = |name, samples| Timing::new(name, String::new(), samples);
    let (sdk, hand) = (timing(BY_SDK, samples(&told, "sdk")?), timing(BY_HAND, samples(&told, "hand")?));
    findings.add(ADDED, milliseconds(sdk.median()) - milliseconds(hand.median()), "ms");
    findings.timings = vec![
        timing(FIRST, first),
        timing(LATER, samples(&told, "later")?),
        timing(BARE, bare),
        sdk,
        hand,
        timing(IMPORT, samples(&told, "import")?),
    ];
    findings.notes.push(format!(
        "A use is `Sandbox.create()`, `run_code('print(1)')` and the end of the `with`, by the Python SDK over the unix socket. {FIRST_ASKED_SERVERS} fresh \
         servers for the first; then {ROUNDS} on another one, a tenth of a second apart, in turns with a bare Python. No pool is set: \
         the server keeps sandboxes ready where it sees demand."
    ));
    Ok(findings)
}

fn ask(server: &Server, arguments: &[&str]) -> Result<Value> {
    let output = Command::new(interpreter()?)
        .args(["-c", SCRIPT])
        .args(arguments)
        .env("PYTHONPATH", SDK)
        .env("PADDOCK_URL", server.url())
        .env_remove("PADDOCK_TOKEN")
        .output()
        .context("python")?;
    if !output.status.success() {
        bail!("the script ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).context("the script printed no JSON")
}

fn samples(told: &Value, name: &str) -> Result<Vec<Duration>> {
    let list = told[name].as_array().with_context(|| format!("the script told no `{name}`"))?;
    Ok(list.iter().filter_map(Value::as_f64).map(Duration::from_secs_f64).collect())
}
