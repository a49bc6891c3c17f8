//! Create, run_code, kill: one throw-away use.

use super::super::calls::{Caller, timed};
use anyhow::Result;
use std::time::Duration;

#[derive(Default)]
pub struct Steps {
    pub create: Vec<Duration>,
    pub run: Vec<Duration>,
    pub kill: Vec<Duration>,
}

pub async fn once(caller: &mut Caller, template: &str, code: &str, steps: &mut Steps) -> Result<Duration> {
    let (create, sandbox) = timed(caller.create_from(template)).await?;
    let (run, _) = timed(caller.run_code(&sandbox, code, "1\n")).await?;
    let (kill, ()) = timed(caller.kill(&sandbox)).await?;
    steps.create.push(create);
    steps.run.push(run);
    steps.kill.push(kill);
    Ok(create + run + kill)
}
