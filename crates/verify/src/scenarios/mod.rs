//! Attacks that need limits of their own, two sandboxes at once, or a look from outside.

mod ends;
mod gate;
mod limits;
mod output;
mod own;
mod sharing;

use crate::attack::{Finding, Outcome};
use crate::control::lines;
use crate::fence::{Fence, Run};
use crate::host::Host;
use anyhow::{Context, Result};
use std::time::Duration;

pub struct Stage<'a> {
    pub host: &'a Host,
    pub fence: &'a Fence,
    /// Extra time for every wait, for a slow kind of fence.
    pub grace: Duration,
}

/// The proof that the attack works without a fence.
#[derive(Clone, Copy)]
pub enum Shown {
    /// `probe --do ...` outside, with `PLACE` standing for a directory in memory.
    Part(&'static [&'static str]),
    /// Nothing to show: the scenario asks how Paddock itself behaves.
    Behaviour,
}

#[derive(Clone, Copy)]
pub struct Scenario {
    pub id: &'static str,
    pub title: &'static str,
    pub control: Shown,
    pub run: fn(&Stage) -> Result<Finding>,
}

pub fn scenarios() -> impl Iterator<Item = &'static Scenario> {
    let all = [ends::SCENARIOS, gate::SCENARIOS, limits::SCENARIOS, output::SCENARIOS, sharing::SCENARIOS];
    all.into_iter().chain([own::SCENARIOS]).flatten()
}

impl Stage<'_> {
    /// `probe --do PART ...` behind the fence.
    fn part(&self, flags: &[&str], arguments: &[&str]) -> Result<Run> {
        let arguments: Vec<&str> = std::iter::once("--do").chain(arguments.iter().copied()).collect();
        self.fence.probe(self.host, flags, &arguments)
    }

    /// The part's own result, from a run that ended by itself.
    fn said(&self, flags: &[&str], arguments: &[&str]) -> Result<Finding> {
        let report = self.part(flags, arguments)?.report()?;
        let said = lines(&report.stdout).remove(arguments[0]);
        said.with_context(|| format!("the part said nothing: {:?}, stderr {:?}", report.cause, report.stderr))
    }
}

fn finding(outcome: Outcome, detail: impl Into<String>) -> Result<Finding> {
    Ok(Finding::new(outcome, detail))
}
