//! A thousand idle sandboxes, without network rules and with them: the memory of each gate.

use super::super::memory;
use super::super::parallel;
use super::super::part::Findings;
use super::super::process::Server;
use anyhow::Result;
use serde_json::{Value, json};
use std::time::Duration;

const MIB: f64 = 1_048_576.0;
/// Time for processes to come to rest.
const SETTLE: Duration = Duration::from_secs(3);

pub async fn measure(server: &Server, count: usize) -> Result<Findings> {
    let mut findings = Findings::default();
    // The first thousand leave the kernel with objects that the next ones use: they are not counted.
    each(server, count, || json!(null)).await?;
    let without = each(server, count, || json!(null)).await?;
    let rules = || json!({ "allow": ["api.example.com", "*.example.org:443", "10.1.2.0/24:5432"] });
    let with = each(server, count, rules).await?;
    findings.add("sandboxes", count as f64, "");
    findings.add("each without rules: processes", without.0, "MiB");
    findings.add("each with rules: processes", with.0, "MiB");
    findings.add("each gate: processes", with.0 - without.0, "MiB");
    findings.add("each gate: whole machine", with.1 - without.1, "MiB");
    findings.notes.push(
        "Processes: proportional size (PSS) of all guests and of the server, in which the gates are, beyond the first \
         sandbox. Whole machine: what MemAvailable shrank by; the kernel's interfaces, and everybody else at work, are in it."
            .into(),
    );
    Ok(findings)
}

/// The memory of each beyond the first, of processes and of the host.
async fn each(server: &Server, count: usize, network: fn() -> Value) -> Result<(f64, f64)> {
    let mut live = create(server, 1, network).await?;
    let first = held(server).await?;
    live.extend(create(server, count - 1, network).await?);
    let all = held(server).await?;
    parallel::kill(server, live).await?;
    let others = (count - 1) as f64 * MIB;
    Ok(((all.0 - first.0) / others, (first.1 - all.1) / others))
}

async fn create(server: &Server, count: usize, network: fn() -> Value) -> Result<Vec<String>> {
    let outcomes = parallel::each(
        server,
        parallel::CONNECTIONS,
        vec![network; count],
        |mut caller, network| async move {
            let body = json!({ "network": network(), "ttl_seconds": 900 });
            let made = caller.post("/v1/sandboxes", &body).await;
            (caller, made.and_then(|made| super::super::calls::text(&made, "id")))
        },
    );
    outcomes.await?.into_iter().collect()
}

/// Bytes of processes, and bytes that are available.
async fn held(server: &Server) -> Result<(f64, f64)> {
    tokio::time::sleep(SETTLE).await;
    let (_, guests) = memory::proportional_of_guests(&server.paddock.state)?;
    let own = memory::proportional(std::path::Path::new(&format!("/proc/{}", server.id())))?;
    Ok(((guests + own) as f64, memory::Machine::now()?.line("MemAvailable:")))
}
