//! Incomplete output never looks whole, and a call that a killed server did not begin can be sent again.

use crate::contexts::Place;
use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, PATIENCE, as_root, until};
use serde_json::{Value, json};
use std::path::PathBuf;

#[test]
fn a_truncated_journal_does_not_look_whole() -> Result<()> {
    as_root("a_truncated_journal_does_not_look_whole", truncated)
}

#[test]
fn output_of_which_a_part_was_kept_is_answered_as_a_part() -> Result<()> {
    as_root("output_of_which_a_part_was_kept_is_answered_as_a_part", a_part)
}

#[test]
fn a_fork_has_a_timeline_that_says_where_it_came_from() -> Result<()> {
    as_root("a_fork_has_a_timeline_that_says_where_it_came_from", fork_timeline)
}

#[test]
fn a_call_that_a_killed_server_did_not_begin_is_done_when_asked_again() -> Result<()> {
    as_root("a_call_that_a_killed_server_did_not_begin_is_done_when_asked_again", asked_again)
}

#[test]
fn a_timeline_that_is_not_whole_is_said_not_to_be() -> Result<()> {
    as_root("a_timeline_that_is_not_whole_is_said_not_to_be", damaged_timeline)
}

#[test]
fn what_has_ended_is_gone_and_not_in_conflict() -> Result<()> {
    as_root("what_has_ended_is_gone_and_not_in_conflict", gone)
}

fn directory(caller: &Caller, place: &Place<'_>, exec: &Value) -> PathBuf {
    caller.state().join("sandboxes").join(&place.id).join("execs").join(exec.to_string())
}

fn truncated(caller: &Caller) -> Result<()> {
    let mut place = Place::new(caller)?;
    let exec = place.post("/execs", json!({ "command": "seq 1 1000" }), 200)?["exec"].clone();
    let call = place.python("for i in range(5): display(i)")?["exec"].clone();
    place.server.stop()?;
    // As a power loss can: both files end early, and agree with each other.
    let files = directory(caller, &place, &exec);
    std::fs::OpenOptions::new().write(true).open(files.join("stdout"))?.set_len(100)?;
    std::fs::remove_file(files.join("order"))?;
    let control = directory(caller, &place, &call).join("control");
    let length = control.metadata()?.len();
    std::fs::OpenOptions::new().write(true).open(control)?.set_len(length / 2)?;
    place.server.start_again()?;

    let read = place.get(&format!("/execs/{exec}"))?;
    assert_eq!(
        (read["stdout_bytes"].as_u64(), read["stdout_missing_bytes"].as_u64()),
        (Some(3893), Some(3793))
    );
    let raw = place.server.api("GET", &place.path(&format!("/execs/{exec}/stdout")), None)?;
    assert_eq!((raw.status, raw.body.len()), (206, 100), "{}", raw.head);
    ensure!(raw.head.to_ascii_lowercase().contains("content-range: bytes 0-99/3893"), "{}", raw.head);
    let lines = place.server.api("GET", &place.path(&format!("/execs/{exec}/output")), None)?.lines()?;
    ensure!(lines.iter().any(|line| line["bytes"] == 3793), "{lines:?}");
    let call = place.get(&format!("/execs/{call}"))?;
    let results = call["results"].as_array().map_or(0, Vec::len);
    ensure!(results < 5 && call["results_missing"].as_u64() > Some(0), "{call}");
    Ok(())
}

fn a_part(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    let exec = place.post("/execs", json!({ "command": "head -c 50000000 /dev/zero" }), 200)?;
    let (all, missing) = (exec["stdout_bytes"].as_u64(), exec["stdout_missing_bytes"].as_u64());
    let (all, missing) = (all.context("no length")?, missing.context("no gap")?);
    ensure!(missing > 0, "all of it was kept: {all}");
    let path = place.path(&format!("/execs/{}/stdout", exec["exec"]));
    let head = place.server.api("GET", &path, None)?;
    assert_eq!(head.status, 206, "{}", head.head);
    let tail = place.server.api("GET", &format!("{path}?offset={}", head.body.len()), None)?;
    assert_eq!(tail.status, 206, "{}", tail.head);
    assert_eq!(head.body.len() as u64 + tail.body.len() as u64 + missing, all);
    let whole = place.server.api("GET", &format!("{path}?offset={}", all - 10), None)?;
    assert_eq!((whole.status, whole.body.len()), (200, 10), "{}", whole.head);
    Ok(())
}

