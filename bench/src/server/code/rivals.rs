//! All products that run Python here, in turns with Paddock.

use super::super::part::Findings;
use super::Setting;
use super::jupyter::Jupyter;
use crate::command;
use crate::contestants::{Contestant, Field, Workload};
use crate::interrupt;
use crate::measure::Timing;
use crate::peers::{self, Missing};
use anyhow::{Result, bail};
use std::process::Command;
use std::time::Duration;

/// The slower, the more rarely: a median of thirty is as steady, and the whole does not take an hour.
const OFTEN: Duration = Duration::from_millis(60);
const RARELY: usize = 10;

pub struct Rivals<'a> {
    commands: Vec<Rival<'a>>,
    jupyter: Option<(Jupyter, Vec<Duration>)>,
    missing: Vec<Missing>,
}

struct Rival<'a> {
    contestant: Whose<'a>,
    command: Command,
    every: usize,
    samples: Vec<Duration>,
}

enum Whose<'a> {
    Field(&'a dyn Contestant),
    Own(Box<dyn Contestant>),
}

impl Whose<'_> {
    fn get(&self) -> &dyn Contestant {
        match self {
            Whose::Field(contestant) => *contestant,
            Whose::Own(contestant) => contestant.as_ref(),
        }
    }
}

impl<'a> Rivals<'a> {
    /// The rivals that print the right text; the others with their reason.
    pub fn prepare(setting: Setting<'_>, beside: Option<&'a Field>, workload: Workload) -> Rivals<'a> {
        let mut rivals = Rivals { commands: Vec::new(), jupyter: None, missing: Vec::new() };
        let Some(field) = beside else { return rivals };
        rivals.missing.extend(field.missing.iter().cloned());
        for contestant in field.all().filter(|contestant| contestant.name() != "paddock") {
            rivals.add(Whose::Field(contestant), workload);
            match contestant.running() {
                Some(Ok(running)) => rivals.add(Whose::Own(running), workload),
                Some(Err(error)) => rivals.lacks("docker exec", &error),
                None => {}
            }
        }
        if workload != Workload::Python {
            return rivals;
        }
        let (more, missing) = peers::prepare_more(setting.scratch, setting.install);
        rivals.missing.extend(missing);
        more.into_iter().for_each(|contestant| rivals.add(Whose::Own(contestant), workload));
        match Jupyter::start(setting) {
            Ok(jupyter) => rivals.jupyter = Some((jupyter, Vec::new())),
            Err(error) => rivals.lacks("jupyter", &error),
        }
        rivals
    }

    fn add(&mut self, contestant: Whose<'a>, workload: Workload) {
        let (name, line) = (contestant.get().name(), contestant.get().command(workload));
        let mut command = line.quiet();
        let tried = line.output().and_then(|output| match output == workload.expected_output() {
            true => command::time(&mut command),
            false => bail!("it printed {output:?}"),
        });
        match tried {
            Ok((elapsed, _)) => {
                let every = if elapsed < OFTEN { 1 } else { RARELY };
                self.commands.push(Rival { contestant, command, every, samples: Vec::new() });
            }
            Err(error) => self.lacks(name, &error),
        }
    }

    fn lacks(&mut self, name: &'static str, error: &anyhow::Error) {
        eprintln!("{name}: {error:#}");
        self.missing.push(Missing { name, reason: format!("{error:#}") });
    }

    pub fn forget(&mut self) {
        self.commands.iter_mut().for_each(|rival| rival.samples.clear());
        self.jupyter.iter_mut().for_each(|(_, samples)| samples.clear());
    }

    /// A rival that fails takes no more part, and is named with the reason.
    pub async fn round(&mut self, round: usize) -> Result<()> {
        let mut failed = Vec::new();
        for (index, rival) in self.commands.iter_mut().enumerate() {
            if !round.is_multiple_of(rival.every) {
                continue;
            }
            match command::time(&mut rival.command) {
                Ok((elapsed, status)) if status.success() => rival.samples.push(elapsed),
                Ok((_, status)) => failed.push((index, format!("round {round}: {status}"))),
                Err(error) => failed.push((index, format!("round {round}: {error:#}"))),
            }
            tokio::time::sleep(rival.contestant.get().settle()).await;
            interrupt::check()?;
        }
        for (index, reason) in failed.into_iter().rev() {
            let rival = self.commands.remove(index);
            self.missing.push(Missing { name: rival.contestant.get().name(), reason });
        }
        if let Some((jupyter, samples)) = self.jupyter.as_mut().filter(|_| round.is_multiple_of(RARELY)) {
            match jupyter.cold() {
                Ok(elapsed) => samples.push(elapsed),
                Err(error) => {
                    self.missing.push(Missing { name: "jupyter", reason: format!("{error:#}") });
                    self.jupyter = None;
                }
            }
        }
        Ok(())
    }

    pub fn finish(self, findings: &mut Findings) {
        for Rival { contestant, samples, .. } in self.commands {
            let (name, version) = (contestant.get().name(), contestant.get().version());
            findings.notes.push(format!("{name}: {version}"));
            findings.timings.push(Timing::new(name, version, samples));
        }
        if let Some((jupyter, samples)) = self.jupyter {
            let version = jupyter.version().to_owned();
            findings
                .notes
                .push(format!("jupyter: {version}: start of a kernel, one execution, its end; no fence."));
            findings.timings.push(Timing::new("jupyter", version, samples));
        }
        for Missing { name, reason } in self.missing {
            findings.notes.push(format!("{name}: missing: {reason}"));
        }
    }
}
