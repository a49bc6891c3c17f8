//! Kill -9 of the server while sandboxes live: how soon the next one has them again.

use super::calls::timed;
use super::parallel;
use super::part::Findings;
use super::process::Server;
use crate::contestants::Workload;
use anyhow::{Result, bail};

const LIVE: usize = 100;

pub async fn measure(server: &mut Server) -> Result<Findings> {
    let live = parallel::create(server, LIVE).await?;
    let ready = server.crash_and_restart().await?;
    let found = server.caller().await?.live().await?.len();
    if found != LIVE {
        bail!("{found} of {LIVE} sandboxes live after the restart");
    }
    let execs = parallel::each(server, parallel::CONNECTIONS, live, |mut caller, id: String| async move {
        let outcome = caller.exec(&id, Workload::True.command()).await;
        (caller, outcome)
    });
    let (all, outcomes) = timed(execs).await?;
    outcomes.into_iter().collect::<Result<Vec<_>>>()?;
    let mut findings = Findings::default();
    findings.add("sandboxes found again", found as f64, "");
    findings.add("from the start until ready", ready.as_secs_f64() * 1_000.0, "ms");
    findings.add("then an exec in each of them", all.as_secs_f64() * 1_000.0, "ms");
    Ok(findings)
}
