//! What /proc says of memory, in bytes.

use crate::footprint::{kilobytes, processes_below};
use anyhow::{Context, Result};
use std::path::Path;

pub fn resident(process: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    kilobytes(&status, "VmRSS:").context("no resident size in /proc")
}

/// Each shared page divided by its users.
pub fn proportional(process: &Path) -> Result<u64> {
    let rollup = std::fs::read_to_string(process.join("smaps_rollup"))
        .with_context(|| format!("{}/smaps_rollup", process.display()))?;
    kilobytes(&rollup, "Pss:").context("no proportional size in /proc")
}

/// All processes of sandboxes: in an idle one only guests run, whose executable is below the state directory.
pub fn proportional_of_guests(state: &Path) -> Result<(usize, u64)> {
    let guests = processes_below(state);
    let sizes = guests.iter().map(|guest| proportional(guest)).collect::<Result<Vec<_>>>()?;
    Ok((sizes.len(), sizes.iter().sum()))
}

/// Lines of /proc/meminfo.
pub struct Machine(String);

impl Machine {
    pub fn now() -> Result<Machine> {
        Ok(Machine(std::fs::read_to_string("/proc/meminfo")?))
    }

    pub fn line(&self, key: &str) -> f64 {
        kilobytes(&self.0, key).unwrap_or_default() as f64
    }
}

/// The highest resident size since [`forget_peak`].
pub fn peak(process: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    kilobytes(&status, "VmHWM:").context("no peak of the resident size in /proc")
}

pub fn forget_peak(process: u32) -> Result<()> {
    std::fs::write(format!("/proc/{process}/clear_refs"), "5").context("clear_refs")
}
