//! `paddock top`: the resources that running sandboxes use.

use super::remote::with_client;
use super::{CommandError, print, print_json};
use crate::args::watch::TopArgs;
use crate::caller::Caller;
use crate::client::Filter;
use crate::client::{Call, Client, ClientError, Target};
use crate::render;
use crate::render::time::now_ms;
use crate::render::usage::Row;
use paddock_model::api::{Sandbox, SandboxMetrics, SandboxState, SandboxUsage};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const RENEWED: Duration = Duration::from_secs(2);
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";

pub fn execute(args: &TopArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    with_client(caller, async |client, caller| {
        if args.history {
            return history(&client, args, caller).await;
        }
        let mut before = BTreeMap::new();
        let rows = look(&client, &args.ids, &mut before).await?;
        if args.json {
            let objects = rows.iter().map(|row| json!({ "sandbox": row.sandbox, "usage": row.usage }));
            print_json(&objects.collect::<Vec<_>>(), caller)?;
            return Ok(0);
        }
        if args.once || !caller.terminals.stdout {
            print(&render::usage::text(&rows, caller.colour_on_stdout()), caller)?;
            return Ok(0);
        }
        let mut rows = rows;
        loop {
            let table = render::usage::text(&rows, caller.colour_on_stdout());
            print(&format!("{CLEAR}{table}"), caller)?;
            tokio::select! {
                _ = tokio::signal::ctrl_c() => return Ok(0),
                () = tokio::time::sleep(RENEWED) => {}
            }
            rows = look(&client, &args.ids, &mut before).await?;
        }
    })
}

async fn history(client: &Client, args: &TopArgs, caller: &mut Caller<'_>) -> Result<i32, CommandError> {
    for id in &args.ids {
        let found: SandboxMetrics = client.json(Call::get(Target::sandbox(id).part("metrics"))).await?;
        match args.json {
            true => print_json(&json!({ "sandbox": id, "metrics": found }), caller)?,
            false => print(&render::usage::history(&found, now_ms(), caller.colour_on_stdout()), caller)?,
        }
    }
    Ok(0)
}

/// Processor time and moment of the last look, by id.
type Before = BTreeMap<String, (f64, Instant)>;

async fn look(client: &Client, ids: &[String], before: &mut Before) -> Result<Vec<Row>, ClientError> {
    let mut rows = Vec::new();
    for sandbox in wanted(client, ids).await? {
        let target = Target::sandbox(&sandbox.id).part("usage");
        let usage: SandboxUsage = match client.json(Call::get(target)).await {
            Ok(usage) => usage,
            // It may have ended since it was listed.
            Err(error) if matches!(error.code(), Some("sandbox_ended" | "sandbox_not_found")) => continue,
            Err(error) => return Err(error),
        };
        let cpus = usage.cpu_ms.and_then(|now| {
            let (used, at) = before.insert(sandbox.id.clone(), (now, Instant::now()))?;
            let elapsed = at.elapsed().as_secs_f64() * 1000.0;
            (elapsed > 0.0).then(|| (now - used).max(0.0) / elapsed)
        });
        rows.push(Row { sandbox, usage, cpus });
    }
    Ok(rows)
}

async fn wanted(client: &Client, ids: &[String]) -> Result<Vec<Sandbox>, ClientError> {
    if ids.is_empty() {
        let mut all = client.sandboxes(&Filter::default()).await?;
        all.retain(|s| matches!(s.state, SandboxState::Running | SandboxState::Paused));
        return Ok(all);
    }
    let mut found = Vec::new();
    for id in ids {
        found.push(client.sandbox(id).await?);
    }
    Ok(found)
}
