//! An evaluation of Inspect with a scripted model, whose samples are forks of one prepared sandbox.

use super::Setting;
use super::frameworks::{durations, frameworks, told};
use super::part::{Findings, Part};
use super::process::Server;
use super::promises::{Limit, Promise, Source, promise};
use crate::measure::Timing;
use anyhow::{Context, Result};
use serde_json::Value;
use std::process::Command;

const SCRIPT: &str = include_str!("inspect_samples.py");
const SAMPLES: usize = 200;
/// Sandboxes that are made anew, beside the forks.
const NEW_SANDBOXES: usize = 20;
const PACKAGES: [&str; 2] = [
    concat!(env!("CARGO_MANIFEST_DIR"), "/../sdk/python/src"),
    concat!(env!("CARGO_MANIFEST_DIR"), "/../sdk/integrations/src"),
];

const SET_UP: &str = "set-up of a sample, one after the other";
const TAKEN_DOWN: &str = "its clean-up";
const CROWD_SET_UP: &str = "set-up with as many samples at once as Inspect likes";
const CROWD_TAKEN_DOWN: &str = "clean-up with as many";
const FRESH_SET_UP: &str = "a sandbox made anew and set up, no fork";
const WHOLE: &str = "the whole evaluation, one after the other";
const CROWD_WHOLE: &str = "the whole evaluation, as many at once as Inspect likes";

pub const PROMISES: [Promise; 1] = [promise(
    Part::Inspect,
    "set-up of one of 200 Inspect samples, p50",
    "<= 25 ms",
    Source::Percentile(SET_UP, 50),
    Limit::AtMost(25.0),
)];

pub async fn measure(setting: Setting<'_>, server: &Server) -> Result<Findings> {
    let samples = setting.counts.rounds.min(SAMPLES);
    let told = ask(setting, server, samples)?;
    let timing = |name, run: &str, of: &str| {
        Ok::<_, anyhow::Error>(Timing::new(name, String::new(), durations(&told[run], of)?))
    };
    let mut findings = Findings {
        timings: vec![
            timing(SET_UP, "alone", "set_up")?,
            timing(TAKEN_DOWN, "alone", "taken_down")?,
            timing(CROWD_SET_UP, "crowd", "set_up")?,
            timing(CROWD_TAKEN_DOWN, "crowd", "taken_down")?,
            Timing::new(FRESH_SET_UP, String::new(), durations(&told, "fresh")?),
        ],
        ..Findings::default()
    };
    for (name, run) in [(WHOLE, "alone"), (CROWD_WHOLE, "crowd")] {
        findings.add(name, told[run]["whole"].as_f64().context("the script told no `whole`")?, "s");
    }
    findings.notes.push(format!(
        "{samples} samples of Inspect, each with one call of its tool `bash` by a scripted model, twice: one after the other, and as many at \
         once as Inspect likes, where a set-up also waits for what Inspect's one thread does for the others. The set-up is the call of \
         the provider's `sample_init`, which forks the prepared sandbox."
    ));
    Ok(findings)
}

fn ask(setting: Setting<'_>, server: &Server, samples: usize) -> Result<Value> {
    let python = frameworks(setting)?.python;
    told(
        Command::new(python)
            .args(["-W", "ignore", "-c", SCRIPT])
            .args([samples.to_string(), NEW_SANDBOXES.to_string()])
            .arg(setting.scratch.directory("inspect-logs")?)
            .env("PYTHONPATH", PACKAGES.join(":"))
            .env("PADDOCK_URL", server.url())
            .env_remove("PADDOCK_TOKEN"),
    )
}
