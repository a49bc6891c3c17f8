//! `sandbox.tools.handle` of the Python SDK beside its `run_code`, in the environment that the SDK's tests made.

use crate::measure::Timing;
use crate::server::part::Findings;
use crate::server::process::Server;
use crate::targets::milliseconds;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const ROUNDS: usize = 500;
const SCRIPT: &str = include_str!("handle.py");
const SDK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../sdk/python/src");

pub fn measure(server: &Server) -> Result<Findings> {
    let output = Command::new(interpreter()?)
        .args(["-c", SCRIPT, &ROUNDS.to_string()])
        .env("PYTHONPATH", SDK)
        .env("PADDOCK_URL", server.url())
        .env_remove("PADDOCK_TOKEN")
        .output()
        .context("python")?;
    if !output.status.success() {
        bail!("the script ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    let told: serde_json::Value =
        serde_json::from_slice(&output.stdout).context("what the script printed")?;
    let samples = |name: &str| -> Result<Vec<Duration>> {
        let list = told[name].as_array().with_context(|| format!("the script told no `{name}`"))?;
        Ok(list.iter().filter_map(serde_json::Value::as_f64).map(Duration::from_secs_f64).collect())
    };
    let plain = Timing::new("run_code", String::new(), samples("plain")?);
    let handled = Timing::new("tools.handle", String::new(), samples("handled")?);
    let mut findings = Findings::default();
    findings.add(
        "added by tools.handle",
        milliseconds(handled.median()) - milliseconds(plain.median()),
        "ms",
    );
    findings.timings = vec![plain, handled];
    Ok(findings)
}

/// The interpreter that `sdk/python/run_tests.py` made, with the packages of the SDK.
pub fn interpreter() -> Result<PathBuf> {
    let python = |directory: &Path| directory.join("bin/python");
    if let Some(chosen) = std::env::var_os("PADDOCK_SDK_ENV") {
        return Ok(python(Path::new(&chosen)));
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let kept = cache.context("no HOME")?.join("paddock");
    let mut found: Vec<PathBuf> = std::fs::read_dir(&kept)
        .map(|entries| entries.filter_map(|entry| Some(entry.ok()?.path())).collect())
        .unwrap_or_default();
    found.retain(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("sdk-python-"))
    });
    found.sort();
    let found = found.iter().map(|path| python(path)).rfind(|path| path.exists());
    found.with_context(|| {
        format!("no environment of the SDK in {}: run sdk/python/run_tests.py first", kept.display())
    })
}
