//! Create, first exec of `true`, kill: the cost of one throw-away use of a sandbox, beside `docker run --rm`.

use super::calls::{Caller, timed};
use super::part::Findings;
use super::process::Server;
use crate::command;
use crate::contestants::{Contestant, Field, Workload};
use crate::measure::Timing;
use anyhow::{Context, Result, bail};
use std::process::Command;
use std::time::Duration;

pub const ROUNDS: usize = 120;
const WARM_UP: usize = 10;

/// Docker takes part in every third round: it needs thirty times as long, and its median is as steady.
const DOCKER_EVERY: usize = 3;

#[derive(Default)]
struct Steps {
    create: Vec<Duration>,
    exec: Vec<Duration>,
    kill: Vec<Duration>,
}

pub async fn measure(server: &Server, beside: Option<&Field>) -> Result<Findings> {
    let mut findings = Findings::default();
    let mut docker = match docker(beside) {
        Ok(docker) => Some(docker),
        Err(error) => {
            findings.notes.push(format!("docker: missing: {error:#}"));
            None
        }
    };
    let mut by_socket = server.caller().await?;
    let token = by_socket.token().await?;
    let mut by_tcp = server.caller_by_tcp(&token).await?;
    let (mut sockets, mut tcps, mut dockers) = (Vec::new(), Vec::new(), Vec::new());
    let mut steps = Steps::default();
    let mut unused = Steps::default();
    for round in 0..WARM_UP + ROUNDS {
        if round == WARM_UP {
            (sockets, tcps, dockers) = (Vec::new(), Vec::new(), Vec::new());
            steps = Steps::default();
        }
        if round % 2 == 0 {
            sockets.push(once(&mut by_socket, &mut steps).await?);
            tcps.push(once(&mut by_tcp, &mut unused).await?);
        } else {
            tcps.push(once(&mut by_tcp, &mut unused).await?);
            sockets.push(once(&mut by_socket, &mut steps).await?);
        }
        if let Some((contestant, command)) = docker.as_mut().filter(|_| round % DOCKER_EVERY == 0) {
            let (elapsed, status) = command::time(command)?;
            if !status.success() {
                bail!("docker run: {status}");
            }
            dockers.push(elapsed);
            tokio::time::sleep(contestant.settle()).await;
        }
    }
    findings.timings = vec![
        Timing::new("unix socket", String::new(), sockets),
        Timing::new("TCP", String::new(), tcps),
        Timing::new("of which create", String::new(), steps.create),
        Timing::new("of which exec", String::new(), steps.exec),
        Timing::new("of which kill", String::new(), steps.kill),
    ];
    if let Some((contestant, _)) = docker {
        let version = contestant.version();
        findings.notes.push(format!("docker: `docker run --rm` without a network, {version}"));
        findings.timings.push(Timing::new("docker", version, dockers));
    }
    findings.notes.push("Connections are kept; the steps are those on the unix socket.".into());
    Ok(findings)
}

async fn once(caller: &mut Caller, steps: &mut Steps) -> Result<Duration> {
    let (create, sandbox) = timed(caller.create()).await?;
    let (exec, ()) = timed(caller.exec(&sandbox, Workload::True.command())).await?;
    let (kill, ()) = timed(caller.kill(&sandbox)).await?;
    steps.create.push(create);
    steps.exec.push(exec);
    steps.kill.push(kill);
    Ok(create + exec + kill)
}

fn docker(beside: Option<&Field>) -> Result<(&dyn Contestant, Command)> {
    let field = beside.context("it is not set up for this part")?;
    if let Some(missing) = field.missing.iter().find(|missing| missing.name == "docker") {
        bail!("{}", missing.reason);
    }
    let contestant = field.all().find(|contestant| contestant.name() == "docker").context("not there")?;
    let line = contestant.command(Workload::True);
    line.output()?;
    Ok((contestant, line.quiet()))
}
