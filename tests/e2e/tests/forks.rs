//! Forks of sandboxes whose contexts go along.

use crate::contexts::{Place, text_of};
use anyhow::{Result, ensure};
use paddock_e2e::{Caller, PATIENCE, Server, for_both_callers, skip_rest, until};
use serde_json::{Value, json};

for_both_callers!(
    contexts_go_along_with_what_they_know,
    whoever_asks_for_files_gets_files,
    what_cannot_go_along_is_named,
    forks_outlive_their_source_and_it_them,
    forks_of_forks_go_on_after_a_crash,
    many_forks_from_one_call,
    more_forks_live_than_processes_may_run_inside,
    whether_it_can_be_forked_is_said_when_it_is_made,
    who_insists_on_forks_has_them_or_an_error,
    who_wants_no_forks_has_a_fence_without_them,
    a_fork_is_compared_with_what_its_source_had_when_it_slept,
    each_by_itself_takes_the_room_that_there_is,
);

/// Code in a fork.
fn in_fork(server: &Server<'_>, id: &str, body: &Value) -> Result<Value> {
    server.api("POST", &format!("/v1/sandboxes/{id}/code"), Some(body))?.expect(200)
}

pub fn python(server: &Server<'_>, id: &str, code: &str) -> Result<String> {
    text_of(&in_fork(server, id, &json!({ "code": code }))?)
}

pub fn fork(place: &Place<'_>, body: Value) -> Result<Value> {
    place.post("/fork", body, 201)
}

pub fn child(forked: &Value, place: usize) -> String {
    forked["sandboxes"][place]["id"].as_str().unwrap_or_default().to_string()
}

/// If the caller is not root a fork has the files, and says why.
/// Why the rest of a test is not for an ordinary user.
pub const FILES_ALONE: &str = "forks of an ordinary user have the files alone, and say so";

