//! Contexts outlive a server's death, a pause, a sleep, a fork, a thousand calls: which of their parts do.

use crate::contexts::{Place, text_of};
use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, PATIENCE, for_both_callers, until};
use serde_json::{Value, json};

for_both_callers!(
    a_killed_server_loses_nothing,
    pause_keeps_a_context_and_hibernation_ends_it,
    a_fork_of_files_begins_without_contexts,
    answers_of_long_ago_are_kept_for_a_day,
);

fn a_killed_server_loses_nothing(caller: &Caller) -> Result<()> {
    let mut place = Place::new(caller)?;
    place.python("import time\nx = 'kept'")?;
    let code = "for i in range(30):\n    print(i, flush=True)\n    if i % 10 == 5: display(i)\n    time.sleep(0.05)\nx";
    let number = place.post("/code", json!({ "code": code, "background": true }), 201)?["exec"].clone();
    let printed = |place: &Place<'_>, least: u64| {
        until(PATIENCE, "output", || {
            let seen = place.get(&format!("/execs/{number}")).ok()?;
            (seen["stdout_bytes"].as_u64() >= Some(least)).then_some(())
        })
    };
    for least in [4, 14] {
        printed(&place, least)?;
        place.server.kill()?;
        std::thread::sleep(std::time::Duration::from_millis(100));
        place.server.start_again()?;
    }
    let ended = place.get(&format!("/execs/{number}/wait"))?;
    let expected: String = (0..30).map(|number| format!("{number}\n")).collect();
    assert_eq!(ended["stdout"].as_str(), Some(expected.as_str()));
    let shown: Vec<_> =
        ended["results"].as_array().into_iter().flatten().map(|one| one["text"].clone()).collect();
    assert_eq!(shown, ["5", "15", "25", "'kept'"]);
    assert_eq!((ended["exit_code"].as_i64(), ended["cause"]["kind"].as_str()), (Some(0), Some("exited")));
    // While nothing ran, too: and the output of meanwhile is there.
    place.python("import threading\nthreading.Timer(0.3, lambda: print('meanwhile')).start()")?;
    place.server.kill()?;
    std::thread::sleep(std::time::Duration::from_millis(600));
    place.server.start_again()?;
    assert_eq!(place.value("x")?, "'kept'");
    let exec = place.get("/contexts/python")?["exec"].clone();
    assert_eq!(place.get(&format!("/execs/{exec}"))?["stdout_bytes"], 10);
    Ok(())
}

fn pause_keeps_a_context_and_hibernation_ends_it(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    place.python("x = 'kept'")?;
    place.post("/contexts", json!({ "id": "own" }), 201)?;
    place.server.run(["pause", &place.id])?.success()?;
    place.server.run(["resume", &place.id])?.success()?;
    assert_eq!(place.value("x")?, "'kept'");
    place.server.run(["hibernate", &place.id])?.success()?;
    place.server.run(["wake", &place.id])?.success()?;
    let states = place.get("/contexts")?;
    for context in states["contexts"].as_array().context("no contexts")? {
        assert_eq!(context["state"], "ended", "{context}");
        assert_eq!(context["cause"]["kind"], "sandbox_ended");
    }
    let refused = place.post("/code", json!({ "code": "1", "context": "own" }), 409)?;
    ensure!(refused["message"].as_str().unwrap_or_default().contains("hibernated"), "{refused}");
    let answer = place.python("'x' in globals()")?;
    assert_eq!(
        (text_of(&answer)?.as_str(), &answer["context_restarted"]["kind"]),
        ("False", &json!("sandbox_ended"))
    );
    Ok(())
}

fn a_fork_of_files_begins_without_contexts(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    place.python("open('/tmp/file', 'w').write('kept')\nx = 1")?;
    let forked = place.server.run(["fork", "--files-only", &place.id])?.success()?;
    let child = Place { server: place.server, id: forked.trim().to_string() };
    assert_eq!(child.get("/contexts")?["contexts"].as_array().map(Vec::len), Some(0));
    let answer = child.python("open('/tmp/file').read(), 'x' in globals()")?;
    assert_eq!(text_of(&answer)?, "('kept', False)");
    ensure!(answer.get("context_restarted").is_none(), "nothing was lost: {answer}");
    Ok(())
}

fn answers_of_long_ago_are_kept_for_a_day(caller: &Caller) -> Result<()> {
    let mut place = Place::new(caller)?;
    // An interpreter whose only call is the oldest of all.
    place.code(json!({ "code": "x=kept; echo first", "language": "bash" }))?;
    place.python("count = 0")?;
    let first = keyed(&place, "print('the first of many')")?;
    for _ in 0..1250 {
        place.python("count += 1\nprint(count)")?;
    }
    let listed = place.get("/execs")?["execs"].as_array().map_or(0, Vec::len);
    ensure!((1000..1210).contains(&listed), "{listed} are listed");
    // Execs that left the list are still there, by their number or their key.
    let read = |place: &Place<'_>| -> Result<()> {
        let again = place.get(&format!("/execs/{}", first["exec"]))?;
        assert_eq!((&again["stdout"], &again["cause"]), (&first["stdout"], &first["cause"]));
        assert_eq!(keyed(place, "print('the first of many')")?["exec"], first["exec"]);
        let output =
            place.server.api("GET", &place.path(&format!("/execs/{}/stdout", first["exec"])), None)?;
        assert_eq!((output.status, output.text().as_str()), (200, "the first of many\n"));
        Ok(())
    };
    read(&place)?;
    assert_eq!(place.value("count")?, "1250");
    // The next server still knows how far each interpreter was.
    place.server.kill()?;
    place.server.start_again()?;
    read(&place)?;
    assert_eq!(place.value("count")?, "1250");
    let answer = place.code(json!({ "code": "echo $x", "language": "bash" }))?;
    assert_eq!(answer["stdout"], "kept\n");
    Ok(())
}

/// A call with one idempotency key, always the same.
fn keyed(place: &Place<'_>, code: &str) -> Result<Value> {
    let headers = "Content-Type: application/json\r\nIdempotency-Key: first\r\n";
    let body = json!({ "code": code }).to_string();
    place.server.send("POST", &place.path("/code"), headers, body.as_bytes())?.expect(200)
}
