//! The use of a sandbox over the last minutes, and now.

use super::errors::{Refusal, Result};
use super::listing::parsed;
use super::sandboxes::find;
use super::timestamps::rfc3339_unsigned;
use super::views::cpus;
use crate::app::App;
use crate::auth::Caller;
use axum::Json as Answer;
use axum::extract::{Path, State};
use axum::http::Uri;
use serde::Deserialize;
use serde_json::{Value, json};

/// Seconds since 1970.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Wanted {
    start: Option<i64>,
    end: Option<i64>,
}

pub async fn read(
    State(app): State<App>,
    Caller(actor): Caller,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Answer<Vec<Value>>> {
    let wanted: Wanted = parsed(&uri)?;
    let (start, end) = (wanted.start.map(beginning).transpose()?, wanted.end.map(beginning).transpose()?);
    let sandbox = find(&app, &actor, &id).await?;
    // The second that ends is part of it.
    let end = end.map(|end| end.saturating_add(999));
    let found = app.fleet().usage_history(&actor, &sandbox.id, start, end).await?;
    let described = |sample: &paddock_model::api::SandboxSample| {
        json!({
            "timestamp": rfc3339_unsigned(sample.at_ms),
            "timestampUnix": sample.at_ms / 1000,
            "cpuCount": cpus(&sandbox),
            "cpuUsedPct": sample.cpu_percent,
            "memUsed": sample.memory_bytes.saturating_sub(sample.cache_bytes),
            "memTotal": sandbox.limits.memory,
            "memCache": sample.cache_bytes,
            "diskUsed": sample.disk_bytes,
            "diskTotal": sandbox.limits.disk,
        })
    };
    Ok(Answer(found.samples.iter().map(described).collect()))
}

/// The first millisecond of a second.
fn beginning(second: i64) -> Result<u64> {
    let millisecond = u64::try_from(second).ok().and_then(|second| second.checked_mul(1000));
    millisecond.ok_or_else(|| Refusal::invalid(format!("{second} is no second since 1970")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_become_milliseconds() {
        assert_eq!(beginning(7).expect("a time"), 7000);
        assert!(beginning(-1).is_err() && beginning(i64::MAX).is_err());
    }
}