pub fn is_live(caller: &Caller, forked: &Value) -> Result<bool> {
    if caller.is_root {
        ensure!(forked["kind"] == "interpreter", "{forked}");
        return Ok(true);
    }
    ensure!(forked["kind"] == "filesystem" && forked["reason"].is_string(), "{forked}");
    skip_rest(FILES_ALONE);
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
        skip_rest(FILES_ALONE);
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

/// True if root inside may write where the mounts let it and Landlock's own list does not; and the ids that there are.
fn seen_from_inside(server: &Server<'_>, id: &str) -> Result<(String, String)> {
    let write = "import os, errno\ntry: os.mkdir('/etc/new'); print('written')\nexcept OSError as e: print(errno.errorcode[e.errno])";
    let said = in_fork(server, id, &json!({ "code": write }))?;
    let map = in_fork(server, id, &json!({ "code": "print(open('/proc/self/uid_map').read().split())" }))?;
    let line = |answer: &Value| answer["stdout"].as_str().unwrap_or_default().trim().to_string();
    Ok((line(&said), line(&map)))
}

fn has_weakness(server: &Server<'_>, id: &str) -> Result<bool> {
    let described = server.api("GET", &format!("/v1/sandboxes/{id}"), None)?.expect(200)?;
    Ok(described["guarantees"]["weaknesses"]
        .to_string()
        .contains("Landlock does not say where the work may write"))
}

fn fork_kind(server: &Server<'_>, id: &str) -> Result<String> {
    let described = server.api("GET", &format!("/v1/sandboxes/{id}"), None)?.expect(200)?;
    Ok(described["guarantees"]["fork"].as_str().unwrap_or_default().to_string())
}

pub fn made(server: &Server<'_>, body: &Value) -> Result<String> {
    let made = server.api("POST", "/v1/sandboxes", Some(body))?.expect(201)?;
    Ok(made["id"].as_str().unwrap_or_default().to_string())
}

/// One line, which maps the sandbox's own ids to as many of the host's.
fn has_only_its_own_ids(map: &str) -> bool {
    let words: Vec<&str> = map.trim_matches(['[', ']']).split(", ").collect();
    words.len() == 3 && words[0] == "'0'" && words[2] == "'65536'"
}

fn whether_it_can_be_forked_is_said_when_it_is_made(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let unset = made(&server, &json!({ "user": "root" }))?;
    let kind = if caller.is_root { "interpreter" } else { "filesystem" };
    ensure!(fork_kind(&server, &unset)? == kind, "{}", fork_kind(&server, &unset)?);
    ensure!(has_weakness(&server, &unset)? == caller.is_root);
    python(&server, &unset, "x = 7; x")?;
    let forked = server.api("POST", &format!("/v1/sandboxes/{unset}/fork"), Some(&json!({})))?.expect(201)?;
    if is_live(caller, &forked)? {
        let id = child(&forked, 0);
        assert_eq!(python(&server, &id, "x")?, "7");
        for (id, whose) in [(&unset, "the source"), (&id, "the fork")] {
            let (said, map) = seen_from_inside(&server, id)?;
            ensure!(said == "written" && has_only_its_own_ids(&map), "{whose}: {said} {map}");
        }
    }
    Ok(())
}

fn more_forks_live_than_processes_may_run_inside(caller: &Caller) -> Result<()> {
    const MOST_PROCESSES: usize = 32;
    if !caller.is_root {
        skip_rest(FILES_ALONE);
        return Ok(());
    }
    let server = Server::start(caller)?;
    let id = made(&server, &json!({ "limits": { "pids": MOST_PROCESSES }, "live_forks": true }))?;
    python(&server, &id, "x = 7; x")?;
    let body = json!({ "live": true, "count": 8 });
    let mut last = Value::Null;
    for _ in 0..5 {
        last = server.api("POST", &format!("/v1/sandboxes/{id}/fork"), Some(&body))?.expect(201)?;
    }
    assert_eq!(python(&server, &child(&last, 7), "x")?, "7");
    // The limit still holds, in the source and in a fork of it.
    let bomb = "import os, signal\nchildren = []\ntry:\n    while len(children) < 200:\n        child = os.fork()\n        \
        if child == 0:\n            signal.pause()\n        children.append(child)\nexcept BlockingIOError:\n    pass\n\
        for child in children:\n    os.kill(child, 9)\n    os.waitpid(child, 0)\nlen(children)";
    for one in [&id, &child(&last, 0)] {
        let made: usize = python(&server, one, bomb)?.parse()?;
        ensure!(made > 0 && made < MOST_PROCESSES, "{made} processes where {MOST_PROCESSES} are allowed");
    }
    Ok(())
}

fn who_insists_on_forks_has_them_or_an_error(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let body = json!({ "live_forks": true, "backend": "process" });
    if !caller.is_root {
        let refused = server.api("POST", "/v1/sandboxes", Some(&body))?;
        refused.refused(422, "requirement_not_met")?;
        ensure!(refused.text().contains("as root"), "{}", refused.text());
        skip_rest(FILES_ALONE);
        return Ok(());
    }
    let contradicts = json!({ "live_forks": false, "require": ["live-forks"], "backend": "process" });
    server.api("POST", "/v1/sandboxes", Some(&contradicts))?.refused(422, "requirement_not_met")?;
    // Not one of a pool, which would have the files alone.
    server.api("PUT", "/v1/pools/code-interpreter", Some(&json!({ "min": 1, "max": 2 })))?.expect(200)?;
    crate::pools::filled(&server, "code-interpreter", 1)?;
    let ready = made(&server, &json!({}))?;
    ensure!(fork_kind(&server, &ready)? == "filesystem" && !has_weakness(&server, &ready)?);
    ensure!(has_only_its_own_ids(&seen_from_inside(&server, &ready)?.1));
    let id = made(&server, &body)?;
    python(&server, &id, "x = 7; x")?;
    let live = Some(&json!({ "live": true }));
    let forked = server.api("POST", &format!("/v1/sandboxes/{id}/fork"), live)?.expect(201)?;
    ensure!(forked["kind"] == "interpreter", "{forked}");
    Ok(())
}

fn who_wants_no_forks_has_a_fence_without_them(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&["--live-forks", "false"])?;
    ensure!(fork_kind(&server, &id)? == "filesystem" && !has_weakness(&server, &id)?);
    python(&server, &id, "x = 7; x")?;
    let forked = server.api("POST", &format!("/v1/sandboxes/{id}/fork"), Some(&json!({})))?.expect(201)?;
    ensure!(forked["kind"] == "filesystem", "{forked}");
    ensure!(forked["reason"].to_string().contains("`live_forks` was off"), "{forked}");
    let live = Some(&json!({ "live": true }));
    server.api("POST", &format!("/v1/sandboxes/{id}/fork"), live)?.refused(409, "not_carried")?;
    if !caller.is_root {
        skip_rest(FILES_ALONE);
        return Ok(());
    }
    let strict = made(&server, &json!({ "live_forks": false, "user": "root" }))?;
    let (said, map) = seen_from_inside(&server, &strict)?;
    ensure!(said == "EACCES" && has_only_its_own_ids(&map), "{said} {map}");
    Ok(())
}

