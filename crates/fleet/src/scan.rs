//! The scan of code before it runs, if its sandbox's rules say so.

use super::live::Live;
use super::{Actor, Fleet, FleetError, Kind, audit};
use paddock_model::api::{ErrorDetails, RunCode};
use paddock_model::{ScanMode, ScanReport};
use paddock_scan::ScanInput;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// The most scanners at one time: code that keeps them busy must not take the host from callers that scan nothing.
static SCANNERS: Semaphore = Semaphore::const_new(4);

impl Fleet {
    /// The findings to return beside the result. Denied code is an error.
    pub(crate) async fn scan_code(
        &self,
        actor: &Actor,
        live: &Arc<Live>,
        (language, context_cwd): (&str, Option<&str>),
        request: &RunCode,
    ) -> Result<ScanReport, FleetError> {
        let (rules, cwd, places) = {
            let record = live.record();
            if record.spec.scan.mode == ScanMode::Off {
                return Ok(ScanReport::default());
            }
            let mounts = record.spec.mounts.iter().map(|mount| mount.target.display().to_string());
            (record.spec.scan.clone(), record.cwd.clone(), mounts.collect())
        };
        let input = ScanInput {
            language: language.into(),
            allowed_imports: rules.allowed_imports,
            cwd: request.cwd.clone().or(context_cwd.map(str::to_string)).or(cwd),
            places,
        };
        let code = request.code.clone();
        let _place = SCANNERS.acquire().await.map_err(|error| FleetError::internal(&error))?;
        let scanned = tokio::task::spawn_blocking(move || paddock_scan::run(&input, code.as_bytes())).await;
        let report = scanned.map_err(|error| FleetError::internal(&error))?.map_err(|error| {
            FleetError::new(Kind::Unavailable, "scan_failed", super::request::chain(&error))
                .hint("code of this sandbox runs only when it has been scanned; try again")
        })?;
        if report.is_clean() {
            return Ok(report);
        }
        audit::scanned(&self.0, actor, live, rules.mode, language, &report, &request.code);
        match rules.mode {
            ScanMode::Deny => Err(denied(report)),
            ScanMode::Off | ScanMode::Warn => Ok(report),
        }
    }
}

fn denied(report: ScanReport) -> FleetError {
    // The count comes from the scanner, and may be anything.
    let more = report.findings_missing.saturating_add(report.findings.len() as u64).saturating_sub(1);
    let first = report.findings.first().map(ToString::to_string).unwrap_or_default();
    let others = if more == 0 { String::new() } else { format!(", and {more} more") };
    let message = format!("the sandbox's policy denies this code: {first}{others}");
    let details = ErrorDetails { findings: report.findings, findings_missing: report.findings_missing };
    FleetError::new(Kind::Forbidden, "scan_denied", message)
        .hint("change the code, or have the policy allow it: `allowed_imports`, or `scan` = `warn`")
        .details(details)
}
