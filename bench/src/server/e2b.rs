//! A program that was written for E2B: its SDK, unmodified, beside the same requests without it and beside no fence at all.

use super::Setting;
use super::part::{Findings, Part};
use super::process::Server;
use super::promises::{Limit, Promise, Source, promise};
use crate::measure::Timing;
use crate::targets::milliseconds;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

const SCRIPT: &str = include_str!("e2b_sdk.py");
/// The packages that `scripts/packages.py` fetches for the tests, unless `PADDOCK_TEST_E2B` names others.
const PACKAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/test-packages/e2b");

const USE: &str = "create, commands.run('true') and kill by the SDK";
const USE_BY_HAND: &str = "the same by raw HTTP";
const TRUE: &str = "`subprocess.run(['true'])`, no fence";
const CODE: &str = "warm run_code('1+1') by the SDK";
const CODE_BY_HAND: &str = "the same code by raw HTTP";
const PYTHON: &str = "`python3 -c '1+1'`, no fence";
const CROWD: &str = "one of many at once by AsyncSandbox";
const CROWD_BY_HAND: &str = "one of many at once by raw HTTP";
const IMPORT: &str = "`import e2b_code_interpreter`";
const FAILED: &str = "of many at once, failed";
const ADDED_TO_USE: &str = "added by the SDK to create, run and kill";
const ADDED_TO_CODE: &str = "added by the SDK to run_code";

pub const PROMISES: [Promise; 4] = [
    promise(
        Part::E2b,
        "E2B's create, commands.run and kill, p50",
        "<= 40 ms",
        Source::Percentile(USE, 50),
        Limit::AtMost(40.0),
    ),
    promise(
        Part::E2b,
        "E2B's warm run_code, p50",
        "<= 10 ms",
        Source::Percentile(CODE, 50),
        Limit::AtMost(10.0),
    ),
    promise(Part::E2b, "100 by AsyncSandbox, failed", "0", Source::Fact(FAILED), Limit::AtMost(0.0)),
    promise(
        Part::E2b,
        "100 by AsyncSandbox, p95",
        "<= 1.5 s",
        Source::Percentile(CROWD, 95),
        Limit::AtMost(1_500.0),
    ),
];

pub async fn measure(setting: Setting<'_>, server: &Server) -> Result<Findings> {
    let token = server.caller().await?.token().await?;
    let counts = setting.counts;
    let told = ask(server, &token, [counts.rounds, counts.warm_rounds, counts.at_once])?;
    let timing = |name, of| Ok::<_, anyhow::Error>(Timing::new(name, String::new(), samples(&told, of)?));
    let mut findings = Findings {
        timings: vec![
            timing(USE, "use")?,
            timing(USE_BY_HAND, "use_by_hand")?,
            timing(TRUE, "true")?,
            timing(CODE, "code")?,
            timing(CODE_BY_HAND, "code_by_hand")?,
            timing(PYTHON, "python")?,
            timing(CROWD, "crowd")?,
            timing(CROWD_BY_HAND, "crowd_by_hand")?,
            timing(IMPORT, "import")?,
        ],
        ..Findings::default()
    };
    for (name, by_sdk, by_hand) in [(ADDED_TO_USE, USE, USE_BY_HAND), (ADDED_TO_CODE, CODE, CODE_BY_HAND)] {
        let median = |of| findings.timing(of).map(|timing| milliseconds(timing.median()));
        let added = median(by_sdk).zip(median(by_hand)).map(|(sdk, hand)| sdk - hand);
        findings.add(name, added.context("a timing is missing")?, "ms");
    }
    findings.add(FAILED, told["crowd_failed"].as_f64().context("the script told no `crowd_failed`")?, "");
    findings.notes.push(format!(
        "E2B's Python SDK over TCP, in turns with the same requests on one connection of Python's http.client. {} at once: each from the \
         moment at which all were asked for until it has run a command. No sandbox is kept ready.",
        counts.at_once
    ));
    Ok(findings)
}

/// Runs the script with the counts, and returns what it told.
fn ask(server: &Server, token: &str, counts: [usize; 3]) -> Result<Value> {
    let packages =
        std::env::var_os("PADDOCK_TEST_E2B").map_or_else(|| PathBuf::from(PACKAGES), PathBuf::from);
    if !packages.join("e2b_code_interpreter").exists() {
        bail!("no SDK of E2B's in {}: run scripts/test.py first, which fetches it", packages.display());
    }
    let address = format!("http://{}", server.tcp_address()?);
    let output = Command::new("python3")
        .args(["-c", SCRIPT])
        .args(counts.map(|count| count.to_string()))
        .env("PYTHONPATH", packages)
        .env("E2B_API_KEY", token)
        .env("E2B_API_URL", &address)
        .env("E2B_SANDBOX_URL", &address)
        .output()
        .context("python3")?;
    if !output.status.success() {
        bail!("the script ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).context("the script printed no JSON")
}

fn samples(told: &Value, name: &str) -> Result<Vec<Duration>> {
    let list = told[name].as_array().with_context(|| format!("the script told no `{name}`"))?;
    Ok(list.iter().filter_map(Value::as_f64).map(Duration::from_secs_f64).collect())
}
