//! Life of a sandbox: its description, its states, its end.

use super::Check;
use super::place::{Place, text};
use anyhow::{Result, ensure};
use serde_json::json;

pub const CHECKS: &[Check] = &[
    Check { operations: &["create_sandbox", "get_sandbox"], title: "made, and says what it is", run: made },
    Check { operations: &["list_sandboxes"], title: "listed by what was noted on it", run: listed },
    Check { operations: &["update_sandbox"], title: "notes and variables change", run: updated },
    Check { operations: &["extend_sandbox"], title: "gets a new time to live", run: extended },
    Check {
        operations: &["sandbox_usage", "sandbox_metrics"],
        title: "says what it uses and used",
        run: used,
    },
    Check { operations: &["get_network"], title: "says what may leave it", run: network },
    Check { operations: &["sandbox_audit"], title: "has a timeline that tells its beginning", run: audited },
    Check {
        operations: &["sandbox_audit_outputs"],
        title: "has what a command printed in its timeline, checked against its digest",
        run: audited_outputs,
    },
];

/// After the others: they change the state of the shared sandbox, and end it.
pub const LAST_CHECKS: &[Check] = &[
    Check {
        operations: &["pause_sandbox", "resume_sandbox"],
        title: "stands still, and goes on where it stood",
        run: paused,
    },
    Check {
        operations: &["hibernate_sandbox", "wake_sandbox"],
        title: "sleeps without processes, and has its files when it wakes",
        run: hibernated,
    },
    Check { operations: &["kill_sandbox"], title: "ends, and says why", run: killed },
];

fn made(place: &Place) -> Result<()> {
    let found = place.get(&place.of(""))?;
    ensure!(found["state"] == "running" && found["name"] == "verify", "{found}");
    ensure!(found["guarantees"]["backend"] == json!(place.backend), "{found}");
    let refused = place.ask("POST", "/v1/sandboxes", Some(json!({"backend": "no-such-backend"})))?;
    ensure!((400..500).contains(&refused.status), "an unknown backend: {}", refused.status);
    Ok(())
}

fn listed(place: &Place) -> Result<()> {
    let page = place.get("/v1/sandboxes?metadata=of=verify")?;
    ensure!(page["sandboxes"][0]["id"] == json!(place.id), "{page}");
    let none = place.get("/v1/sandboxes?metadata=of=another")?;
    ensure!(none["sandboxes"] == json!([]), "{none}");
    Ok(())
}

fn updated(place: &Place) -> Result<()> {
    let change = json!({"metadata": {"of": "verify", "more": "yes"}, "env": {"VERIFY": "seen"}});
    let changed = place.ask("PATCH", &place.of(""), Some(change))?.expect(200)?.json()?;
    ensure!(changed["metadata"]["more"] == "yes", "{changed}");
    ensure!(place.run(&place.id, "echo $VERIFY")? == "seen\n", "a later command does not see the variable");
    Ok(())
}

fn extended(place: &Place) -> Result<()> {
    let before = place.get(&place.of(""))?["expires_at_ms"].as_u64().unwrap_or(0);
    let after = place.post(&place.of("/extend"), 200, json!({"ttl_seconds": 1800}))?;
    ensure!(after["expires_at_ms"].as_u64().unwrap_or(0) > before, "{after}");
    Ok(())
}

fn used(place: &Place) -> Result<()> {
    place.run(&place.id, "true")?;
    let usage = place.get(&place.of("/usage"))?;
    // Values that nothing on this host counts are left out.
    ensure!(usage.is_object(), "{usage}");
    let found = place.get(&place.of(""))?;
    ensure!(found["guarantees"]["memory_limit"] != "kernel" || usage["memory_bytes"].is_u64(), "{usage}");
    let used = place.get(&place.of("/metrics"))?;
    let samples = used["samples"].as_array().map_or(0, Vec::len);
    ensure!(!usage["cpu_ms"].is_number() || samples > 0, "{used}");
    let never = place.get(&place.of("/metrics?start_ms=1&end_ms=2"))?;
    ensure!(never["samples"] == json!([]), "{never}");
    let backwards = place.ask("GET", &place.of("/metrics?start_ms=2&end_ms=1"), None)?;
    ensure!(backwards.status == 400, "an end before its start: {}", backwards.status);
    Ok(())
}

