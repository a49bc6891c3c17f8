//! `sandbox_command`.

use super::arguments::Command;
use super::containers::Containers;
use super::{LoopstackError, Result, paths, short};
use crate::host::Host;
use crate::operations::Operations;
use paddock_model::api::{ExecCause, StartExec};
use serde::Serialize;
use std::collections::BTreeMap;

/// The longest time that the API takes, in milliseconds.
const LONGEST_MS: f64 = 31_622_400_000.0;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Done {
    stdout: String,
    stderr: String,
    exit_code: i32,
    timed_out: bool,
}

/// A command that fails is data. One that takes too long is killed with all that it started.
pub async fn run<H: Host>(containers: &Containers<H>, given: Command) -> Result<Done> {
    if !(given.timeout > 0.0 && given.timeout <= LONGEST_MS) {
        let reason = format!("timeout is {}, not a number of milliseconds above 0", given.timeout);
        return Err(LoopstackError::Arguments { tool: "sandbox_command".into(), reason });
    }
    let cwd = paths::working_directory(&given.working_directory)?;
    let sandbox = containers.sandbox(&given.container_id).await?;
    let request = StartExec {
        argv: Some(std::iter::once(given.executable).chain(given.args).collect()),
        env: variables(&given.env_vars)?,
        cwd: Some(cwd),
        timeout_seconds: Some(given.timeout / 1000.0),
        ..StartExec::default()
    };
    let exec = sandbox.run_command(request).await?;
    let stderr = match &exec.cause {
        Some(ExecCause::NotStarted { detail }) if exec.stderr.is_empty() => detail.clone(),
        _ => exec.stderr,
    };
    Ok(Done {
        stdout: exec.stdout.trim().to_string(),
        stderr: stderr.trim().to_string(),
        exit_code: if exec.timed_out { -1 } else { exec.exit_code.unwrap_or(-1) },
        timed_out: exec.timed_out,
    })
}

fn variables(given: &[String]) -> Result<BTreeMap<String, String>> {
    let pair = |text: &String| match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_string(), value.to_string())),
        _ => Err(LoopstackError::Arguments {
            tool: "sandbox_command".into(),
            reason: format!("envVars has '{}', which is not KEY=VALUE", short(text)),
        }),
    };
    given.iter().map(pair).collect()
}
