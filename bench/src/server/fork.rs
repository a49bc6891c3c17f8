//! A hundred children of a sandbox with files in it; and pause and resume of one with a process in it.

use super::calls::{Caller, text, timed};
use super::parallel;
use super::part::Findings;
use super::process::Server;
use crate::measure::Timing;
use anyhow::{Context, Result, bail};
use serde_json::json;

const CHILDREN: usize = 100;
const FORKS: usize = 3;
const ROUNDS: usize = 50;

const FILL: &str =
    "mkdir files && cd files && for n in $(seq 50); do head -c 1048576 /dev/urandom > $n; done";
const CHECK: &str = "test $(cat files/* | wc -c) = 52428800";

pub async fn measure(server: &Server) -> Result<Findings> {
    let mut caller = server.caller().await?;
    let parent = caller.create().await?;
    caller.exec(&parent, &["sh", "-c", FILL]).await?;
    let mut forks = Vec::new();
    for _ in 0..FORKS {
        let path = format!("/v1/sandboxes/{parent}/fork");
        let (elapsed, forked) = timed(caller.post(&path, &json!({ "count": CHILDREN }))).await?;
        forks.push(elapsed);
        let children = forked["sandboxes"].as_array().context("the answer has no sandboxes")?;
        let children = children.iter().map(|child| text(child, "id")).collect::<Result<Vec<_>>>()?;
        let last = children.last().context("no child")?;
        if children.len() != CHILDREN {
            bail!("{} children came of {CHILDREN}", children.len());
        }
        caller.exec(last, &["sh", "-c", CHECK]).await.context("the files of the last child")?;
        parallel::kill(server, children).await?;
    }
    let (pauses, resumes) = freeze(&mut caller, &parent).await?;
    let mut findings = Findings {
        timings: vec![Timing::new("fork of 100", String::new(), forks), pauses, resumes],
        ..Findings::default()
    };
    findings.notes.push(
        "The source has 50 files of 1 MiB of random bytes, just written; one call makes all 100 children, and is \
         made three times. Paused and resumed while a command runs inside."
            .into(),
    );
    let sandbox = caller.get(&format!("/v1/sandboxes/{parent}")).await?;
    let (snapshot, pause) =
        (text(&sandbox["guarantees"], "snapshot")?, text(&sandbox["guarantees"], "pause")?);
    // Without btrfs a fork copies all files, which is another thing to measure.
    findings
        .notes
        .push(format!("What this machine and user can do: snapshot `{snapshot}`, pause `{pause}`."));
    Ok(findings)
}

async fn freeze(caller: &mut Caller, sandbox: &str) -> Result<(Timing, Timing)> {
    let command = json!({ "argv": ["sleep", "600"], "background": true });
    caller.post(&format!("/v1/sandboxes/{sandbox}/execs"), &command).await?;
    let (mut pauses, mut resumes) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        for (action, state, samples) in
            [("pause", "paused", &mut pauses), ("resume", "running", &mut resumes)]
        {
            let path = format!("/v1/sandboxes/{sandbox}/{action}");
            let (elapsed, answer) = timed(caller.post(&path, &json!({}))).await?;
            samples.push(elapsed);
            if answer["state"] != state {
                bail!("after {action} the sandbox is {}", answer["state"]);
            }
        }
    }
    Ok((Timing::new("pause", String::new(), pauses), Timing::new("resume", String::new(), resumes)))
}
