//! Rewards for code: SandboxFusion's client and verl's own call against `/run_code`, beside bare Python.

use super::Setting;
use super::code::set_pool;
use super::frameworks::{Frameworks, durations, frameworks, told};
use super::part::{Findings, Part};
use super::process::Server;
use super::promises::{Limit, Promise, Source, promise};
use crate::measure::Timing;
use anyhow::{Context, Result};
use serde_json::Value;
use std::process::Command;

const SCRIPT: &str = include_str!("rewards.py");
const TEMPLATE: &str = "code-interpreter";
const REWARDS: usize = 2_000;
const AT_ONCE: usize = 64;
const READY: usize = 8;

const ONE: &str = "`print(1)` by SandboxFusion's client";
const BARE: &str = "`python3 -c 'print(1)'`, no fence";
const REWARD: &str = "one of 64 rewards at a time, by verl's call";
const BATCH: &str = "2,000 rewards";
const FAILED: &str = "rewards that failed";

pub const PROMISES: [Promise; 3] = [
    promise(
        Part::RunCode,
        "SandboxFusion's `print(1)`, p50",
        "<= 12 ms",
        Source::Percentile(ONE, 50),
        Limit::AtMost(12.0),
    ),
    promise(
        Part::RunCode,
        "2,000 rewards, 64 at a time",
        "<= 20 s",
        Source::Fact(BATCH),
        Limit::AtMost(20.0),
    ),
    promise(Part::RunCode, "rewards that failed", "0", Source::Fact(FAILED), Limit::AtMost(0.0)),
];

pub async fn measure(setting: Setting<'_>, server: &Server) -> Result<Findings> {
    let mut caller = server.caller().await?;
    let token = caller.token().await?;
    let mut findings = Findings::default();
    set_pool(&mut caller, &mut findings, TEMPLATE, READY, AT_ONCE).await?;
    let told = ask(setting, server, &token)?;
    for (name, of) in [(ONE, "one"), (BARE, "bare"), (REWARD, "rewards")] {
        findings.timings.push(Timing::new(name, String::new(), durations(&told, of)?));
    }
    for (name, of, unit) in [(BATCH, "batch_seconds", "s"), (FAILED, "failed", "")] {
        findings.add(name, told[of].as_f64().with_context(|| format!("the script told no `{of}`"))?, unit);
    }
    findings.notes.push(
        "Each call is a connection, a fresh sandbox of the pool with a limit of memory, a process of Python's and the end of the sandbox. The \
         client, one process of Python with 64 threads, has the same processors."
            .into(),
    );
    Ok(findings)
}

/// Runs the script with the Python that the tests have for frameworks, and returns what it told.
fn ask(setting: Setting<'_>, server: &Server, token: &str) -> Result<Value> {
    let Frameworks { python, rewards } = frameworks(setting)?;
    told(
        Command::new(python)
            .args(["-c", SCRIPT])
            .args([setting.counts.rounds, REWARDS, AT_ONCE].map(|count| count.to_string()))
            .env("PYTHONPATH", &rewards)
            .env("VERL", rewards.join("verl/utils/reward_score/sandbox_fusion"))
            .env("SANDBOX_FUSION_ENDPOINT", format!("http://paddock:{token}@{}", server.tcp_address()?)),
    )
}
