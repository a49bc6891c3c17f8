//! Sandboxes of a template that are kept ready. A server that knows no pools makes each when it is asked for, which
//! the results then say.

use super::super::calls::Caller;
use super::super::part::Findings;
use super::super::process::Server;
use anyhow::{Result, bail};
use hyper::Method;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The one that is always there.
pub const TEMPLATE: &str = "code-interpreter";

/// Time for the pool to fill.
const POOL_FILL_TIMEOUT: Duration = Duration::from_secs(60);

/// Asks for a pool and waits until it is full.
pub async fn set(
    caller: &mut Caller,
    findings: &mut Findings,
    template: &str,
    min: usize,
    max: usize,
) -> Result<()> {
    let path = format!("/v1/pools/{template}");
    let body = json!({ "min": min, "max": max }).to_string();
    match caller.client.call(Method::PUT, &path, body).await {
        Ok(_) => {}
        Err(error) if is_unknown(&error) => {
            findings
                .notes
                .push("No pool: this server does not know them, and makes each sandbox when asked.".into());
            return Ok(());
        }
        Err(error) => return Err(error),
    }
    let until = Instant::now() + POOL_FILL_TIMEOUT;
    loop {
        let pool = caller.get(&path).await?;
        let full = pool["ready"].as_u64().unwrap_or(0) >= min as u64;
        if full && pool["zygote"] != "starting" {
            findings.notes.push(told(&pool, min, max));
            return Ok(());
        }
        if Instant::now() > until {
            bail!("the pool was not full after {POOL_FILL_TIMEOUT:?}: {pool}");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn told(pool: &Value, min: usize, max: usize) -> String {
    let mut text =
        format!("Pool of `{}`: min {min}, max {max}", pool["template"].as_str().unwrap_or_default());
    if let Some(zygote) = pool["zygote"].as_str() {
        text.push_str(&format!("; zygote {zygote}"));
    }
    if let Some(error) = pool["error"].as_str() {
        text.push_str(&format!(" ({error})"));
    }
    text.push('.');
    text
}

/// How often one was ready, and how often not.
pub async fn count(caller: &mut Caller, findings: &mut Findings, template: &str) {
    if let Ok(pool) = caller.get(&format!("/v1/pools/{template}")).await {
        for (field, name) in [("hits", "found ready in the pool"), ("misses", "made when asked for")] {
            if let Some(value) = pool[field].as_f64() {
                findings.add(name, value, "");
            }
        }
    }
}

/// Returns when no sandbox of them is left to be killed. A pool that cannot be removed shows as left behind.
pub async fn remove_all(server: &Server) {
    let Ok(mut caller) = server.caller().await else { return };
    let Ok(pools) = caller.get("/v1/pools").await else { return };
    for pool in pools["pools"].as_array().into_iter().flatten() {
        let path = format!("/v1/pools/{}", pool["template"].as_str().unwrap_or_default());
        if let Err(error) = caller.client.call(Method::DELETE, &path, "").await {
            eprintln!("{path} could not be removed: {error:#}");
        }
    }
}

fn is_unknown(error: &anyhow::Error) -> bool {
    error.to_string().contains(": 404 ")
}
