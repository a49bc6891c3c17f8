//! The promises about the server's speed and size, against the findings.

use super::part::{Findings, Measured, Part};
use super::{
    agents, code, dashboard, e2b, gate, inspect, jobs, laptop, live_fork, machines, run_code, scale, volumes,
};
use crate::targets::{Target, milliseconds};

pub struct Promise {
    part: Part,
    name: &'static str,
    target: &'static str,
    source: Source,
    limit: Limit,
}

pub enum Source {
    /// A percentile of a timing, in milliseconds.
    Percentile(&'static str, usize),
    /// The ratio of two medians.
    Ratio(&'static str, &'static str),
    Fact(&'static str),
}

pub enum Limit {
    AtMost(f64),
    Below(f64),
    AtLeast(f64),
}

use Limit::{AtLeast, AtMost, Below};
use Source::{Fact, Percentile, Ratio};

const PROMISES: [Promise; 21] = [
    promise(
        Part::First,
        "create, exec and kill, unix socket, p50",
        "<= 10 ms",
        Percentile("unix socket", 50),
        AtMost(10.0),
    ),
    promise(Part::First, "create, exec and kill, TCP, p50", "<= 10 ms", Percentile("TCP", 50), AtMost(10.0)),
    promise(Part::First, "`docker run` beside it", ">= 25 x", Ratio("docker", "unix socket"), AtLeast(25.0)),
    promise(
        Part::Warm,
        "warm exec, unix socket, p50",
        "<= 2.5 ms",
        Percentile("unix socket", 50),
        AtMost(2.5),
    ),
    promise(
        Part::Warm,
        "warm exec, unix socket, p99",
        "<= 10 ms",
        Percentile("unix socket", 99),
        AtMost(10.0),
    ),
    promise(Part::Warm, "warm exec, TCP, p50", "<= 2.5 ms", Percentile("TCP", 50), AtMost(2.5)),
    promise(Part::Warm, "warm exec, TCP, p99", "<= 10 ms", Percentile("TCP", 99), AtMost(10.0)),
    promise(Part::Burst, "100 creates at once, failed", "0", Fact("creates that failed"), AtMost(0.0)),
    promise(Part::Burst, "100 creates at once, p95", "<= 600 ms", Percentile("create", 95), AtMost(600.0)),
    promise(Part::Crowd, "live sandboxes", ">= 1,000", Fact("live sandboxes"), AtLeast(1_000.0)),
    promise(Part::Crowd, "memory of each, processes", "<= 3 MiB", Fact("each: processes"), AtMost(3.0)),
    promise(
        Part::Crowd,
        "memory of each, whole machine",
        "<= 3 MiB",
        Fact("each: whole machine"),
        AtMost(3.0),
    ),
    promise(Part::Crowd, "list of 100 among them, p50", "< 5 ms", Percentile("list of 100", 50), Below(5.0)),
    promise(Part::Crowd, "get among them, p50", "< 5 ms", Percentile("get", 50), Below(5.0)),
    promise(Part::Crowd, "server, resident", "< 150 MiB", Fact("server, resident"), Below(150.0)),
    promise(Part::Stream, "output of one exec", ">= 150 MiB/s", Fact("throughput"), AtLeast(150.0)),
    promise(
        Part::Stream,
        "growth of the server meanwhile",
        "< 64 MiB",
        Fact("growth of the server"),
        Below(64.0),
    ),
    promise(
        Part::Fork,
        "100 children with 50 MiB, slowest",
        "<= 1 s",
        Percentile("fork of 100", 100),
        AtMost(1_000.0),
    ),
    promise(Part::Fork, "pause, p50", "<= 10 ms", Percentile("pause", 50), AtMost(10.0)),
    promise(Part::Fork, "resume, p50", "<= 10 ms", Percentile("resume", 50), AtMost(10.0)),
    promise(
        Part::Recovery,
        "found again after kill -9",
        "100",
        Fact("sandboxes found again"),
        AtLeast(100.0),
    ),
];

pub const fn promise(
    part: Part,
    name: &'static str,
    target: &'static str,
    source: Source,
    limit: Limit,
) -> Promise {
    Promise { part, name, target, source, limit }
}

fn all() -> impl Iterator<Item = &'static Promise> {
    let more = gate::PROMISES
        .iter()
        .chain(&agents::PROMISES)
        .chain(&volumes::PROMISES)
        .chain(&jobs::PROMISES)
        .chain(&machines::PROMISES)
        .chain(&live_fork::PROMISES)
        .chain(&laptop::PROMISES)
        .chain(&e2b::PROMISES)
        .chain(&inspect::PROMISES)
        .chain(&run_code::PROMISES)
        .chain(&dashboard::PROMISES)
        .chain(&scale::PROMISES);
    PROMISES.iter().chain(more).chain(&code::PROMISES)
}

/// The targets of the chosen parts, and the verdict about remains.
pub fn judge(measured: &[Measured]) -> Vec<Target> {
    let mut targets = Vec::new();
    for Measured { part, outcome } in measured {
        let promises = all().filter(|promise| promise.part == *part);
        targets.extend(promises.map(|promise| match outcome {
            Ok(findings) => promise.against(findings),
            // The whole reason stands with the part.
            Err(error) => promise.unmeasured(&format!("not measured: {error}")),
        }));
    }
    let left: usize = measured.iter().flat_map(|measured| &measured.outcome).map(|f| f.left.len()).sum();
    let met = measured.iter().all(|measured| measured.outcome.is_ok()).then_some(left == 0);
    targets.push(Target {
        name: "left behind when all were killed",
        target: "0",
        measured: left.to_string(),
        // The remains of a failed part were not counted; those that were found count all the same.
        met: if left > 0 { Some(false) } else { met },
    });
    targets
}

impl Promise {
    fn against(&self, findings: &Findings) -> Target {
        let Some((value, unit)) = self.source.of(findings) else { return self.unmeasured("not measured") };
        let met = match self.limit {
            AtMost(limit) => value <= limit,
            Below(limit) => value < limit,
            AtLeast(limit) => value >= limit,
        };
        Target { name: self.name, target: self.target, measured: format(value, unit), met: Some(met) }
    }

