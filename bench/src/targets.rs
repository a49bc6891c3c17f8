//! The promises of SPECIFICATION.md about speed and size, against the measured numbers.

use crate::contestants::Workload;
use crate::footprint::Guest;
use crate::leftovers::Leftovers;
use crate::measure::Race;
use std::fmt::Display;
use std::time::Duration;

const MIB: f64 = 1_048_576.0;

pub struct Target {
    pub name: &'static str,
    pub target: &'static str,
    pub measured: String,
    /// `None` if it could not be measured.
    pub met: Option<bool>,
}

pub fn judge(races: &[Race], guest: &Guest, leftovers: &Leftovers) -> Vec<Target> {
    let race = |workload| races.iter().find(|race| race.workload == workload);
    let (plain, python) = (race(Workload::True), race(Workload::Python));
    vec![
        at_most("`paddock run -- true` beside bwrap", "<= 1.1 x", 1.1, ratio(plain, "paddock", "bwrap")),
        at_most(
            "`paddock run -- python3 -c 'print(1)'` beside bare python3",
            "<= 1.3 x",
            1.3,
            ratio(python, "paddock", "bare"),
        ),
        at_least(
            "overhead of `runc run` beside Paddock's",
            ">= 5 x",
            5.0,
            overhead_ratio(plain, "runc", "paddock"),
            totals(plain, "runc"),
        ),
        at_least(
            "`docker run` beside `paddock run`",
            ">= 50 x",
            50.0,
            ratio(plain, "docker", "paddock"),
            overheads(plain, "docker"),
        ),
        shield(plain),
        at_most(
            "`paddock run --backend gvisor -- true` beside `runsc run` of it",
            "<= 1.3 x",
            1.3,
            ratio(plain, "paddock gvisor", "runsc"),
        ),
        executable_size(guest),
        resident_memory(guest),
        nothing_left(leftovers),
    ]
}

fn at_most(name: &'static str, target: &'static str, limit: f64, measured: Option<f64>) -> Target {
    let met = measured.map(|ratio| ratio <= limit);
    Target {
        name,
        target,
        measured: measured.map_or_else(not_measured, |ratio| format!("{ratio:.2} x")),
        met,
    }
}

fn at_least(
    name: &'static str,
    target: &'static str,
    limit: f64,
    measured: Option<f64>,
    beside: Option<String>,
) -> Target {
    let beside = beside.map(|text| format!(" ({text})")).unwrap_or_default();
    let text = measured.map_or_else(not_measured, |ratio| format!("{ratio:.1} x{beside}"));
    Target { name, target, measured: text, met: measured.map(|ratio| ratio >= limit) }
}

/// The target for a whole command.
fn shield(race: Option<&Race>) -> Target {
    let median = race.and_then(|race| Some(race.timing("paddock shield")?.median()));
    Target {
        name: "`paddock shield -- true`",
        target: "<= 20 ms",
        measured: median.map_or_else(not_measured, |median| format!("{:.2} ms", milliseconds(median))),
        met: median.map(|median| median <= Duration::from_millis(20)),
    }
}

fn executable_size(guest: &Guest) -> Target {
    let (measured, met) = match &guest.executable_bytes {
        Ok(bytes) => (mebibytes(*bytes), Some(*bytes as f64 <= 2.125 * MIB)),
        Err(error) => (unmeasured(error), None),
    };
    Target { name: "executable of the guest", target: "<= 2.125 MiB", measured, met }
}

fn resident_memory(guest: &Guest) -> Target {
    let (measured, met) = match &guest.memory {
        Ok(memory) => {
            let share =
                memory.proportional_bytes.map(|bytes| format!(" (proportional: {})", mebibytes(bytes)));
            let text = format!("{}{}", mebibytes(memory.resident_bytes), share.unwrap_or_default());
            (text, Some(memory.resident_bytes as f64 <= 1.5 * MIB))
        }
        Err(error) => (unmeasured(error), None),
    };
    Target { name: "resident memory of the guest", target: "<= 1.5 MiB", measured, met }
}

