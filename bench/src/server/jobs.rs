//! Jobs: an array of one-line scripts from its sending to its last task's end, beside as many processes without a
//! fence.

use super::calls::{Caller, text, timed};
use super::part::{Findings, Part};
use super::process::Server;
use super::promises::{Limit, Promise, Source, promise};
use crate::measure::Timing;
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const TASKS: u32 = 2_000;
/// The speed of a shared host moves between two rounds by more than a tenth.
const ROUNDS: usize = 5;
const CODE: &str = "import os; print(int(os.environ['PADDOCK_JOB_INDEX']) * 2)";
const LINE: &str = "import sys; print(int(sys.argv[1]) * 2)";

pub const PROMISES: [Promise; 2] = [
    promise(
        Part::Jobs,
        "arrays of 2,000 one-line Python scripts, all rounds together",
        ">= 100 /s",
        Source::Fact("scripts of arrays, all rounds together"),
        Limit::AtLeast(100.0),
    ),
    promise(
        Part::Jobs,
        "tasks that were lost or ran twice",
        "0",
        Source::Fact("lost or twice"),
        Limit::AtMost(0.0),
    ),
];

pub async fn measure(server: &Server) -> Result<Findings> {
    let mut caller = server.caller().await?;
    let (mut arrays, mut wrong) = (Vec::new(), 0.0);
    for _ in 0..ROUNDS {
        let (elapsed, id) = timed(array(&mut caller)).await?;
        arrays.push(elapsed);
        wrong += look(&mut caller, &id).await?;
    }
    let bare: Vec<Duration> = (0..ROUNDS).map(|_| without_a_fence()).collect::<Result<_>>()?;
    let (all, bare_all) = (arrays.iter().sum::<Duration>(), bare.iter().sum::<Duration>());
    let slowest = arrays.iter().max().copied().unwrap_or_default();
    let named = |name, samples| Timing::new(name, String::new(), samples);
    let mut findings = Findings {
        timings: vec![
            named("array of 2,000, from sending it to its end", arrays),
            named("xargs -P2 python3 -c, 2,000 times, no fence", bare),
        ],
        ..Findings::default()
    };
    let in_all = f64::from(TASKS) * ROUNDS as f64;
    findings.add("scripts of arrays, all rounds together", in_all / all.as_secs_f64(), "/s");
    findings.add("scripts of an array, slowest round", f64::from(TASKS) / slowest.as_secs_f64(), "/s");
    findings.add("xargs -P2 python3 -c, all rounds together", in_all / bare_all.as_secs_f64(), "/s");
    findings.add("arrays, times as fast as xargs", bare_all.as_secs_f64() / all.as_secs_f64(), "x");
    findings.add("lost or twice", wrong, "");
    findings.notes.push(
        "A job with `code` and `array = 2000`, sent by HTTP to a server that has just started and has no pool; every task is a sandbox of its own, its \
         end is in the database when the job has ended, and each task's output and number of attempts is looked at afterwards. Beside it the \
         same line by `xargs -P2`, which has neither fence nor record."
            .into(),
    );
    Ok(findings)
}

async fn array(caller: &mut Caller) -> Result<String> {
    let job = json!({"code": CODE, "array": TASKS, "timeout_seconds": 60});
    let id = text(&caller.post("/v1/jobs", &job).await?, "id")?;
    loop {
        let job = caller.get(&format!("/v1/jobs/{id}?wait_seconds=60")).await?;
        match text(&job, "state")?.as_str() {
            "queued" | "running" => {}
            "succeeded" => return Ok(id),
            _ => anyhow::bail!("{}", job["reason"]),
        }
    }
}

/// The number of tasks that did not run exactly once, with the right output.
async fn look(caller: &mut Caller, id: &str) -> Result<f64> {
    let (mut seen, mut wrong, mut from) = (0, 0, Some(0));
    while let Some(start) = from {
        let page = caller.get(&format!("/v1/jobs/{id}/tasks?limit=1000&from={start}")).await?;
        for task in page["tasks"].as_array().into_iter().flatten() {
            let once = task["attempts"].as_array().is_some_and(|attempts| attempts.len() == 1);
            let right = task["stdout"] == Value::String(format!("{}\n", seen * 2));
            wrong += u32::from(!(once && right));
            seen += 1;
        }
        from = page["next"].as_u64();
    }
    Ok(f64::from(wrong + TASKS.abs_diff(seen)))
}

/// Uses the Python that sandboxes see: another one in the caller's path may be a script around it.
fn without_a_fence() -> Result<Duration> {
    let script = format!("seq 0 {} | xargs -P2 -n1 /usr/bin/python3 -c \"{LINE}\"", TASKS - 1);
    let began = Instant::now();
    let done = Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).output()?;
    let lines = done.stdout.iter().filter(|byte| **byte == b'\n').count();
    ensure!(done.status.success() && lines == TASKS as usize, "xargs ran {lines} of {TASKS}");
    Ok(began.elapsed())
}