/// The files that its source made, slept with and gave to the fork were there when the fork began.
fn a_fork_is_compared_with_what_its_source_had_when_it_slept(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    place.python("for name in ('kept', 'gone'): open('/workspace/' + name, 'w').write(name)")?;
    place.act("/hibernate")?;
    let id = child(&fork(&place, json!({}))?, 0);
    let server = &place.server;
    python(server, &id, "import os; os.remove('/workspace/gone'); open('/workspace/new', 'w').write('new')")?;
    let changes = changes_of(server, &id)?;
    ensure!(changes == ["deleted /workspace/gone", "added /workspace/new"], "{changes:?}");
    Ok(())
}

/// The changes of a sandbox, each with its kind.
pub fn changes_of(server: &Server<'_>, id: &str) -> Result<Vec<String>> {
    let told = server.api("GET", &format!("/v1/sandboxes/{id}/changes"), None)?.expect(200)?;
    let text = |change: &Value, field: &str| change[field].as_str().unwrap_or_default().to_string();
    let changes = told["changes"].as_array().into_iter().flatten();
    Ok(changes.map(|change| format!("{} {}", text(change, "kind"), text(change, "path"))).collect())
}

/// The quota has room for two of three.
fn each_by_itself_takes_the_room_that_there_is(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    let server = &place.server;
    server.script(&place.id, "echo kept > /tmp/f")?.success()?;
    server.run(["quota", "owner", "--sandboxes", "3"])?.success()?;
    let ask = |count: u32| {
        let body = json!({ "count": count, "partial": true }).to_string();
        let headers = "Content-Type: application/json\r\nIdempotency-Key: once\r\n";
        server.send("POST", &place.path("/fork"), headers, body.as_bytes())
    };
    let forked = ask(3)?.expect(201)?;
    let failed = &forked["failed"];
    ensure!(forked["sandboxes"].as_array().is_some_and(|made| made.len() == 2), "{forked}");
    ensure!(failed.as_array().is_some_and(|failed| failed.len() == 1), "{forked}");
    let told = (&failed[0]["place"], &failed[0]["status"], &failed[0]["code"]);
    ensure!(told == (&json!(2), &json!(429), &json!("quota_exceeded")), "{forked}");
    for number in 0..2 {
        assert_eq!(server.script(&child(&forked, number), "cat /tmp/f")?.success()?, "kept\n");
    }
    // The same key makes nothing more, although there is room now.
    server.run(["kill", &child(&forked, 0)])?.success()?;
    assert_eq!(ask(3)?.expect(201)?, forked);
    ask(2)?.refused(409, "wrong_state")?;
    let said = server.run(["fork", "-n", "2", "--partial", &place.id])?;
    ensure!(said.exited(1)?.out().lines().count() == 1, "{}", said.out());
    ensure!(
        said.err().contains("fork 2 of 2 was not made") && said.err().contains("quota_exceeded"),
        "{}",
        said.err()
    );
    // There is room for none: that is no error of the whole call.
    let none = fork(&place, json!({ "count": 2, "partial": true }))?;
    ensure!(none["sandboxes"] == json!([]) && none["failed"][1]["place"] == 1, "{none}");
    place.post("/fork", json!({ "count": 0, "partial": true }), 400)?;
    place.post("/fork", json!({ "partial": "yes" }), 400)?;
    server.run(["fork", "-n", "2", "--partial", "sb-0000000000000000"])?.exited(1)?;
    Ok(())
}
