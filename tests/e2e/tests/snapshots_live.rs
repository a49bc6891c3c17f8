//! Snapshots that keep code contexts, and sandboxes that begin with them.

use crate::contexts::Place;
use crate::forks::{FILES_ALONE, made, python};
use crate::jobs::{ended, submit};
use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, PATIENCE, Server, for_both_callers, skip_rest, until};
use serde_json::{Value, json};

for_both_callers!(
    contexts_are_kept_as_they_stood,
    what_fits_only_the_files_begins_with_them,
    what_cannot_be_kept_is_an_error_that_leaves_nothing,
    it_goes_on_after_a_crash_and_ends_with_its_snapshot,
    candidates_begin_with_what_their_base_knew,
);

/// `None` where the caller may not keep contexts, and is told so.
fn kept(caller: &Caller, place: &Place<'_>) -> Result<Option<String>> {
    if !caller.is_root {
        let before = snapshots(&place.server)?;
        let refused = place.post("/snapshots", json!({ "live": true }), 409)?;
        ensure!(refused["code"] == "not_carried" && snapshots(&place.server)? == before, "{refused}");
        skip_rest("snapshots of an ordinary user keep no contexts, and say so");
        return Ok(None);
    }
    let snapshot = place.post("/snapshots", json!({ "live": true, "name": "kept" }), 201)?;
    ensure!(snapshot["kind"] == "interpreter", "{snapshot}");
    Ok(Some(snapshot["id"].as_str().context("no id")?.to_string()))
}

fn snapshots(server: &Server<'_>) -> Result<Vec<Value>> {
    let page = server.api("GET", "/v1/snapshots", None)?.expect(200)?;
    Ok(page["snapshots"].as_array().cloned().unwrap_or_default())
}

fn seen(server: &Server<'_>) -> Result<Vec<String>> {
    let page = server.api("GET", "/v1/sandboxes", None)?.expect(200)?;
    let all = page["sandboxes"].as_array().cloned().unwrap_or_default();
    Ok(all.iter().filter_map(|sandbox| Some(sandbox["id"].as_str()?.to_string())).collect())
}

/// The number of guests that run, hidden ones included.
fn counted(server: &Server<'_>) -> Result<u64> {
    let metrics = server.api("GET", "/metrics", None)?.ok()?.text().to_string();
    let line = metrics.lines().find(|line| line.starts_with("paddock_sandboxes{state=\"running\"}"));
    let line = line.with_context(|| metrics.clone())?;
    Ok(line.rsplit(' ').next().unwrap_or_default().parse::<f64>()? as u64)
}

fn contexts_are_kept_as_they_stood(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    place.python("x = [41]\nopen('/tmp/f', 'w').write('then')")?;
    place.code(json!({ "code": "cd /tmp; known=seven", "language": "bash" }))?;
    let files = place.post("/snapshots", json!({}), 201)?;
    ensure!(files["kind"] == "filesystem", "{files}");
    let Some(snapshot) = kept(caller, &place)? else { return Ok(()) };
    let server = &place.server;
    place.python("x.append('later')\nopen('/tmp/f', 'w').write('later')")?;
    let listed = server.run(["snapshot", "ls"])?.success()?;
    ensure!(listed.contains("interpreter") && listed.contains("filesystem"), "{listed}");
    let one = made(server, &json!({ "snapshot": snapshot }))?;
    let look = "x, open('/tmp/f').read()";
    assert_eq!(python(server, &one, look)?, "([41], 'then')");
    python(server, &one, "x.clear(); open('/tmp/f', 'w').write('one'); 1")?;
    // The snapshot is as it was, even if sandboxes that began with it changed.
    let two = made(server, &json!({ "snapshot": "kept" }))?;
    assert_eq!(python(server, &two, look)?, "([41], 'then')");
    let said = json!({ "code": "pwd; echo $known", "language": "bash" });
    let said = server.api("POST", &format!("/v1/sandboxes/{two}/code"), Some(&said))?.expect(200)?;
    ensure!(said["stdout"] == "/tmp\nseven\n", "{said}");
    // The holder of the snapshot is not seen, and cannot be named.
    let all = seen(server)?;
    ensure!(all.len() == 3 && counted(server)? == 4, "{all:?}");
    // They may end in any order.
    server.run(["kill", &place.id])?.success()?;
    server.run(["snapshot", "rm", "kept"])?.success()?;
    assert_eq!(python(server, &two, "x")?, "[41]");
    ensure!(counted(server)? == 2, "what kept the snapshot is still there");
    let gone = server.api("POST", "/v1/sandboxes", Some(&json!({ "snapshot": snapshot })))?.expect(404)?;
    ensure!(gone["code"] == "snapshot_not_found", "{gone}");
    Ok(())
}

