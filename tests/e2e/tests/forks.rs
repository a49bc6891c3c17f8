//! Forks of sandboxes whose contexts go along.

use crate::contexts::{Place, text_of};
use anyhow::{Result, ensure};
use paddock_e2e::{Caller, PATIENCE, Server, for_both_callers, until};
use serde_json::{Value, json};

for_both_callers!(
    contexts_go_along_with_what_they_know,
    whoever_asks_for_files_gets_files,
    what_cannot_go_along_is_named,
    forks_outlive_their_source_and_it_them,
    forks_of_forks_go_on_after_a_crash,
    many_forks_from_one_call,
);

/// Code in a fork.
fn in_fork(server: &Server<'_>, id: &str, body: &Value) -> Result<Value> {
    server.api("POST", &format!("/v1/sandboxes/{id}/code"), Some(body))?.expect(200)
}

fn python(server: &Server<'_>, id: &str, code: &str) -> Result<String> {
    text_of(&in_fork(server, id, &json!({ "code": code }))?)
}

pub fn fork(place: &Place<'_>, body: Value) -> Result<Value> {
    place.post("/fork", body, 201)
}

fn child(forked: &Value, place: usize) -> String {
    forked["sandboxes"][place]["id"].as_str().unwrap_or_default().to_string()
}

/// Where the caller is not root a fork has the files, and says why.
pub fn is_live(caller: &Caller, forked: &Value) -> Result<bool> {
    if caller.is_root {
        ensure!(forked["kind"] == "interpreter", "{forked}");
        return Ok(true);
    }
    ensure!(forked["kind"] == "filesystem" && forked["reason"].is_string(), "{forked}");
    Ok(false)
}

fn contexts_go_along_with_what_they_know(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    place.python("import random, os\ndata = list(range(100000))\nf = open('/tmp/log', 'w'); f.write('one '); f.flush()")?;
    place.code(json!({ "code": "cd /tmp; known=seven; f() { echo $known; }", "language": "bash" }))?;
    let forked = fork(&place, json!({}))?;
    let id = child(&forked, 0);
    let server = &place.server;
    if !is_live(caller, &forked)? {
        let fresh = python(server, &id, "'data' in globals()")?;
        ensure!(fresh == "False", "{fresh}");
        return Ok(());
    }
    assert_eq!(python(server, &id, "sum(data)")?, "4999950000");
    python(server, &id, "f.write('two'); f.flush(); data.clear(); 1")?;
    assert_eq!(place.value("len(data), open('/tmp/log').read()")?, "(100000, 'one ')");
    assert_eq!(python(server, &id, "open('/tmp/log').read()")?, "'one two'");
    let said = in_fork(server, &id, &json!({ "code": "f; pwd; echo $((RANDOM >= 0))", "language": "bash" }))?;
    ensure!(said["stdout"] == "seven\n/tmp\n1\n", "{said}");
    // No two draw the same, and neither is where the other is.
    let drawn = "random.random()";
    ensure!(python(server, &id, drawn)? != place.value(drawn)?, "the same numbers are drawn");
    assert_eq!(python(server, &id, "os.getppid()")?, "1");
    let described = server.api("GET", &format!("/v1/sandboxes/{id}"), None)?.expect(200)?;
    ensure!(described["parent"] == place.id.as_str(), "{described}");
    Ok(())
}

fn whoever_asks_for_files_gets_files(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    place.python("x = 1")?;
    let forked = fork(&place, json!({ "live": false }))?;
    ensure!(forked["kind"] == "filesystem" && forked.get("reason").is_none(), "{forked}");
    let seen = python(&place.server, &child(&forked, 0), "'x' in globals()")?;
    ensure!(seen == "False", "{seen}");
    let printed = place.server.run(["fork", "--files-only", &place.id])?.success()?;
    ensure!(printed.lines().count() == 1, "{printed}");
    let status = if caller.is_root { 201 } else { 409 };
    let demanded = place.post("/fork", json!({ "live": true }), status)?;
    ensure!(caller.is_root || demanded["code"] == "not_carried", "{demanded}");
    Ok(())
}