fn nothing_left(leftovers: &Leftovers) -> Target {
    let each = leftovers.elapsed / u32::try_from(leftovers.runs.max(1)).unwrap_or(u32::MAX);
    let measured =
        format!("{} after {} runs of {:.2} ms", leftovers.found.len(), leftovers.runs, milliseconds(each));
    let met = Some(leftovers.found.is_empty());
    Target { name: "left behind by 200 runs in a row", target: "0", measured, met }
}

/// The ratio of the medians of whole commands.
fn ratio(race: Option<&Race>, above: &str, below: &str) -> Option<f64> {
    let (above, below) = (race?.timing(above)?.median(), race?.timing(below)?.median());
    divide(above, below)
}

/// The ratio of the times that each adds to the bare command.
fn overhead_ratio(race: Option<&Race>, above: &str, below: &str) -> Option<f64> {
    divide(overhead(race?, above)?, overhead(race?, below)?)
}

pub fn overhead(race: &Race, name: &str) -> Option<Duration> {
    race.timing(name)?.median().checked_sub(race.timing("bare")?.median())
}

fn totals(race: Option<&Race>, peer: &str) -> Option<String> {
    ratio(race, peer, "paddock").map(|ratio| format!("whole commands: {ratio:.1} x"))
}

fn overheads(race: Option<&Race>, peer: &str) -> Option<String> {
    overhead_ratio(race, peer, "paddock").map(|ratio| format!("overheads: {ratio:.1} x"))
}

fn divide(above: Duration, below: Duration) -> Option<f64> {
    (!below.is_zero()).then(|| above.as_secs_f64() / below.as_secs_f64())
}

pub fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.2} MiB", bytes as f64 / MIB)
}

fn not_measured() -> String {
    "not measured".into()
}

fn unmeasured(reason: impl Display) -> String {
    format!("not measured: {reason:#}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::footprint::Memory;
    use crate::measure::Timing;

    fn race(workload: Workload, medians: &[(&'static str, u64)]) -> Race {
        let timing = |&(name, micros)| Timing::new(name, String::new(), vec![Duration::from_micros(micros)]);
        Race { workload, rounds: 1, results: medians.iter().map(timing).collect(), missing: Vec::new() }
    }

    fn judged(races: &[Race], resident_bytes: u64, found: Vec<String>) -> Vec<Option<bool>> {
        let memory = Memory { resident_bytes, proportional_bytes: None };
        let guest = Guest { executable_bytes: Ok(2 << 20), memory: Ok(memory) };
        let leftovers = Leftovers { runs: 200, elapsed: Duration::from_secs(1), found };
        judge(races, &guest, &leftovers).iter().map(|target| target.met).collect()
    }

    #[test]
    fn targets_are_met_up_to_their_limits() {
        let plain = [
            ("bare", 1_000),
            ("paddock", 5_000),
            ("bwrap", 4_546),
            ("runc", 21_000),
            ("docker", 250_000),
            ("runsc", 100_000),
            ("paddock gvisor", 130_000),
            ("paddock shield", 20_000),
        ];
        let races =
            [race(Workload::True, &plain), race(Workload::Python, &[("bare", 10_000), ("paddock", 13_000)])];
        assert_eq!(judged(&races, 3 << 19, Vec::new()), [Some(true); 9]);
    }

    #[test]
    fn and_missed_beyond_them() {
        let plain = [
            ("bare", 1_000),
            ("paddock", 5_001),
            ("bwrap", 4_000),
            ("runc", 21_000),
            ("docker", 250_000),
            ("runsc", 100_000),
            ("paddock gvisor", 130_001),
            ("paddock shield", 20_001),
        ];
        let races =
            [race(Workload::True, &plain), race(Workload::Python, &[("bare", 10_000), ("paddock", 13_001)])];
        let met = judged(&races, (3 << 19) + 4096, vec!["process 7".into()]);
        assert_eq!(met, [false, false, false, false, false, false, true, false, false].map(Some));
    }

    #[test]
    fn what_is_missing_is_neither() {
        assert_eq!(judged(&[], 0, Vec::new())[..4], [None; 4]);
    }
}
