//! Throw-away uses at half of the best rate, for minutes: does anything grow without an end, does anything get slower?

use super::super::Setting;
use super::super::code::{Steps, once, pool};
use super::super::memory;
use super::super::part::{Curve, Findings};
use super::super::process::Server;
use super::{clients, milliseconds, processors};
use crate::measure::Timing;
use anyhow::{Result, bail};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::sleep_until;

const COLUMNS: [&str; 7] = [
    "/s",
    "p50, ms",
    "p99, ms",
    "resident, MiB",
    "descriptors",
    "write-ahead log, MiB",
    "state directory, MiB",
];
const BEST: Duration = Duration::from_secs(5);
/// Rows of the table; the first and the last are compared.
const STRETCHES: usize = 10;
const MIB: f64 = 1_048_576.0;

pub async fn measure(setting: Setting<'_>, server: &Server) -> Result<Findings> {
    let mut findings = Findings::default();
    let mut caller = server.caller().await?;
    pool::set(&mut caller, &mut findings, pool::TEMPLATE, processors() * 8, processors() * 32).await?;
    let best = work(server, BEST, None).await?.len() as f64 / BEST.as_secs_f64();
    let pace = Duration::from_secs_f64(clients() as f64 / (best / 2.0));
    let stretch = setting.soak / STRETCHES as u32;
    let mut curve = Curve { along: "seconds", columns: COLUMNS.to_vec(), points: Vec::new() };
    for number in 1..=STRETCHES {
        let samples = work(server, stretch, Some(pace)).await?;
        if samples.is_empty() {
            bail!("not one use ended within {stretch:?}");
        }
        let rate = samples.len() as f64 / stretch.as_secs_f64();
        let timing = Timing::new("use", String::new(), samples);
        let mut row = vec![rate, milliseconds(timing.percentile(50)), milliseconds(timing.percentile(99))];
        row.extend(held(server)?);
        curve
            .points
            .push(((stretch * number as u32).as_secs() as usize, row.into_iter().map(Some).collect()));
    }
    let of = |point: usize, column: usize| curve.points[point].1[column].unwrap_or_default();
    let (middle, last) = (STRETCHES / 2, STRETCHES - 1);
    findings.add("best rate", best, "/s");
    findings.add("p99 of the last tenth beside the first", of(last, 2) / of(0, 2), "x");
    findings.add("growth of the resident size in the second half", of(last, 3) - of(middle, 3), "MiB");
    findings.add("growth of descriptors in the second half", of(last, 4) - of(middle, 4), "");
    findings.add("growth of the write-ahead log in the second half", of(last, 5) - of(middle, 5), "MiB");
    findings.add("growth of the state directory in the second half", of(last, 6) - of(middle, 6), "MiB");
    findings.curve = Some(curve);
    findings.notes.push(format!(
        "{} callers, {:.0} s in all, each of them beginning a use every {:.1} ms. Records of ended sandboxes stay for a day, so that the state \
         directory grows for a day.",
        clients(),
        setting.soak.as_secs_f64(),
        milliseconds(pace)
    ));
    Ok(findings)
}

/// The times of all uses. Without a pace, the next one begins when one has ended.
async fn work(server: &Server, time: Duration, pace: Option<Duration>) -> Result<Vec<Duration>> {
    let end = Instant::now() + time;
    let mut workers = JoinSet::new();
    for _ in 0..clients() {
        let mut caller = server.caller().await?;
        workers.spawn(async move {
            let mut samples = Vec::new();
            let mut next = tokio::time::Instant::now();
            while Instant::now() < end {
                samples.push(once(&mut caller, pool::TEMPLATE, "print(1)", &mut Steps::default()).await?);
                if let Some(pace) = pace {
                    next += pace;
                    sleep_until(next).await;
                }
            }
            anyhow::Ok(samples)
        });
    }
    let mut all = Vec::new();
    while let Some(samples) = workers.join_next().await {
        all.extend(samples??);
    }
    Ok(all)
}

/// The columns from `resident` on.
fn held(server: &Server) -> Result<[f64; 4]> {
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", server.id()))?.count();
    let (all, logs) = size(&server.paddock.state, server.paddock.state.metadata()?.dev());
    let resident = memory::resident(server.id())? as f64;
    Ok([resident / MIB, descriptors as f64, logs as f64 / MIB, all as f64 / MIB])
}

/// Bytes on the disk below a directory, and those of SQLite's logs. Mounts there are not entered.
fn size(directory: &Path, device: u64) -> (u64, u64) {
    let (mut all, mut logs) = (0, 0);
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        // A file that has gone meanwhile has no size.
        let Ok(found) = entry.metadata() else { continue };
        if found.dev() != device {
            continue;
        }
        if found.is_dir() {
            let (more, more_logs) = size(&entry.path(), device);
            (all, logs) = (all + more, logs + more_logs);
        } else {
            let bytes = found.blocks() * 512;
            all += bytes;
            logs += if entry.file_name().to_string_lossy().ends_with("-wal") { bytes } else { 0 };
        }
    }
    (all, logs)
}
