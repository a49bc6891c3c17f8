//! A server that has few descriptors: ended work holds none, and live work can always be ended.

use crate::contexts::Place;
use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, Server, as_root};
use serde_json::json;

#[test]
fn calls_that_have_ended_hold_no_descriptors() -> Result<()> {
    as_root("calls_that_have_ended_hold_no_descriptors", ended_calls)
}

#[test]
fn without_descriptors_sandboxes_can_still_be_ended() -> Result<()> {
    as_root("without_descriptors_sandboxes_can_still_be_ended", none_left)
}

#[test]
fn connections_leave_descriptors_for_removal_and_health() -> Result<()> {
    as_root("connections_leave_descriptors_for_removal_and_health", crowded)
}

/// Far more connections than descriptors: idle ones give way, and a new client is served.
fn crowded(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    let open = open_descriptors(&place)?;
    let few = open + 400;
    let set = std::process::Command::new("prlimit")
        .args([format!("--pid={}", place.server.process()?), format!("--nofile={few}:{few}")])
        .status()
        .context("prlimit")?;
    ensure!(set.success(), "prlimit failed");
    let connect = |_| std::os::unix::net::UnixStream::connect(place.server.socket());
    let crowd: Vec<_> = (0..500).map(connect).collect::<std::io::Result<_>>()?;
    std::thread::sleep(std::time::Duration::from_millis(500));
    let used = open_descriptors(&place)?;
    ensure!(used + 10 < few, "{used} of {few} descriptors are taken by those who only connect");
    let health = place.server.api("GET", "/healthz", None)?;
    assert_eq!(health.status, 200, "{}", health.head);
    let ended = place.server.api("DELETE", &format!("/v1/sandboxes/{}", place.id), None)?.expect(200)?;
    assert_eq!(ended["state"], "ended");
    ensure!(!place.server.said().contains("cannot accept a connection"), "{}", place.server.said());
    drop(crowd);
    Ok(())
}

fn open_descriptors(place: &Place<'_>) -> Result<usize> {
    Ok(std::fs::read_dir(format!("/proc/{}/fd", place.server.process()?))?.count())
}

fn ended_calls(caller: &Caller) -> Result<()> {
    let mut place = Place::new(caller)?;
    place.python("1")?;
    let before = open_descriptors(&place)?;
    for number in 0..50 {
        place.python(&format!("import sys\nprint({number})\nprint(1, file=sys.stderr)\n{number}"))?;
        place.post("/execs", json!({ "command": "echo out; echo err >&2" }), 200)?;
    }
    let after = open_descriptors(&place)?;
    ensure!(after < before + 50, "{before} descriptors before, {after} after");
    // And none after a restart, with all of them read again.
    place.server.kill()?;
    place.server.start_again()?;
    place.python("1")?;
    let again = open_descriptors(&place)?;
    ensure!(again < before + 50, "{before} descriptors before, {again} of the next server");
    let first = place.get("/execs/3")?;
    ensure!(first["state"] == "ended", "{first}");
    Ok(())
}

fn none_left(caller: &Caller) -> Result<()> {
    // Two creates predict a third: a sandbox that is being made ready takes descriptors and gives some back meanwhile.
    let server = Server::start_with(caller, &["--ready-memory", "0"])?;
    let id = server.create(&[])?;
    let place = Place { server, id };
    let second = place.server.create(&[])?;
    let server = place.server.process()?;
    // As many as there are, and a few: the next new thing would take those that are kept for ending things.
    let open = open_descriptors(&place)?;
    let few = open + open / 8 + 1;
    let set = std::process::Command::new("prlimit")
        .args([format!("--pid={server}"), format!("--nofile={few}:{few}")])
        .status()
        .context("prlimit")?;
    ensure!(set.success(), "prlimit failed");
    let refused = place.server.api("POST", "/v1/sandboxes", Some(&json!({})))?;
    refused.refused(503, "too_many_open_files")?;
    ensure!(refused.head.to_ascii_lowercase().contains("retry-after:"), "{}", refused.head);
    let refused = place.server.api("POST", &place.path("/execs"), Some(&json!({ "command": "true" })))?;
    refused.refused(503, "too_many_open_files")?;
    for id in [&place.id, &second] {
        let ended = place.server.api("DELETE", &format!("/v1/sandboxes/{id}"), None)?.expect(200)?;
        assert_eq!(ended["state"], "ended");
    }
    Ok(())
}
