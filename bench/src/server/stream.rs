//! One exec that prints a gibibyte, and one reader that follows it.

use super::memory;
use super::part::Findings;
use super::process::Server;
use anyhow::{Context, Result, bail};
use http_body_util::BodyExt;
use hyper::Method;
use serde_json::json;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
const WARM_UP: u64 = 32 * MIB;
const BYTES: u64 = 1024 * MIB;

pub async fn measure(server: &Server) -> Result<Findings> {
    let sandbox = server.caller().await?.create().await?;
    follow(server, &sandbox, WARM_UP).await?;
    memory::forget_peak(server.id())?;
    let before = memory::resident(server.id())?;
    let elapsed = follow(server, &sandbox, BYTES).await?;
    let growth = memory::peak(server.id())?.saturating_sub(before);
    let mut findings = Findings::default();
    findings.add("throughput", (BYTES / MIB) as f64 / elapsed.as_secs_f64(), "MiB/s");
    findings.add("growth of the server", growth as f64 / MIB as f64, "MiB");
    findings.notes.push(
        "Raw standard output with follow=true on the unix socket. Growth: the highest resident size during the \
         stream, less the size before it."
            .into(),
    );
    Ok(findings)
}

/// From the moment in which the command is let go until its last byte was read.
async fn follow(server: &Server, sandbox: &str, bytes: u64) -> Result<Duration> {
    let mut caller = server.caller().await?;
    let path = format!("/v1/sandboxes/{sandbox}/execs");
    // The command waits for a line, so that nothing is printed before the reader follows.
    let command = format!("read line; exec dd if=/dev/zero bs=64k count={} status=none", bytes / 65_536);
    let exec =
        caller.post(&path, &json!({ "command": command, "background": true, "open_stdin": true })).await?;
    let number = exec["exec"].as_u64().context("the exec has no number")?;
    let path = format!("{path}/{number}");
    let mut reader = server.caller().await?;
    let answer = reader.client.open(Method::GET, &format!("{path}/stdout?follow=true"), "").await?;
    if !answer.status().is_success() {
        bail!("GET {path}/stdout: {}", answer.status());
    }
    let mut body = answer.into_body();
    let started = Instant::now();
    caller.client.call(Method::POST, &format!("{path}/stdin?offset=0&close=true"), "\n").await?;
    let mut received = 0;
    while let Some(frame) = body.frame().await {
        received += frame?.data_ref().map_or(0, |data| data.len() as u64);
    }
    let elapsed = started.elapsed();
    if received != bytes {
        bail!("{received} bytes came of {bytes}");
    }
    Ok(elapsed)
}
