//! Sandboxes that fall asleep: calls to them meanwhile, sandboxes that begin with their memory, and the remains of a
//! killed server.

use crate::contexts::{Place, text_of};
use crate::forks::{changes_of, child, fork, made};
use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, PATIENCE, Server, for_both_callers, skip, until};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::thread;

for_both_callers!(
    calls_wait_for_one_that_falls_asleep_and_wake_it,
    a_snapshot_of_a_sleeping_fork_outlives_the_fork,
    who_is_told_that_it_sleeps_finds_it_on_the_disk,
    a_killed_server_leaves_no_archives,
);

/// So much that keeping it takes a while.
const FILL: &str = "head -c 50000000 /dev/urandom > /workspace/filled";

/// Names of files in a directory of the server's state.
fn names(caller: &Caller, directory: &str) -> Vec<String> {
    let entries = std::fs::read_dir(caller.state().join(directory)).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn is_unfinished(name: impl AsRef<str>) -> bool {
    name.as_ref().ends_with(".new")
}

/// Waits until the server writes in that directory, or the request is done.
fn until_it_writes<T>(
    caller: &Caller,
    directory: &str,
    asked: &thread::ScopedJoinHandle<'_, T>,
) -> Result<()> {
    let writes = || names(caller, directory).iter().any(is_unfinished) || asked.is_finished();
    until(PATIENCE, "an archive that is being written", || writes().then_some(()))
}

/// Work that had begun before it fell asleep ends with that, and says so.
fn had_begun(done: &Value) -> bool {
    done["cause"]["kind"] == "sandbox_ended"
}

/// One of each kind of call. Each is answered as if nothing else had happened.
fn calls(server: &Server<'_>, id: &str, round: usize) -> Vec<(&'static str, Result<()>)> {
    let path = |rest: &str| format!("/v1/sandboxes/{id}{rest}");
    let post = |rest: &str, body: Value| server.api("POST", &path(rest), Some(&body));
    thread::scope(|scope| {
        let exec = scope.spawn(|| {
            let done = post("/execs", json!({ "command": "echo $((40 + 2))" }))?.expect(200)?;
            ensure!(done["stdout"] == "42\n" || had_begun(&done), "{done}");
            Ok(())
        });
        let code = scope.spawn(|| {
            let answer = post("/code", json!({ "code": "40 + 2" }))?.expect(200)?;
            ensure!(had_begun(&answer) || text_of(&answer)? == "42", "{answer}");
            Ok(())
        });
        let written = scope.spawn(|| {
            let target = path(&format!("/files/content?path=/workspace/{round}"));
            server.send("PUT", &target, "", b"written")?.expect(200)?;
            Ok(())
        });
        let read = scope.spawn(|| {
            let target = path("/files/content?path=/workspace/first");
            let answer = server.api("GET", &target, None)?;
            ensure!(answer.status == 200 && answer.text() == "first", "{}", answer.text());
            Ok(())
        });
        let port = scope.spawn(|| {
            // Nothing listens there, which only its guest can tell.
            server.api("GET", &path("/ports/81/"), None)?.refused(502, "port_closed").map(|_| ())
        });
        let snapshot = scope.spawn(|| post("/snapshots", json!({}))?.expect(201).map(drop));
        let forked = scope.spawn(|| {
            // A fork with its interpreters would live in its namespaces, and then it could not fall asleep.
            let forked = post("/fork", json!({ "live": false }))?.expect(201)?;
            server.run(["kill", &child(&forked, 0)])?.success().map(drop)
        });
        let joined = [
            ("exec", exec),
            ("code", code),
            ("write", written),
            ("read", read),
            ("port", port),
            ("snapshot", snapshot),
            ("fork", forked),
        ];
        let panicked = |_| Err(anyhow::anyhow!("the call panicked"));
        joined.map(|(kind, call)| (kind, call.join().unwrap_or_else(panicked))).into()
    })
}

fn calls_wait_for_one_that_falls_asleep_and_wake_it(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    place.server.script(&place.id, &format!("{FILL}; printf first > /workspace/first"))?.success()?;
    let (server, id) = (&place.server, place.id.as_str());
    // A disk of its own is not written anywhere, so that the moment of sleep is not seen: calls come before, meanwhile
    // and after.
    for round in 0..if caller.is_root { 3 } else { 1 } {
        thread::scope(|scope| -> Result<()> {
            let asleep = scope.spawn(|| place.act("/hibernate"));
            if !caller.is_root {
                until_it_writes(caller, "hibernated", &asleep)?;
            }
            for (kind, answered) in calls(server, id, round) {
                answered.with_context(|| format!("{kind}, round {round}"))?;
            }
            asleep.join().map_err(|_| anyhow::anyhow!("it panicked"))?.map(drop)
        })?;
        // Acknowledged writes are there, in any order.
        let seen = server.script(id, &format!("cat /workspace/{round}"))?.success()?;
        ensure!(seen == "written", "{seen}");
    }
    Ok(())
}

fn a_snapshot_of_a_sleeping_fork_outlives_the_fork(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    let server = &place.server;
    server.script(&place.id, "echo 1 > /workspace/of-source")?.success()?;
    let one = child(&fork(&place, json!({}))?, 0);
    server.script(&one, "echo 2 > /workspace/of-fork; rm /workspace/of-source")?.success()?;
    let path = |id: &str, rest: &str| format!("/v1/sandboxes/{id}{rest}");
    server.api("POST", &path(&one, "/hibernate"), None)?.expect(200)?;
    let snapshot = server.api("POST", &path(&one, "/snapshots"), Some(&json!({})))?.expect(201)?;
    server.run(["kill", &one])?.success()?;
    let two = made(server, &json!({ "snapshot": snapshot["id"] }))?;
    let begun = changes_of(server, &two)?;
    ensure!(begun.is_empty(), "it has changed nothing: {begun:?}");
    server.script(&two, "rm /workspace/of-fork; echo 3 > /workspace/new")?.success()?;
    let expected = ["added /workspace/new", "deleted /workspace/of-fork"];
    for slept in [false, true] {
        let mut changes = changes_of(server, &two)?;
        changes.retain(|change| change.contains(" /workspace/"));
        changes.sort();
        ensure!(changes == expected, "slept: {slept}, {changes:?}");
        server.api("POST", &path(&two, "/hibernate"), None)?.expect(200)?;
        ensure!(server.script(&two, "cat /workspace/new")?.success()? == "3\n");
    }
    Ok(())
}

/// True if data of a file waits in memory to be written. `None` if that cannot be seen.
fn waits_to_be_written(file: &Path) -> Option<bool> {
    let told = Command::new("filefrag").arg("-v").arg(file).output().ok()?;
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    told.contains("extent").then(|| told.contains("delalloc"))
}

fn who_is_told_that_it_sleeps_finds_it_on_the_disk(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    place.server.script(&place.id, FILL)?.success()?;
    place.act("/hibernate")?;
    for name in names(caller, "hibernated") {
        let file = caller.state().join("hibernated").join(&name);
        match waits_to_be_written(&file) {
            Some(waits) => ensure!(!waits, "{name} is not written yet"),
            None => skip("filefrag", "it cannot be seen whether a file waits in memory to be written"),
        }
    }
    place.act("/wake")?;
    ensure!(place.server.script(&place.id, "wc -c < /workspace/filled")?.success()?.trim() == "50000000");
    Ok(())
}

fn a_killed_server_leaves_no_archives(caller: &Caller) -> Result<()> {
    let mut place = Place::new(caller)?;
    place.server.script(&place.id, FILL)?.success()?;
    for (what, directory) in
        [("/snapshots", "snapshots"), ("/fork", "snapshots"), ("/hibernate", "hibernated")]
    {
        let process = place.server.process()?;
        thread::scope(|scope| -> Result<()> {
            let place = &place;
            let body = (what != "/hibernate").then(|| json!({}));
            let asked =
                scope.spawn(move || place.server.api("POST", &place.path(what), body.as_ref()).map(drop));
            if !caller.is_root {
                until_it_writes(caller, directory, &asked)?;
            }
            let process = i32::try_from(process).ok().and_then(rustix::process::Pid::from_raw);
            rustix::process::kill_process(process.context("no server")?, rustix::process::Signal::KILL)?;
            // The answer does not matter.
            let _ = asked.join();
            Ok(())
        })?;
        place.server.kill()?;
        place.server.start_again()?;
        let left: Vec<String> = ["hibernated", "snapshots", "baselines"]
            .iter()
            .flat_map(|directory| names(caller, directory))
            .collect();
        ensure!(!left.iter().any(is_unfinished), "{what}: {left:?}");
    }
    // A file without a record has no owner, whatever its name is.
    for strange in [
        "snapshots/fk-0123456789abcdef.tar",
        "baselines/fk-0123456789abcdef.json",
        "hibernated/sb-0123456789abcdef.tar",
    ] {
        let path = caller.state().join(strange);
        std::fs::create_dir_all(path.parent().context("it lies in a directory")?)?;
        std::fs::write(&path, strange)?;
        caller.own_all(path.parent().context("it lies in a directory")?)?;
    }
    place.server.run(["kill", "--all"])?.success()?;
    for snapshot in place.server.api("GET", "/v1/snapshots", None)?.expect(200)?["snapshots"]
        .as_array()
        .into_iter()
        .flatten()
    {
        place.server.run(["snapshot", "rm", snapshot["id"].as_str().unwrap_or_default()])?.success()?;
    }
    place.server.stop()?;
    place.server.start_again()?;
    for directory in ["hibernated", "snapshots", "baselines"] {
        ensure!(names(caller, directory).is_empty(), "{directory}: {:?}", names(caller, directory));
    }
    Ok(())
}
