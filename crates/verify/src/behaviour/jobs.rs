//! Work that is described once, queued, and outlives the client that sent it.

use super::Check;
use super::place::{Place, text};
use anyhow::{Result, ensure};
use serde_json::{Value, json};

pub const CHECKS: &[Check] = &[Check {
    operations: &[
        "submit_job",
        "list_jobs",
        "get_job",
        "list_job_tasks",
        "get_job_task",
        "job_logs",
        "list_job_artifacts",
        "read_job_artifact",
        "cancel_job",
        "remove_job",
    ],
    title: "a job runs in sandboxes of its own, leaves what it shall, is cancelled, goes",
    run: jobs,
}];

fn jobs(place: &Place) -> Result<()> {
    let command = "cat in; echo $1 > out; [ $PADDOCK_JOB_ATTEMPT = 2 ]";
    let sent = place.post(
        "/v1/jobs",
        201,
        json!({
            "command": command, "args": ["n{index}"], "array": 2, "backend": place.backend, "outputs": ["out"],
            "inputs": [{"path": "in", "text": "given"}], "timeout_seconds": 60,
            "retries": {"attempts": 1, "backoff_seconds": 0.01},
        }),
    )?;
    let id = text(&sent["id"])?;
    let path = format!("/v1/jobs/{id}");
    let done = ended(place, &path)?;
    ensure!(done["state"] == "succeeded" && done["cost"]["attempts"] == 4, "{done}");
    let all = place.call("GET", "/v1/jobs?state=succeeded", 200)?.text();
    ensure!(all.contains(&id), "{all}");
    let tasks = place.get(&format!("{path}/tasks?state=succeeded"))?;
    ensure!(tasks["tasks"].as_array().is_some_and(|tasks| tasks.len() == 2), "{tasks}");
    let task = place.get(&format!("{path}/tasks/1"))?;
    ensure!(task["stdout"] == "given" && task["attempts"][0]["end"] == "exit", "{task}");
    let [first, second] = [0, 1].map(|attempt| task["attempts"][attempt]["sandbox"].clone());
    ensure!(first != second, "two attempts in one sandbox: {task}");
    let sandbox = place.get(&format!("/v1/sandboxes/{}", text(&second)?))?;
    ensure!(
        sandbox["state"] == "ended" && sandbox["guarantees"]["backend"] == json!(place.backend),
        "{sandbox}"
    );
    let logs = place.call("GET", &format!("{path}/logs?task=1"), 200)?.text();
    ensure!(logs.contains("Z2l2ZW4="), "{logs}");
    let artifacts = place.get(&format!("{path}/artifacts"))?;
    ensure!(artifacts["artifacts"].as_array().is_some_and(|all| all.len() == 2), "{artifacts}");
    let content = place.call("GET", &format!("{path}/artifacts/content?task=1&path=out"), 200)?.text();
    ensure!(content == "n1\n", "{content:?}");

    let sent =
        place.post("/v1/jobs", 201, json!({"command": "sleep 600", "array": 3, "backend": place.backend}))?;
    let long = format!("/v1/jobs/{}", text(&sent["id"])?);
    let busy = place.ask("DELETE", &long, None)?;
    ensure!(busy.status == 409, "one that has not ended is removed: {}", busy.status);
    place.call("POST", &format!("{long}/cancel"), 200)?;
    let stopped = ended(place, &long)?;
    ensure!(stopped["state"] == "cancelled" && stopped["tasks"]["cancelled"] == 3, "{stopped}");
    for path in [&path, &long] {
        place.call("DELETE", path, 200)?;
        let gone = place.ask("GET", path, None)?;
        ensure!(gone.status == 404, "a removed job: {}", gone.status);
    }
    Ok(())
}

fn ended(place: &Place, path: &str) -> Result<Value> {
    let mut job = Value::Null;
    place.until("a job has ended", |place| {
        job = place.get(&format!("{path}?wait_seconds=5"))?;
        Ok(job["state"] != "queued" && job["state"] != "running")
    })?;
    Ok(job)
}
