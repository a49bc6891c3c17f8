//! Many runs of one workload, with the contestants interleaved so that the host's noise meets all alike.

use crate::command;
use crate::contestants::{Contestant, Field, Workload};
use crate::interrupt;
use crate::peers::Missing;
use anyhow::{Result, bail};
use std::process::Command;
use std::time::Duration;

const WARM_UP: usize = 5;

/// All that was measured with one workload.
pub struct Race {
    pub workload: Workload,
    pub rounds: usize,
    pub results: Vec<Timing>,
    pub missing: Vec<Missing>,
}

pub struct Timing {
    pub name: &'static str,
    pub version: String,
    /// In ascending order.
    samples: Vec<Duration>,
}

impl Race {
    pub fn timing(&self, name: &str) -> Option<&Timing> {
        self.results.iter().find(|timing| timing.name == name)
    }
}

impl Timing {
    pub fn new(name: &'static str, version: String, mut samples: Vec<Duration>) -> Timing {
        samples.sort();
        Timing { name, version, samples }
    }

    /// The nearest rank: always a time that was measured.
    pub fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.samples.len() * percent).div_ceil(100).max(1);
        self.samples.get(rank - 1).copied().unwrap_or_default()
    }

    pub fn count(&self) -> usize {
        self.samples.len()
    }

    pub fn median(&self) -> Duration {
        self.percentile(50)
    }
}

pub fn race(field: &Field, workload: Workload, rounds: usize) -> Result<Race> {
    let mut missing = field.missing.clone();
    let mut runners = Vec::new();
    for contestant in field.race() {
        match try_once(contestant, workload) {
            Ok(()) => runners.push(Runner::new(contestant, workload, rounds)),
            Err(error) => {
                missing.push(Missing { name: contestant.name(), reason: format!("{error:#}") });
            }
        }
    }
    interrupt::check()?;
    let names: Vec<_> = runners.iter().map(|runner| runner.contestant.name()).collect();
    eprintln!("{}: {} rounds of {}", workload.name(), rounds, names.join(", "));

    let mut random = Random(0x5eed);
    for round in 0..WARM_UP + rounds {
        // In a fixed order, the same one would always run in the wake of the heaviest.
        random.shuffle(&mut runners);
        for runner in runners.iter_mut().filter(|runner| runner.failure.is_none()) {
            runner.run(round >= WARM_UP);
            interrupt::check()?;
        }
    }

    let mut results = Vec::new();
    for contestant in field.race() {
        let Some(at) = runners.iter().position(|runner| runner.contestant.name() == contestant.name()) else {
            continue;
        };
        let runner = runners.swap_remove(at);
        match runner.failure {
            Some(reason) => missing.push(Missing { name: contestant.name(), reason }),
            None => results.push(Timing::new(contestant.name(), contestant.version(), runner.samples)),
        }
    }
    Ok(Race { workload, rounds, results, missing })
}

fn try_once(contestant: &dyn Contestant, workload: Workload) -> Result<()> {
    let output = contestant.command(workload).output()?;
    if output != workload.expected_output() {
        bail!("it printed {output:?} instead of {:?}", workload.expected_output());
    }
    Ok(())
}

struct Runner<'a> {
    contestant: &'a dyn Contestant,
    command: Command,
    samples: Vec<Duration>,
    failure: Option<String>,
}

impl<'a> Runner<'a> {
    fn new(contestant: &'a dyn Contestant, workload: Workload, rounds: usize) -> Runner<'a> {
        let command = contestant.command(workload).quiet();
        Runner { contestant, command, samples: Vec::with_capacity(rounds), failure: None }
    }

    fn run(&mut self, counts: bool) {
        match command::time(&mut self.command) {
            Ok((elapsed, status)) if status.success() => {
                if counts {
                    self.samples.push(elapsed);
                }
            }
            Ok((_, status)) => self.failure = Some(format!("run {}: {status}", self.samples.len() + 1)),
            Err(error) => self.failure = Some(format!("run {}: {error:#}", self.samples.len() + 1)),
        }
        std::thread::sleep(self.contestant.settle());
    }
}

/// Small, fast and always the same.
struct Random(u64);

impl Random {
    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_measured_times() {
        let samples = (1..=100).rev().map(Duration::from_millis).collect();
        let timing = Timing::new("x", String::new(), samples);
        assert_eq!(timing.median(), Duration::from_millis(50));
        assert_eq!(timing.percentile(95), Duration::from_millis(95));
        assert_eq!(timing.percentile(0), Duration::from_millis(1));
        assert_eq!(timing.percentile(100), Duration::from_millis(100));
    }

    #[test]
    fn each_place_is_taken_by_everybody() {
        let mut random = Random(0x5eed);
        let mut firsts = [0; 4];
        for _ in 0..400 {
            let mut order = [0, 1, 2, 3];
            random.shuffle(&mut order);
            firsts[order[0]] += 1;
        }
        assert!(firsts.iter().all(|&count| count > 60), "{firsts:?}");
    }
}
