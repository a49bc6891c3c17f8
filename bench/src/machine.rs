//! Where and when: enough to compare two results, and nothing that names the host.

use crate::command::CommandLine;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

pub struct Machine {
    pub date: String,
    pub kernel: String,
    /// The version that limits are set by.
    pub cgroups: &'static str,
    pub memory_bytes: u64,
    pub processors: usize,
    pub processor: String,
    /// Others at work show here, and in the distance of p95 from the median.
    pub load: String,
    pub commit: String,
    pub user: &'static str,
    pub paddock_bytes: u64,
}

pub fn describe(paddock: &Path) -> Machine {
    let system = rustix::system::uname();
    Machine {
        date: date(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())),
        kernel: format!("{} {}", system.sysname().to_string_lossy(), system.release().to_string_lossy()),
        cgroups: if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() { "v2" } else { "v1" },
        memory_bytes: memory(),
        processors: std::thread::available_parallelism().map_or(1, usize::from),
        processor: processor(),
        load: std::fs::read_to_string("/proc/loadavg")
            .map(|text| text.split(' ').take(3).collect::<Vec<_>>().join(" "))
            .unwrap_or_default(),
        commit: commit(),
        user: if rustix::process::geteuid().is_root() { "root" } else { "ordinary user" },
        paddock_bytes: paddock.metadata().map_or(0, |found| found.len()),
    }
}

fn memory() -> u64 {
    let table = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    crate::footprint::kilobytes(&table, "MemTotal:").unwrap_or_default()
}

fn processor() -> String {
    let table = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = table.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned())
}

/// The commit of the sources that this bench was built from.
fn commit() -> String {
    let git = |arguments: &[&str]| {
        let base = CommandLine::new("/usr/bin/git").args(["-C", env!("CARGO_MANIFEST_DIR")]);
        base.args(arguments).output()
    };
    let Ok(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else { return "unknown".into() };
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_ok_and(|text| !text.is_empty());
    format!("{}{}", commit.trim(), if changed { ", with changes" } else { "" })
}

/// Days to a date of the Gregorian calendar, after Howard Hinnant's civil_from_days.
fn date(seconds: u64) -> String {
    let days = seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let time = seconds % 86_400;
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", time / 3_600, time % 3_600 / 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(date(1_767_225_599), "2025-12-31 23:59 UTC");
    }
}
