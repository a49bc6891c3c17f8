//! The limits of a sandbox. Every value is positive: zero would mean "nothing" to one kernel interface and "no limit"
//! to another, so it is refused before it can reach either.

use crate::quantity::{format_bytes, format_duration};
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes of memory for everything the sandbox runs, its private disk included where that disk is in memory.
    pub memory: u64,
    /// Processor time per second of wall time: 1.5 is one and a half processors.
    pub cpus: f64,
    /// Processes and threads at one time.
    pub pids: u32,
    /// Bytes on the private disk.
    pub disk: u64,
    /// Open files per process.
    pub files: u32,
    /// Bytes kept of each output stream: half from its head, half from its tail.
    pub output: u64,
    /// Wall-clock time; `None` is no limit, and has to be asked for.
    #[serde(rename = "timeout_ms", with = "milliseconds")]
    pub timeout: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            memory: 2 << 30,
            cpus: 2.0,
            pids: 512,
            disk: 1 << 30,
            files: 4096,
            output: 8 << 20,
            timeout: Some(Duration::from_secs(3600)),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct LimitError {
    pub limit: &'static str,
    pub value: String,
    pub allowed: String,
}

impl std::fmt::Display for LimitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} limit {} is outside {}", self.limit, self.value, self.allowed)
    }
}

impl std::error::Error for LimitError {}

const MEMORY: std::ops::RangeInclusive<u64> = 4 << 20..=1 << 44;
const CPUS: std::ops::RangeInclusive<f64> = 0.01..=4096.0;
const PIDS: std::ops::RangeInclusive<u32> = 1..=1 << 22;
const DISK: std::ops::RangeInclusive<u64> = 1 << 20..=1 << 44;
const FILES: std::ops::RangeInclusive<u32> = 16..=1 << 20;
const OUTPUT: std::ops::RangeInclusive<u64> = 1..=1 << 32;
const TIMEOUT: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(366 * 86_400);

impl Limits {
    /// Refuses values that no fence could hold or no command could run under.
    pub fn check(&self) -> Result<(), LimitError> {
        within("memory", &self.memory, &MEMORY, |b| format_bytes(*b))?;
        within("cpus", &self.cpus, &CPUS, f64::to_string)?;
        within("pids", &self.pids, &PIDS, u32::to_string)?;
        within("disk", &self.disk, &DISK, |b| format_bytes(*b))?;
        within("files", &self.files, &FILES, u32::to_string)?;
        within("output", &self.output, &OUTPUT, |b| format_bytes(*b))?;
        match &self.timeout {
            Some(timeout) => within("timeout", timeout, &TIMEOUT, |d| format_duration(*d)),
            None => Ok(()),
        }
    }
}

fn within<T: PartialOrd>(
    limit: &'static str,
    value: &T,
    range: &std::ops::RangeInclusive<T>,
    show: impl Fn(&T) -> String,
) -> Result<(), LimitError> {
    if range.contains(value) {
        return Ok(());
    }
    let allowed = format!("{} to {}", show(range.start()), show(range.end()));
    Err(LimitError { limit, value: show(value), allowed })
}

mod milliseconds {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::time::Duration;

    pub fn serialize<S: Serializer>(value: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        value.map(|d| d.as_millis() as u64).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_millis))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_allowed_and_extremes_are_not() {
        let fine = Limits::default();
        fine.check().unwrap();
        for bad in [
            Limits { memory: 0, ..fine.clone() },
            Limits { cpus: 0.0, ..fine.clone() },
            Limits { cpus: f64::NAN, ..fine.clone() },
            Limits { cpus: f64::INFINITY, ..fine.clone() },
            Limits { pids: 0, ..fine.clone() },
            Limits { disk: u64::MAX, ..fine.clone() },
            Limits { files: 3, ..fine.clone() },
            Limits { output: 0, ..fine.clone() },
            Limits { timeout: Some(Duration::ZERO), ..fine.clone() },
        ] {
            let message = bad.check().unwrap_err().to_string();
            assert!(message.contains(" is outside "), "{message}");
        }
    }
}