fn damaged_timeline(caller: &Caller) -> Result<()> {
    let mut place = Place::new(caller)?;
    place.post("/execs", json!({ "command": "echo the evidence" }), 200)?;
    let target = place.path("/audit");
    let whole = place.server.api("GET", &target, None)?;
    assert_eq!(whole.status, 200, "{}", whole.head);
    place.server.stop()?;
    let (file, head) =
        ["jsonl", "head"].map(|end| caller.state().join(format!("audit/{}.{end}", place.id))).into();
    let (lines, end) = (std::fs::read(&file)?, std::fs::read(&head)?);
    let text = String::from_utf8(lines.clone())?;
    let changed = text.replace("the evidence", "no evidences");
    let without_one: Vec<&str> =
        text.lines().enumerate().filter(|(at, _)| *at != 1).map(|(_, line)| line).collect();
    let cut = &text[..text.len() / 2];
    for (what, lines, end) in [
        ("cut off", cut.to_string(), Some(&end)),
        ("changed", changed, Some(&end)),
        ("without a line", without_one.join("\n") + "\n", Some(&end)),
        ("without its head", text.clone(), None),
    ] {
        std::fs::write(&file, lines)?;
        match end {
            Some(end) => std::fs::write(&head, end)?,
            None => std::fs::remove_file(&head)?,
        }
        place.server.start_again()?;
        let told = place.server.api("GET", &target, None)?;
        ensure!(told.status == 206, "{what}: {} {}", told.status, told.head);
        ensure!(told.head.to_ascii_lowercase().contains("paddock-damaged: "), "{what}: {}", told.head);
        ensure!(told.text().contains("\"opened\""), "{what}: what is left is not shown: {}", told.text());
        let shown = place.server.run(["audit", "show", &place.id])?;
        ensure!(shown.exited(1)?.err().contains("is not as it was written"), "{what}: {}", shown.err());
        place.server.stop()?;
    }
    std::fs::write(&file, &lines)?;
    std::fs::write(&head, &end)?;
    place.server.start_again()?;
    assert_eq!(place.server.api("GET", &target, None)?.status, 200);
    Ok(())
}

fn fork_timeline(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    for live in [json!({ "count": 3, "live": false }), json!({})] {
        let forked = place.post("/fork", live, 201)?;
        for child in forked["sandboxes"].as_array().context("no forks")? {
            let id = child["id"].as_str().context("no id")?;
            let told = place.server.api("GET", &format!("/v1/sandboxes/{id}/audit"), None)?;
            ensure!(
                told.status == 200 && told.text().contains("forked_from"),
                "{} {}",
                told.status,
                told.text()
            );
            ensure!(told.text().contains(&place.id), "{}", told.text());
        }
    }
    Ok(())
}

fn asked_again(caller: &Caller) -> Result<()> {
    let mut place = Place::new(caller)?;
    place.python("ran = 0")?;
    place.post("/code", json!({ "code": "import time\ntime.sleep(600)", "background": true }), 201)?;
    let ask = |place: &Place<'_>, status: u16| {
        let headers = "Content-Type: application/json\r\nIdempotency-Key: waits\r\n";
        let body = json!({ "code": "ran += 1", "background": true }).to_string();
        place.server.send("POST", &place.path("/code"), headers, body.as_bytes())?.expect(status)
    };
    // It waits for its turn when the server is killed.
    let waits = ask(&place, 201)?["exec"].clone();
    assert_eq!(ask(&place, 201)?["exec"], waits);
    place.server.kill()?;
    place.server.start_again()?;
    let lost = until(PATIENCE, "the end of the call", || {
        let exec = place.get(&format!("/execs/{waits}")).ok()?;
        (exec["state"] == "ended").then_some(exec)
    })?;
    assert_eq!(lost["cause"]["kind"], "not_started");
    let again = ask(&place, 201)?["exec"].clone();
    ensure!(again != waits, "asking again did nothing");
    let _ = place.server.api("POST", &place.path("/contexts/python/interrupt"), None)?.expect(200)?;
    let ended = place.get(&format!("/execs/{again}/wait"))?;
    assert_eq!(ended["cause"]["kind"], "exited", "{ended}");
    assert_eq!(place.value("ran")?, "1");
    Ok(())
}

fn gone(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    let exec = place.post("/execs", json!({ "command": "true" }), 200)?["exec"].clone();
    let signal = place.server.api(
        "POST",
        &place.path(&format!("/execs/{exec}/signal")),
        Some(&json!({ "signal": "TERM" })),
    )?;
    signal.refused(410, "exec_ended")?;
    place
        .server
        .send("POST", &place.path(&format!("/execs/{exec}/stdin")), "", b"more")?
        .refused(410, "exec_ended")?;
    place.server.api("GET", &place.path("/execs/999"), None)?.refused(404, "exec_not_found")?;
    Ok(())
}
