//! Removes jobs whose time is over, with their artifacts.

use crate::inner::Inner;
use crate::outputs::job_directory;
use paddock_fleet::FleetError;
use std::sync::Arc;
use std::time::Duration;

const EVERY: Duration = Duration::from_secs(5);
const PAGE: usize = 1000;

pub async fn run(inner: Arc<Inner>) {
    loop {
        tokio::select! {
            () = inner.closing.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
        if let Err(error) = forget_old(&inner) {
            tracing::warn!(%error, "old jobs could not be removed");
        }
    }
}

fn forget_old(inner: &Inner) -> Result<(), FleetError> {
    let records = inner.fleet.records();
    for id in records.jobs_to_forget(inner.fleet.cautious_now_ms())? {
        let Some(row) = records.job(&id)? else { continue };
        forget(inner, &row.tenant, &id)?;
    }
    Ok(())
}

/// Precondition: it has ended.
pub fn forget(inner: &Inner, tenant: &str, id: &str) -> Result<(), FleetError> {
    let records = inner.fleet.records();
    let (mut bytes, mut from) = (0, 0);
    loop {
        let rows = records.job_tasks(id, from, PAGE)?;
        bytes += rows.iter().map(|row| row.artifact_bytes).sum::<u64>();
        match rows.last() {
            Some(last) if rows.len() == PAGE => from = last.number + 1,
            _ => break,
        }
    }
    // The record first: files without one are swept, a record without files would promise them.
    records.delete_job(id)?;
    inner.room.give_back(tenant, bytes);
    remove_directory(inner, id);
    Ok(())
}

fn remove_directory(inner: &Inner, id: &str) {
    match std::fs::remove_dir_all(job_directory(&inner.fleet, id)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(job = %id, %error, "its artifacts could not be removed");
        }
        _ => {}
    }
}

/// Files of jobs that are not there any more.
pub fn sweep(inner: &Inner) -> Result<(), FleetError> {
    let Ok(directories) = std::fs::read_dir(inner.fleet.state_directory().join("jobs")) else {
        return Ok(());
    };
    for entry in directories.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if inner.fleet.records().job(&name)?.is_none() {
            remove_directory(inner, &name);
        }
    }
    Ok(())
}
