//! Forks go on when their source ends, however it ends.

use crate::contexts::Place;
use crate::forks::{child, fork, is_live, made, python};
use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, PATIENCE, Server, for_both_callers, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

for_both_callers!(
    a_source_whose_time_ends_without_a_server_leaves_its_forks,
    forks_of_a_source_whose_first_process_is_killed_keep_their_files,
    a_snapshot_that_loses_its_contexts_says_so,
);

fn described(server: &Server<'_>, id: &str) -> Result<Value> {
    server.api("GET", &format!("/v1/sandboxes/{id}"), None)?.expect(200)
}

/// True if a process of the host has this among its arguments.
pub fn runs(mark: &str) -> bool {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines.any(|line| line.windows(mark.len()).any(|window| window == mark.as_bytes()))
}

fn a_source_whose_time_ends_without_a_server_leaves_its_forks(caller: &Caller) -> Result<()> {
    let mut place = Place::new(caller)?;
    place.python("x = [1]")?;
    let forked = fork(&place, json!({ "ttl_seconds": 600 }))?;
    let one = child(&forked, 0);
    if !is_live(caller, &forked)? {
        return Ok(());
    }
    // A fork of a fork, and the holder of a snapshot, nest in the source too.
    python(&place.server, &one, "x.append(2); open('/workspace/kept', 'w').write('kept')")?;
    let again = Some(&json!({ "ttl_seconds": 600 }));
    let again = place.server.api("POST", &format!("/v1/sandboxes/{one}/fork"), again)?.expect(201)?;
    let two = child(&again, 0);
    ensure!(again["kind"] == "interpreter", "{again}");
    let snapshot = place.post("/snapshots", json!({ "live": true }), 201)?;
    let snapshot = snapshot["id"].as_str().unwrap_or_default().to_string();
    let mark = format!("{}7", std::process::id());
    place.post("/execs", json!({ "command": format!("sleep {mark}"), "background": true }), 201)?;
    until(PATIENCE, "the command of the source", || runs(&mark).then_some(()))?;
    for id in [place.id.as_str(), one.as_str()] {
        let path = format!("/v1/sandboxes/{id}/extend");
        place.server.api("POST", &path, Some(&json!({ "ttl_seconds": 2 })))?.expect(200)?;
    }
    place.server.kill()?;
    until(PATIENCE, "the end of the source's time", || (!runs(&mark)).then_some(()))?;
    place.server.start_again()?;
    for id in [&place.id, &one] {
        let ended = || Some(described(&place.server, id).ok()?).filter(|told| told["state"] == "ended");
        let ended = until(PATIENCE, "the end of the source", ended)?;
        ensure!(ended["end"]["cause"]["kind"] == "time_to_live", "{ended}");
    }
    let execs = place.get("/execs")?;
    ensure!(
        execs.to_string().contains("sandbox_ended") && !execs.to_string().contains("not_started"),
        "{execs}"
    );
    assert_eq!(python(&place.server, &two, "x, open('/workspace/kept').read()")?, "([1, 2], 'kept')");
    let shown = place.server.api("GET", &format!("/v1/snapshots/{snapshot}"), None)?.expect(200)?;
    ensure!(shown["kind"] == "interpreter", "{shown}");
    let three = made(&place.server, &json!({ "snapshot": snapshot }))?;
    assert_eq!(python(&place.server, &three, "x")?, "[1]");
    place.server.run(["snapshot", "rm", &snapshot])?.success()?;
    Ok(())
}

/// The host's record of a running sandbox of root gives its first process.
fn first_process(id: &str) -> Result<Pid> {
    let places =
        ["/run/paddock", "/dev/shm/paddock"].map(|place| Path::new(place).join(id).join("record.json"));
    let text = places.iter().find_map(|path| std::fs::read(path).ok()).context("no record of it")?;
    let record: Value = serde_json::from_slice(&text)?;
    let number = record["guest"][0].as_i64().and_then(|number| i32::try_from(number).ok());
    number.and_then(Pid::from_raw).with_context(|| format!("{record}"))
}

fn forks_of_a_source_whose_first_process_is_killed_keep_their_files(caller: &Caller) -> Result<()> {
    let mut place = Place::new(caller)?;
    for with_server in [true, false] {
        let source = place.server.create(&[])?;
        python(&place.server, &source, "x = 7; x")?;
        let path = format!("/v1/sandboxes/{source}/fork");
        let forked = place.server.api("POST", &path, Some(&json!({})))?.expect(201)?;
        if !is_live(caller, &forked)? {
            return Ok(());
        }
        let one = child(&forked, 0);
        python(&place.server, &one, "open('/workspace/kept', 'w').write('kept')")?;
        if !with_server {
            place.server.kill()?;
        }
        kill_process(first_process(&source)?, Signal::KILL)?;
        if !with_server {
            place.server.start_again()?;
        }
        let state = |id: &str| Some(described(&place.server, id).ok()?["state"].as_str()?.to_string());
        until(PATIENCE, "the end of the source", || state(&source).filter(|state| state == "ended"))?;
        until(PATIENCE, "a fork that sleeps", || state(&one).filter(|state| state == "hibernated"))?;
        let seen = python(&place.server, &one, "open('/workspace/kept').read(), 'x' in globals()")?;
        assert_eq!(seen, "('kept', False)");
        place.server.run(["kill", &one])?.success()?;
    }
    Ok(())
}

/// The contexts of a live snapshot nest in the sandbox that it was made of.
fn a_snapshot_that_loses_its_contexts_says_so(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    place.python("x = 7; open('/workspace/kept', 'w').write('kept')")?;
    let forked = fork(&place, json!({}))?;
    if !is_live(caller, &forked)? {
        return Ok(());
    }
    let snapshot = place.post("/snapshots", json!({ "live": true }), 201)?;
    ensure!(snapshot["kind"] == "interpreter", "{snapshot}");
    let snapshot = snapshot["id"].as_str().context("no id")?.to_string();
    let mut events = UnixStream::connect(place.server.socket())?;
    events.set_read_timeout(Some(PATIENCE))?;
    write!(events, "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut lines = BufReader::new(events).lines();
    // The head of the answer comes when the server listens for this caller.
    ensure!(lines.next().context("no answer")??.contains(" 200 "), "no events");
    kill_process(first_process(&place.id)?, Signal::KILL)?;
    let told = loop {
        let line = lines.next().context("the events end")??;
        if line.contains("snapshot_contexts_ended") {
            break serde_json::from_str::<Value>(&line)?;
        }
    };
    ensure!(told["sandbox"] == *place.id && told["detail"].to_string().contains(&snapshot), "{told}");
    let shown = || {
        let shown = place.server.api("GET", &format!("/v1/snapshots/{snapshot}"), None).ok()?.json().ok()?;
        (shown["kind"] == "filesystem").then_some(())
    };
    until(PATIENCE, "a snapshot of files", shown)?;
    let later = made(&place.server, &json!({ "snapshot": snapshot }))?;
    let seen = python(&place.server, &later, "open('/workspace/kept').read(), 'x' in globals()")?;
    assert_eq!(seen, "('kept', False)");
    for id in [later, child(&forked, 0)] {
        place.server.run(["kill", &id])?.success()?;
    }
    place.server.run(["snapshot", "rm", &snapshot])?.success()?;
    Ok(())
}
