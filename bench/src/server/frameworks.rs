//! Agent frameworks as the tests have them, for parts that measure what a framework's user waits for.

use super::Setting;
use crate::command::CommandLine;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// The place that `scripts/packages.py` fills, unless this names another.
const PLACE: &str = "PADDOCK_TEST_INTEGRATIONS";
/// The frameworks are a gigabyte.
const INSTALL: Duration = Duration::from_secs(1_200);

pub struct Frameworks {
    /// Of the environment that has them.
    pub python: PathBuf,
    /// The clients of SandboxFusion, which no environment has.
    pub rewards: PathBuf,
}

/// Fetches what is missing, and what another list of versions was fetched for.
pub fn frameworks(setting: Setting<'_>) -> Result<Frameworks> {
    let given = std::env::var_os(PLACE).map(PathBuf::from);
    let root = Path::new(ROOT);
    let place = given.clone().unwrap_or_else(|| root.join("target/test-packages/integrations"));
    if given.is_none() && setting.install {
        eprintln!("fetching the agent frameworks, where they are not there yet");
        CommandLine::new("python3")
            .arg(root.join("scripts/packages.py"))
            .arg("integrations")
            .output_within(INSTALL)
            .context("the agent frameworks")?;
    }
    let missing = |name: &str| !place.join(name).join("complete").exists();
    if missing("agents") || missing("rewards") {
        bail!(
            "{} lacks the agent frameworks; fetch them with `python3 scripts/packages.py integrations`",
            place.display()
        );
    }
    Ok(Frameworks { python: place.join("agents/bin/python"), rewards: place.join("rewards") })
}

/// The JSON in the last line that a script printed.
pub fn told(command: &mut Command) -> Result<Value> {
    let output = command.output().context("python")?;
    if !output.status.success() {
        bail!("the script ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    let printed = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(printed.lines().last().unwrap_or_default()).context("the script printed no JSON")
}

pub fn durations(told: &Value, name: &str) -> Result<Vec<Duration>> {
    let list = told[name].as_array().with_context(|| format!("the script told no `{name}`"))?;
    Ok(list.iter().filter_map(Value::as_f64).map(Duration::from_secs_f64).collect())
}
