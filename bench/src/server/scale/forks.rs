//! One context with data in it, forked a thousand times, ten at a time.

use super::super::calls::timed;
use super::super::live_fork::{filled, ids};
use super::super::parallel;
use super::super::part::Findings;
use super::super::process::Server;
use super::milliseconds;
use crate::measure::Timing;
use anyhow::Result;
use serde_json::json;

const DATA_MIB: u64 = 64;
const FORKS: usize = 1_000;
const AT_A_TIME: usize = 10;

pub async fn measure(server: &Server) -> Result<Findings> {
    let mut findings = Findings::default();
    let mut caller = server.caller().await?;
    let source = filled(&mut caller, "process", DATA_MIB).await?;
    let path = format!("/v1/sandboxes/{source}/fork");
    let (mut calls, mut children, mut failed) = (Vec::new(), Vec::new(), 0);
    for _ in 0..FORKS / AT_A_TIME {
        match timed(caller.post(&path, &json!({ "live": true, "count": AT_A_TIME }))).await {
            Ok((elapsed, forked)) => {
                calls.push(elapsed);
                children.extend(ids(&forked)?);
            }
            Err(error) => {
                failed += AT_A_TIME;
                findings.notes.push(format!("failed: {error:#}"));
                findings.notes.truncate(5);
            }
        }
    }
    for child in children.iter().step_by(FORKS / AT_A_TIME) {
        caller.run_code(child, "print(len(d))", "200000\n").await?;
    }
    findings.add("1,000 forks", calls.iter().sum::<std::time::Duration>().as_secs_f64(), "s");
    findings.add("forks that failed", failed as f64, "");
    let calls = Timing::new("a call for ten", String::new(), calls);
    findings.add("a call for ten, slowest", milliseconds(calls.percentile(100)), "ms");
    findings.timings.push(calls);
    parallel::kill(server, children).await?;
    caller.kill(&source).await?;
    findings.notes.push(format!(
        "A Python context with {DATA_MIB} MiB of touched bytes and a dictionary of 200,000 strings, forked live in calls for {AT_A_TIME} one \
         after the other, all children kept; every hundredth is then asked for its dictionary."
    ));
    Ok(findings)
}