fn what_fits_only_the_files_begins_with_them(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    place.python("x = 1\nopen('/tmp/f', 'w').write('then')")?;
    let Some(snapshot) = kept(caller, &place)? else { return Ok(()) };
    let look = "'x' in globals(), open('/tmp/f').read()";
    // A stricter fence is not weakened by a carried interpreter; more memory does not concern it.
    for (body, expected) in [
        (json!({ "snapshot": snapshot, "live_forks": false }), "(False, 'then')"),
        (json!({ "snapshot": snapshot, "user": "root" }), "(False, 'then')"),
        (json!({ "snapshot": snapshot, "limits": { "memory_bytes": 300 << 20 } }), "(True, 'then')"),
    ] {
        let id = made(&place.server, &body)?;
        assert_eq!(python(&place.server, &id, look)?, expected, "{body}");
        place.server.run(["kill", &id])?.success()?;
    }
    place.server.run(["snapshot", "rm", &snapshot])?.success()?;
    Ok(())
}

fn what_cannot_be_kept_is_an_error_that_leaves_nothing(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    let empty = place.post("/snapshots", json!({ "live": true }), 409)?;
    ensure!(empty["code"] == "not_carried", "{empty}");
    place.python(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(999,), daemon=True).start()",
    )?;
    let threads = place.post("/snapshots", json!({ "live": true }), 409)?;
    ensure!(threads["code"] == "not_carried" && threads["hint"].is_string(), "{threads}");
    ensure!(snapshots(&place.server)?.is_empty(), "a snapshot is left");
    ensure!(counted(&place.server)? == 1, "a sandbox is left");
    Ok(())
}

fn it_goes_on_after_a_crash_and_ends_with_its_snapshot(caller: &Caller) -> Result<()> {
    let mut place = Place::new(caller)?;
    place.python("x = 41")?;
    let Some(snapshot) = kept(caller, &place)? else { return Ok(()) };
    place.server.kill()?;
    place.server.start_again()?;
    let shown = || snapshots(&place.server).ok()?.first()?["kind"].as_str().map(str::to_string);
    until(PATIENCE, "a snapshot that is found again", || Some(shown()? == "interpreter"))?;
    let one = made(&place.server, &json!({ "snapshot": snapshot }))?;
    assert_eq!(python(&place.server, &one, "x")?, "41");
    place.server.run(["kill", &one])?.success()?;
    place.server.run(["snapshot", "rm", &snapshot])?.success()?;
    ensure!(counted(&place.server)? == 1, "what kept the snapshot is still there");
    Ok(())
}

fn candidates_begin_with_what_their_base_knew(caller: &Caller) -> Result<()> {
    if !caller.is_root {
        skip_rest(FILES_ALONE);
        return Ok(());
    }
    let place = Place::new(caller)?;
    place.python("known = 6\nopen('/workspace/app.py', 'w').write('value = 1\\n')")?;
    let candidates: Vec<Value> = [3, 7, 5]
        .iter()
        .map(|factor| {
            let code = format!("open('app.py', 'w').write(f'value = {{known * {factor}}}\\n')");
            json!({ "code": code })
        })
        .collect();
    let verifier = json!({"command": "python3 -c 'import app; print(app.value)'", "score": "json"});
    let best_of =
        json!({"sandbox": place.id, "candidates": candidates, "verifier": verifier, "rule": "best_score"});
    let id = submit(&place.server, &json!({"best_of": best_of, "timeout_seconds": 60}))?;
    place.python("known = 0")?;
    let job = ended(&place.server, &id)?;
    ensure!(job["state"] == "succeeded" && job["best"]["score"] == 42.0, "{job}");
    until(PATIENCE, "the end of all but the base", || Some(counted(&place.server).ok()? == 1))?;
    // If no context can be kept they begin with the files.
    place.python(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(999,), daemon=True).start()",
    )?;
    let candidate = json!({"code": "value = 8 if 'known' in globals() else 9\nopen('app.py', 'a').write(f'value += {value}\\n')"});
    let best_of =
        json!({"sandbox": place.id, "candidates": [candidate], "verifier": verifier, "rule": "best_score"});
    let id = submit(&place.server, &json!({"best_of": best_of, "timeout_seconds": 60}))?;
    let job = ended(&place.server, &id)?;
    ensure!(job["state"] == "succeeded" && job["best"]["score"] == 10.0, "{job}");
    Ok(())
}