fn what_cannot_go_along_is_named(caller: &Caller) -> Result<()> {
    if !caller.is_root {
        return Ok(());
    }
    let place = Place::new(caller)?;
    place.python(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(999,), daemon=True).start()",
    )?;
    place.code(json!({ "code": "kept=1", "language": "bash" }))?;
    place.post("/execs", json!({ "command": "sleep 999", "background": true }), 201)?;
    let forked = fork(&place, json!({}))?;
    if !is_live(caller, &forked)? {
        return Ok(());
    }
    let contexts = forked["contexts"].as_array().cloned().unwrap_or_default();
    let of =
        |name: &str| contexts.iter().find(|context| context["context"] == name).cloned().unwrap_or_default();
    ensure!(
        of("python")["carried"] == false && of("python")["reason"].to_string().contains("threads"),
        "{forked}"
    );
    ensure!(of("bash")["carried"] == true, "{forked}");
    ensure!(forked["left_behind"].to_string().contains("sleep 999"), "{forked}");
    let refused = place.post("/fork", json!({ "live": true }), 409)?;
    ensure!(refused["code"] == "not_carried", "{refused}");
    // It goes on, and so does the fork, with a new interpreter.
    assert_eq!(place.value("threading.active_count() > 1")?, "True");
    assert_eq!(python(&place.server, &child(&forked, 0), "40 + 2")?, "42");
    Ok(())
}

fn forks_outlive_their_source_and_it_them(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    place.python("x = 7")?;
    let forked = fork(&place, json!({ "count": 2 }))?;
    if !is_live(caller, &forked)? {
        return Ok(());
    }
    let (one, other) = (child(&forked, 0), child(&forked, 1));
    let server = &place.server;
    server.run(["kill", &one])?.success()?;
    assert_eq!(place.value("x")?, "7");
    let refused = server.api("POST", &place.path("/hibernate"), None)?.expect(409)?;
    ensure!(refused["code"] == "forks_live", "{refused}");
    server.run(["kill", &place.id])?.success()?;
    let ended = place.get("")?;
    ensure!(ended["state"] == "ended", "{ended}");
    assert_eq!(python(server, &other, "x + 1")?, "8");
    server.run(["kill", &other])?.success()?;
    Ok(())
}

fn forks_of_forks_go_on_after_a_crash(caller: &Caller) -> Result<()> {
    let mut place = Place::new(caller)?;
    place.python("x = [1]")?;
    let forked = fork(&place, json!({}))?;
    if !is_live(caller, &forked)? {
        return Ok(());
    }
    let one = child(&forked, 0);
    python(&place.server, &one, "x.append(2); x")?;
    let again =
        place.server.api("POST", &format!("/v1/sandboxes/{one}/fork"), Some(&json!({})))?.expect(201)?;
    let two = child(&again, 0);
    ensure!(again["kind"] == "interpreter", "{again}");
    place.server.run(["kill", &place.id])?.success()?;
    place.server.run(["kill", &one])?.success()?;
    assert_eq!(python(&place.server, &two, "x")?, "[1, 2]");
    place.server.kill()?;
    place.server.start_again()?;
    until(PATIENCE, "a fork that is found again", || {
        python(&place.server, &two, "x").ok().map(|x| x == "[1, 2]")
    })?;
    place.server.run(["kill", &two])?.success()?;
    Ok(())
}

fn many_forks_from_one_call(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    place.python("import os\nx = os.urandom(4).hex()")?;
    let own = place.value("x")?;
    let forked = fork(&place, json!({ "count": 8 }))?;
    if !is_live(caller, &forked)? {
        return Ok(());
    }
    for number in 0..8 {
        assert_eq!(python(&place.server, &child(&forked, number), "x")?, own);
    }
    ensure!(forked["contexts"].as_array().map(Vec::len) == Some(8), "{forked}");
    Ok(())
}
