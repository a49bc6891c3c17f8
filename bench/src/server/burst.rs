//! A hundred callers that each want a sandbox in the same moment.

use super::calls::timed;
use super::parallel;
use super::part::Findings;
use super::process::Server;
use crate::measure::Timing;
use anyhow::Result;

const AT_ONCE: usize = 100;
const BURSTS: usize = 3;

pub async fn measure(server: &Server) -> Result<Findings> {
    let mut findings = Findings::default();
    // Once, so that the guest lies in the state directory.
    let mut caller = server.caller().await?;
    let sandbox = caller.create().await?;
    caller.kill(&sandbox).await?;

    let (mut samples, mut failed) = (Vec::new(), 0_u32);
    for _ in 0..BURSTS {
        // The connections are there before any of them is used.
        let creates = parallel::each(server, AT_ONCE, vec![(); AT_ONCE], |mut caller, ()| async move {
            let outcome = timed(caller.create()).await;
            (caller, outcome)
        });
        let mut sandboxes = Vec::new();
        for outcome in creates.await? {
            match outcome {
                Ok((elapsed, id)) => {
                    samples.push(elapsed);
                    sandboxes.push(id);
                }
                Err(error) => {
                    failed += 1;
                    findings.notes.push(format!("failed: {error:#}"));
                }
            }
        }
        parallel::kill(server, sandboxes).await?;
    }
    findings.notes.truncate(5);
    findings.timings = vec![Timing::new("create", String::new(), samples)];
    findings.add("creates that failed", failed.into(), "");
    findings.notes.push(format!("{BURSTS} bursts of {AT_ONCE}, each on a connection of its own."));
    Ok(findings)
}