    fn unmeasured(&self, reason: &str) -> Target {
        Target { name: self.name, target: self.target, measured: reason.to_owned(), met: None }
    }
}

impl Source {
    fn of(&self, findings: &Findings) -> Option<(f64, &'static str)> {
        match self {
            Percentile(name, percent) => {
                let timing = findings.timing(name).filter(|timing| timing.count() > 0)?;
                Some((milliseconds(timing.percentile(*percent)), "ms"))
            }
            Ratio(above, below) => {
                let (above, below) = (findings.timing(above)?.median(), findings.timing(below)?.median());
                (!below.is_zero()).then(|| (above.as_secs_f64() / below.as_secs_f64(), "x"))
            }
            Fact(name) => findings.fact(name).map(|fact| (fact.value, fact.unit)),
        }
    }
}

/// A count as it is; the rest with two digits behind the point.
pub fn format(value: f64, unit: &str) -> String {
    match unit {
        "" => format!("{value}"),
        unit => format!("{value:.2} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Timing;
    use std::time::Duration;

    fn warm(micros: u64) -> Measured {
        let samples = || vec![Duration::from_micros(micros)];
        let timings = ["unix socket", "TCP"].map(|name| Timing::new(name, String::new(), samples()));
        let findings = Findings { timings: timings.into(), ..Findings::default() };
        Measured { part: Part::Warm, outcome: Ok(findings) }
    }

    fn met(measured: &[Measured]) -> Vec<Option<bool>> {
        judge(measured).iter().map(|target| target.met).collect()
    }

    #[test]
    fn met_up_to_the_limit_and_missed_beyond_it() {
        assert_eq!(met(&[warm(2_500)]), [Some(true); 5]);
        assert_eq!(met(&[warm(2_501)]), [false, true, false, true, true].map(Some));
    }

    #[test]
    fn what_failed_is_neither() {
        let failed = Measured { part: Part::Stream, outcome: Err(anyhow::anyhow!("no")) };
        assert_eq!(met(&[failed]), [None; 3]);
    }

    #[test]
    fn what_was_left_is_missed() {
        let mut measured = warm(1);
        if let Ok(findings) = &mut measured.outcome {
            findings.left.push("process 7".into());
        }
        assert_eq!(met(&[measured]).last(), Some(&Some(false)));
    }

    /// A promise about something that no part finds would never be judged.
    #[test]
    fn every_part_has_a_promise() {
        // The time of the kernel and Python is not our promise.
        for part in Part::all().filter(|part| *part != Part::CodeFloor) {
            assert!(all().any(|promise| promise.part == part), "{}", part.name());
        }
    }
}
