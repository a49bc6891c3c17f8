//! The same from a template whose interpreter has imported pandas before the request.

use super::super::part::Findings;
use super::super::process::Server;
use super::once::{Steps, once};
use super::rivals::Rivals;
use super::{Setting, pool};
use crate::command::{CommandLine, Environment};
use crate::contestants::{Field, Workload};
use crate::measure::Timing;
use anyhow::{Context, Result};
use std::time::Duration;

const TEMPLATE: &str = "bench-pandas";
const CODE: &str = "import pandas; print(1)";
const WARM_UP: usize = 5;
const POOL: (usize, usize) = (16, 64);
const SETTLE: Duration = Duration::from_millis(50);

pub async fn measure(setting: Setting<'_>, server: &Server, beside: Option<&Field>) -> Result<Findings> {
    let mut findings = Findings::default();
    let python = CommandLine::new("/usr/bin/python3").args(["-c", "import pandas"]);
    python.output().context("not available: /usr/bin/python3 has no pandas (Debian's python3-pandas)")?;
    add_template(server).context("not available: no template with `preload`")?;
    let mut rivals = Rivals::prepare(setting, beside, Workload::Pandas);
    let mut caller = server.caller().await?;
    pool::set(&mut caller, &mut findings, TEMPLATE, POOL.0, POOL.1).await?;
    let (mut samples, mut steps) = (Vec::new(), Steps::default());
    for round in 0..WARM_UP + setting.counts.rounds / 3 {
        if round == WARM_UP {
            (samples, steps) = (Vec::new(), Steps::default());
            rivals.forget();
        }
        samples.push(once(&mut caller, TEMPLATE, CODE, &mut steps).await?);
        tokio::time::sleep(SETTLE).await;
        rivals.round(round).await?;
    }
    pool::count(&mut caller, &mut findings, TEMPLATE).await;
    findings.timings = vec![
        Timing::new("paddock, unix socket", String::new(), samples),
        Timing::new("of which create", String::new(), steps.create),
        Timing::new("of which run_code", String::new(), steps.run),
        Timing::new("of which kill", String::new(), steps.kill),
    ];
    rivals.finish(&mut findings);
    findings.notes.push(format!("All of them run `{CODE}`; the template has `preload = [\"pandas\"]`."));
    Ok(findings)
}

/// Adds the template as a person does.
fn add_template(server: &Server) -> Result<()> {
    let policy = server.paddock.temporary.join("pandas.toml");
    std::fs::write(&policy, "preload = [\"pandas\"]\n")?;
    let mut line = CommandLine::new(&server.paddock.program);
    line = line.args(["template", "add", TEMPLATE, "--policy"]).arg(&policy);
    let state = server.paddock.state.clone().into();
    line.environment = Environment::Inherited(vec![("PADDOCK_STATE_DIR", state)]);
    line.output().map(drop)
}