fn network(place: &Place) -> Result<()> {
    let view = place.get(&place.of("/network"))?;
    ensure!(view["network"] == "none", "{view}");
    Ok(())
}

fn audited(place: &Place) -> Result<()> {
    let timeline = place.call("GET", &place.of("/audit"), 200)?.text();
    ensure!(timeline.lines().count() >= 1 && timeline.contains(&place.id), "{timeline}");
    Ok(())
}

fn audited_outputs(place: &Place) -> Result<()> {
    let body = json!({"argv": ["sh", "-c", "echo kept | tr a-z b-za"]});
    let ended = place.post(&place.of("/execs"), 200, body)?;
    let outputs =
        place.call("GET", &place.of(&format!("/audit/outputs?exec={}", ended["exec"])), 200)?.text();
    // Base64 of `lfqu`.
    ensure!(outputs.contains("bGZxdQo=") && outputs.contains("\"verified\":true"), "{outputs}");
    Ok(())
}

fn paused(place: &Place) -> Result<()> {
    let started = place.post(
        &place.of("/execs"),
        201,
        json!({"argv": ["sh", "-c", "sleep 0.3; echo on"], "background": true}),
    )?;
    let paused = place.call("POST", &place.of("/pause"), 200)?.json()?;
    ensure!(paused["state"] == "paused", "{paused}");
    let resumed = place.call("POST", &place.of("/resume"), 200)?.json()?;
    ensure!(resumed["state"] == "running", "{resumed}");
    let ended = place.get(&place.of(&format!("/execs/{}/wait?timeout_seconds=20", started["exec"])))?;
    ensure!(ended["exit_code"] == 0, "what ran before did not go on: {ended}");
    let month = json!({"auto_resume": true, "ttl_seconds": 2_592_000});
    let asleep = place.post(&place.of("/pause"), 200, month)?;
    ensure!(place.run(&place.id, "echo by itself")? == "by itself\n", "a command resumes it");
    let awake = place.get(&place.of(""))?;
    let (asleep, awake) = (asleep["expires_at_ms"].as_u64(), awake["expires_at_ms"].as_u64());
    ensure!(
        asleep > awake.map(|at| at + 86_400_000),
        "the time of a pause is the pause's: {asleep:?}, {awake:?}"
    );
    Ok(())
}

fn hibernated(place: &Place) -> Result<()> {
    place.run(&place.id, "echo kept > /tmp/of-before")?;
    let asleep = place.call("POST", &place.of("/hibernate"), 200)?.json()?;
    ensure!(asleep["state"] == "hibernated", "{asleep}");
    let awake = place.call("POST", &place.of("/wake"), 200)?.json()?;
    ensure!(awake["state"] == "running", "{awake}");
    ensure!(place.run(&place.id, "cat /tmp/of-before")? == "kept\n", "the file is another");
    let asleep = place.post(&place.of("/hibernate"), 200, json!({"memory": false}))?;
    ensure!(asleep["state"] == "hibernated", "{asleep}");
    ensure!(place.run(&place.id, "cat /tmp/of-before")? == "kept\n", "the file is another without memory");
    let keeps = asleep["guarantees"]["snapshot"] == "memory";
    let answer = place.ask("POST", &place.of("/hibernate"), Some(json!({"memory": true})))?;
    ensure!(
        answer.status == if keeps { 200 } else { 400 },
        "its memory, which is kept: {keeps}: {}",
        answer.status
    );
    Ok(())
}

fn killed(place: &Place) -> Result<()> {
    let ended = place.call("DELETE", &place.of(""), 200)?.json()?;
    ensure!(ended["state"] == "ended", "{ended}");
    let found = place.get(&place.of(""))?;
    ensure!(text(&found["end"]["cause"]["kind"])? == "killed", "{found}");
    let gone = place.ask("POST", &place.of("/execs"), Some(json!({"argv": ["true"]})))?;
    ensure!(gone.status == 410, "a command in an ended sandbox: {}", gone.status);
    Ok(())
}
