//! A hundred callers that each want a fresh interpreter in the same moment.

use super::super::calls::timed;
use super::super::parallel;
use super::super::part::Findings;
use super::super::process::Server;
use super::once::{Steps, once};
use super::{Setting, pool};
use crate::measure::Timing;
use anyhow::Result;

const BURSTS: usize = 3;

pub async fn measure(setting: Setting<'_>, server: &Server) -> Result<Findings> {
    let at_once = setting.counts.at_once;
    let mut findings = Findings::default();
    let mut caller = server.caller().await?;
    // Once, so that the parts that are made only once are there.
    once(&mut caller, pool::TEMPLATE, "print(1)", &mut Steps::default()).await?;
    let (mut samples, mut failed) = (Vec::new(), 0_u32);
    for _ in 0..BURSTS {
        // Said once, not for each of them.
        let mut told = Findings::default();
        pool::set(&mut caller, &mut told, pool::TEMPLATE, at_once, at_once + at_once / 4).await?;
        if samples.is_empty() {
            findings.notes = told.notes;
        }
        // The connections are there before any of them is used.
        let uses = parallel::each(server, at_once, vec![(); at_once], |mut caller, ()| async move {
            let mut steps = Steps::default();
            let outcome = timed(once(&mut caller, pool::TEMPLATE, "print(1)", &mut steps)).await;
            (caller, outcome)
        });
        for outcome in uses.await? {
            match outcome {
                Ok((elapsed, _)) => samples.push(elapsed),
                Err(error) => {
                    failed += 1;
                    findings.notes.push(format!("failed: {error:#}"));
                }
            }
        }
        findings.notes.truncate(5);
    }
    findings.timings = vec![Timing::new("create, run_code and kill", String::new(), samples)];
    findings.add("failed", failed.into(), "");
    pool::count(&mut caller, &mut findings, pool::TEMPLATE).await;
    findings.notes.push(format!(
        "{BURSTS} bursts of {at_once}, each on a connection of its own, the pool full before each."
    ));
    Ok(findings)
}
