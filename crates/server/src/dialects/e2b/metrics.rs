//! The use of a sandbox at this moment. No history is kept: the list has one entry.

use super::errors::Result;
use super::sandboxes::find;
use super::timestamps::rfc3339_unsigned;
use super::views::cpus;
use crate::app::App;
use crate::auth::Caller;
use axum::Json as Answer;
use axum::extract::{Path, State};
use serde_json::{Value, json};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Between two looks at the processor time.
const APART: Duration = Duration::from_millis(100);

pub async fn read(
    State(app): State<App>,
    Caller(actor): Caller,
    Path(id): Path<String>,
) -> Result<Answer<Vec<Value>>> {
    let sandbox = find(&app, &actor, &id).await?;
    let (before, began) = (app.fleet().usage(&actor, &sandbox.id).await?, Instant::now());
    tokio::time::sleep(APART).await;
    let now = app.fleet().usage(&actor, &sandbox.id).await?;
    let spent_ms = now.cpu_ms.zip(before.cpu_ms).map_or(0.0, |(now, before)| (now - before).max(0.0));
    // Of one processor, as E2B counts: two that are busy are 200.
    let percent = spent_ms / (began.elapsed().as_secs_f64() * 1000.0) * 100.0;
    let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(Answer(vec![json!({
        "timestamp": rfc3339_unsigned(u64::try_from(at.as_millis()).unwrap_or(u64::MAX)),
        "timestampUnix": at.as_secs(),
        "cpuCount": cpus(&sandbox),
        "cpuUsedPct": (percent * 100.0).round() / 100.0,
        "memUsed": now.memory_bytes.unwrap_or_default(),
        "memTotal": sandbox.limits.memory,
        // The kernel's cache is part of what is used here.
        "memCache": 0,
        "diskUsed": now.disk_bytes.unwrap_or_default(),
        "diskTotal": sandbox.limits.disk,
    })]))
}
