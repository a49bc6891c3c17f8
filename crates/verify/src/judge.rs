//! The verdict on one attack: the expectation, the control's outcome, the finding inside.

use crate::attack::{Attack, Control, Finding, Outcome, Stage as Staging};
use crate::control::{Controls, lines};
use crate::expectations::Expectations;
use crate::fence::Fence;
use crate::host::Host;
use crate::interrupt;
use crate::report::{Judgement, Row};
use crate::scenarios::{Scenario, Shown, Stage};
use anyhow::{Context, Result};
use paddock_model::{Capability, Cause, Guarantees};
use std::time::Duration;

pub struct Judge<'a> {
    pub host: &'a Host,
    pub fence: &'a Fence,
    pub expectations: &'a Expectations,
    pub controls: &'a Controls,
    /// Prints every finding as it comes.
    pub verbose: bool,
}

/// Longest that an attack in a sandbox of its own may hold up the end of the run.
const PROMPT: Duration = Duration::from_secs(30);
/// Extra time for an emulated processor: seconds, if others are at work too. An attack that blocks a run does so for
/// minutes.
const EMULATED_GRACE: Duration = Duration::from_secs(30);

impl Judge<'_> {
    /// All attacks of one backend and identity.
    pub fn all(
        &self,
        attacks: &[&Attack],
        scenarios: &[&Scenario],
        row: &mut Row,
        told: &mut dyn FnMut(&str),
    ) -> Result<()> {
        let (batch, alone): (Vec<&Attack>, Vec<&Attack>) =
            attacks.iter().partition(|attack| attack.stage == Staging::Batch);
        let ids: Vec<&str> = batch.iter().map(|attack| attack.id).collect();
        told(ids.first().copied().unwrap_or_default());
        let run = self.fence.probe(self.host, &["--timeout", "60s"], &["--batch", &ids.join(",")])?;
        let report = run.report().context("the batch of attacks")?;
        let guarantees = report.guarantees.clone();
        row.guarantees = Some(guarantees.clone());
        let grace = match guarantees.can(Capability::EmulatedProcessor) {
            true => EMULATED_GRACE,
            false => Duration::ZERO,
        };
        let found = lines(&report.stdout);
        for attack in batch {
            let finding = found.get(attack.id).cloned().context("no answer");
            let judgement = self.judge(attack.id, &guarantees, attack.control, || finding);
            row.put(attack.id, attack.title, judgement);
        }
        for attack in alone {
            interrupt::check()?;
            told(attack.id);
            let run = || self.alone(attack, grace);
            let judgement = self.judge(attack.id, &guarantees, attack.control, run);
            row.put(attack.id, attack.title, judgement);
        }
        let stage = Stage { host: self.host, fence: self.fence, grace };
        for scenario in scenarios {
            interrupt::check()?;
            told(scenario.id);
            let control = match scenario.control {
                Shown::Part(_) => Control::Namespaces,
                Shown::Behaviour => Control::EffectOnly,
            };
            let judgement = self.judge(scenario.id, &guarantees, control, || (scenario.run)(&stage));
            row.put(scenario.id, scenario.title, judgement);
        }
        Ok(())
    }

    /// The run must be reported as finished by itself, even if the attack hit the guest.
    fn alone(&self, attack: &Attack, grace: Duration) -> Result<Finding> {
        let run = self.fence.probe(self.host, &["--timeout", "20s"], &[attack.id])?;
        let report = run.report()?;
        let finding = lines(&report.stdout).remove(attack.id);
        anyhow::ensure!(
            report.cause == Cause::Finished && report.exit_code == 0,
            "ended with {:?}, exit {}, stderr {:?}",
            report.cause,
            report.exit_code,
            report.stderr
        );
        anyhow::ensure!(run.wall < PROMPT + grace, "took {:?}", run.wall);
        finding.context("no answer")
    }

    fn judge(
        &self,
        id: &str,
        guarantees: &Guarantees,
        control: Control,
        run: impl FnOnce() -> Result<Finding>,
    ) -> Judgement {
        let Some(expectation) = self.expectations.of(id) else {
            return Judgement::Failed("nothing is expected of it".to_string());
        };
        if let Some(reason) = expectation.excuse(self.fence.identity, guarantees) {
            return Judgement::NotApplicable(reason);
        }
        let shown =
            if control == Control::EffectOnly { Ok(None) } else { self.controls.show(id, expectation) };
        let found = run();
        if self.verbose {
            println!("{} {} {id}: {found:?}", self.fence.backend, self.fence.identity);
        }
        match found {
            Ok(finding) if expectation.verdict.accepts(finding.outcome) => match shown {
                Ok(None) => Judgement::Held,
                Ok(Some(reason)) => Judgement::NotApplicable(reason),
                Err(why) => Judgement::Failed(why),
            },
            Ok(Finding { outcome: Outcome::Error, detail }) => {
                Judgement::Failed(format!("the attack could not be carried out: {detail}"))
            }
            Ok(finding) => {
                let (verdict, outcome) = (expectation.verdict, finding.outcome);
                Judgement::Failed(format!("{verdict:?} expected, but {outcome:?}: {}", finding.detail))
            }
            Err(error) => Judgement::Failed(format!("{error:#}")),
        }
    }
}
