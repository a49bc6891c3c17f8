//! The same probe outside the fence: it must succeed there, or its failure inside shows nothing.
//!
//! Mounts, signals and settings are tried in throw-away namespaces only, which the probe makes for itself
//! (`probe::throw_away`). A bare mount over /tmp once broke a host.

use crate::attack::{Attack, Control, Finding, Line, Outcome};
use crate::expectations::Expectation;
use crate::fence::{Run, finish, start};
use crate::host::Host;
use crate::probe::PROBE;
use crate::scenarios::{Scenario, Shown};
use anyhow::Result;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

/// The outcomes of the attacks outside; the same for every fence, so found out once.
pub struct Controls {
    findings: BTreeMap<String, Finding>,
    as_root: bool,
}

impl Controls {
    pub fn run(host: &Host, attacks: &[&Attack], scenarios: &[&Scenario]) -> Result<Controls> {
        let outside = Outside::prepare(host)?;
        let mut findings = BTreeMap::new();
        for control in [Control::Namespaces, Control::Host] {
            let ids: Vec<&str> = attacks.iter().filter(|a| a.control == control).map(|a| a.id).collect();
            if !ids.is_empty() {
                let run = outside.run(control, &["--batch", &ids.join(",")])?;
                findings.extend(lines(&run.stdout));
            }
        }
        let place = outside.scratch.join("place").display().to_string();
        for scenario in scenarios {
            let Shown::Part(part) = scenario.control else { continue };
            let words = part.iter().map(|word| if *word == "PLACE" { place.as_str() } else { *word });
            let arguments: Vec<&str> = std::iter::once("--do").chain(words).collect();
            let run = outside.run(Control::Namespaces, &arguments)?;
            let said = part.first().and_then(|name| lines(&run.stdout).remove(*name));
            findings.extend(said.map(|finding| (scenario.id.to_string(), finding)));
        }
        Ok(Controls { findings, as_root: host.as_root })
    }

    /// `Ok(None)` when the attack is shown to work; a reason when the host cannot show it.
    pub fn show(&self, id: &str, expectation: &Expectation) -> Result<Option<String>, String> {
        let said = match self.findings.get(id) {
            Some(finding) if finding.outcome == Outcome::Done => return Ok(None),
            Some(finding) => format!("{:?}: {}", finding.outcome, finding.detail),
            None => "said nothing".to_string(),
        };
        match &expectation.control_may_fail {
            Some(reason) => Ok(Some(format!("{reason} (control: {said})"))),
            None if !self.as_root => Ok(Some(format!("the control needs root (control: {said})"))),
            None => Err(format!("the control did not succeed: {said}")),
        }
    }
}

struct Outside {
    probe: PathBuf,
    scratch: PathBuf,
    secret: String,
}

impl Outside {
    fn prepare(host: &Host) -> Result<Outside> {
        let folder = host.outside()?;
        let scratch = folder.with_file_name("scratch");
        Ok(Outside { probe: folder.join("probe"), scratch, secret: host.secret.clone() })
    }

    fn run(&self, control: Control, arguments: &[&str]) -> Result<Run> {
        let mut command = Command::new(&self.probe);
        command.arg(PROBE);
        match control {
            Control::Namespaces => command.arg("--throw-away").arg(&self.scratch),
            _ => command.arg("--with-descriptor"),
        };
        command.args(arguments).env("PADDOCK_CANARY_SECRET", &self.secret).current_dir("/");
        finish(start(command)?)
    }
}

/// The probe's answers; anything else on its stdout is not one.
pub fn lines(stdout: &str) -> BTreeMap<String, Finding> {
    let parsed = stdout.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
    parsed.map(|line| (line.attack, line.finding)).collect()
}
