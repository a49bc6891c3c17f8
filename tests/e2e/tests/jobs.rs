//! Jobs as people and scripts use them: a file, a queue, and the fate of both when the server goes.

use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, PATIENCE, Server, for_both_callers, images, skip, until};
use serde_json::{Value, json};

for_both_callers!(
    a_file_runs_without_a_server,
    every_field_of_a_job_does_something,
    an_array_runs_each_of_its_tasks_once,
    what_fails_is_tried_again_as_the_job_says,
    a_job_is_cancelled_whole,
    a_failure_stops_the_others_where_it_shall,
    a_server_that_is_killed_loses_no_task,
    what_runs_while_the_server_is_killed_is_found_again,
    the_best_of_several_wins,
    a_script_returns_its_result,
    an_image_of_ones_own_is_run_in,
    a_volume_knows_that_its_job_failed,
    a_secret_is_kept_and_never_shown,
    tenants_see_only_their_own,
    what_is_left_is_bounded_and_its_names_lead_nowhere,
);

pub fn submit(server: &Server<'_>, spec: &Value) -> Result<String> {
    let job = server.api("POST", "/v1/jobs", Some(spec))?.expect(201)?;
    Ok(job["id"].as_str().context("an id")?.to_string())
}

pub fn ended(server: &Server<'_>, id: &str) -> Result<Value> {
    until(PATIENCE * 4, "the end of a job", || {
        let job = server.api("GET", &format!("/v1/jobs/{id}?wait_seconds=5"), None).ok()?.expect(200).ok()?;
        (job["state"] != "queued" && job["state"] != "running").then_some(job)
    })
}

pub fn tasks(server: &Server<'_>, id: &str) -> Result<Vec<Value>> {
    let page = server.api("GET", &format!("/v1/jobs/{id}/tasks?limit=1000"), None)?.expect(200)?;
    Ok(page["tasks"].as_array().context("tasks")?.clone())
}

/// The only task of a job that has run.
fn only(server: &Server<'_>, spec: &Value) -> Result<(Value, Value)> {
    let id = submit(server, spec)?;
    let job = ended(server, &id)?;
    let task = tasks(server, &id)?.first().context("a task")?.clone();
    Ok((job, task))
}

/// No sandbox of a job outlives it.
fn nothing_lives(server: &Server<'_>) -> Result<()> {
    until(PATIENCE, "the end of all sandboxes", || {
        let listed = server.api("GET", "/v1/sandboxes", None).ok()?.expect(200).ok()?;
        listed["sandboxes"].as_array()?.is_empty().then_some(())
    })
}

fn a_file_runs_without_a_server(caller: &Caller) -> Result<()> {
    let run = |words: &[&str]| caller.paddock(words)?.finish();
    caller.directory("data")?;
    caller.file("data/in.txt", "from beside\n")?;
    let file = "command = 'cat in.txt; echo $1 >&2; exit 3'\nargs = ['word']\ntimeout_seconds = 60\n\
                [[inputs]]\npath = 'in.txt'\nfrom = 'data/in.txt'\n";
    let path = caller.file("job.toml", file)?.display().to_string();
    let done = run(&["job", "run", &path])?;
    ensure!(done.exited(3)?.out() == "from beside\n", "{} {}", done.out(), done.err());
    ensure!(done.err().starts_with("word\n") && done.err().contains("exit code 3"), "{}", done.err());
    let backend = run(&["job", "run", &path, "--backend", "process", "--json"])?;
    let json = backend.exited(3)?.json()?;
    ensure!(json["job"]["spec"]["backend"] == "process" && json["tasks"][0]["exit_code"] == 3, "{json}");
    let sweep =
        "code = 'import os; print(os.environ[\"PADDOCK_JOB_INDEX\"])'\narray = 5\ntimeout_seconds = 60\n";
    let sweep = caller.file("sweep.toml", sweep)?.display().to_string();
    let watched = run(&["job", "run", &sweep, "--watch"])?;
    ensure!(watched.success()?.contains("5 of 5 succeeded"), "{}", watched.out());
    ensure!(watched.err().contains("succeeded 5/5"), "{}", watched.err());
    let broken = "command = 'echo the reason >&2; exit 4'\narray = 3\ntimeout_seconds = 60\n";
    let broken = caller.file("broken.toml", broken)?.display().to_string();
    let failed = run(&["job", "run", &broken])?;
    ensure!(failed.exited(1)?.err().contains("printed last:\n  the reason\n"), "{}", failed.err());
    let late = caller.file("late.json", r#"{"command": "sleep 60", "timeout_seconds": 0.5}"#)?;
    run(&["job", "run", &late.display().to_string()])?.exited(124)?;
    for (content, words) in [
        ("comand = 'x'\n", "`comand` is not a field here"),
        ("command = 'x'\npriority = 1000\n", "field `priority`: `1000`"),
        ("command = 'x'\n[[inputs]]\npath = 'a'\nfrom = 'nowhere'\n", "nowhere` of the job cannot be read"),
    ] {
        let bad = caller.file("bad.toml", content)?.display().to_string();
        let said = run(&["job", "run", &bad])?;
        ensure!(said.exited(125)?.err().contains(words) && said.err().contains("hint:"), "{}", said.err());
    }
    Ok(())
}

fn every_field_of_a_job_does_something(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let script = "pwd; cat a.txt /workspace/b; stat -c %a a.txt; echo $GIVEN $PADDOCK_JOB_COUNT $PADDOCK_JOB_ATTEMPT; hostname; \
                  ls -d /scratch; ulimit -n; mkdir -p out && echo kept > out/x.csv && echo left > out/y.txt; echo $1";
    let spec = json!({
        "name": "everything", "command": script, "args": ["{index}"], "env": {"GIVEN": "value-{index}"},
        "cwd": "/tmp", "template": "code-interpreter", "backend": "process", "require": ["disk-limit"],
        "inputs": [{"path": "a.txt", "text": "text\n", "mode": 0o600}, {"path": "/workspace/b", "base64": "YmluYXJ5Cg=="}],
        "outputs": ["out/*.csv"], "limits": {"open_files": 77, "memory_bytes": 268_435_456},
        "policy": {"hostname": "jobs-own", "tmpfs": ["/scratch"], "network": "none"},
        "timeout_seconds": 60, "priority": 5, "parallelism": 1, "keep_seconds": 3600,
    });
    let (job, task) = only(&server, &spec)?;
    ensure!(job["state"] == "succeeded" && job["name"] == "everything", "{job} {task}");
    let expected = "/tmp\ntext\nbinary\n600\nvalue-0 1 1\njobs-own\n/scratch\n77\n0\n";
    ensure!(task["stdout"] == expected, "{task}");
    ensure!(job["spec"]["inputs"][0].get("text").is_none(), "contents are shown: {job}");
    let kept = job["kept_until_ms"].as_u64().unwrap_or(0) - job["ended_at_ms"].as_u64().unwrap_or(0);
    ensure!(kept == 3_600_000, "kept for {kept}");
    let id = job["id"].as_str().context("an id")?;
    let listed = server.run(["job", "artifacts", id])?.success()?;
    ensure!(listed.contains("out/x.csv") && !listed.contains("y.txt"), "{listed}");
    let to = caller.home().join("fetched");
    server.run(["job", "artifacts", id, "--to", &to.display().to_string()])?.success()?;
    assert_eq!(std::fs::read_to_string(to.join("0/out/x.csv"))?, "kept\n");
    assert_eq!(server.run(["job", "logs", id])?.success()?, expected);
    let (job, task) =
        only(&server, &json!({"code": "import sys; print('said'); 6 * 7", "timeout_seconds": 60}))?;
    ensure!(job["state"] == "succeeded" && task["result"] == "42" && task["stdout"] == "said\n", "{task}");
    let (job, task) =
        only(&server, &json!({"code": "echo $0; false", "language": "bash", "timeout_seconds": 60}))?;
    ensure!(job["state"] == "failed" && task["exit_code"] == 1, "{task}");
    let (_, task) = only(&server, &json!({"command": ["id", "-u"], "user": "root", "timeout_seconds": 60}))?;
    ensure!(task["stdout"] == "0\n", "{task}");
    let never = json!({"command": "true", "require": ["own-kernel"], "backend": "process"});
    server.api("POST", "/v1/jobs", Some(&never))?.refused(422, "requirement_not_met")?;
    // By such keys a server finds a job's sandboxes again: no caller may set them.
    let labelled = json!({"metadata": {"paddock.job": "job-0"}});
    server.api("POST", "/v1/sandboxes", Some(&labelled))?.refused(400, "invalid_request")?;
    // A job begins with a snapshot, and expired records are removed.
    let box_id = server.create(&[])?;
    server.script(&box_id, "echo before > /workspace/state")?.success()?;
    server.run(["snapshot", "create", &box_id, "--name", "begun"])?.success()?;
    server.run(["kill", &box_id])?.success()?;
    let (job, task) = only(
        &server,
        &json!({"command": "cat state", "snapshot": "begun", "timeout_seconds": 60, "keep_seconds": 0.5}),
    )?;
    ensure!(task["stdout"] == "before\n", "{task}");
    let id = job["id"].as_str().context("an id")?;
    until(PATIENCE, "that a job is forgotten", || {
        let answer = server.api("GET", &format!("/v1/jobs/{id}"), None).ok()?;
        (answer.status == 404).then_some(())
    })?;
    server.run(["snapshot", "rm", "begun"])?.success()?;
    nothing_lives(&server)
}

fn an_array_runs_each_of_its_tasks_once(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let code = "import os; print(os.environ['PADDOCK_JOB_INDEX'], os.environ['SQUARE'])";
    let items: Vec<Value> = (0..60).map(|n| json!({"env": {"SQUARE": (n * n).to_string()}})).collect();
    let id = submit(&server, &json!({"code": code, "array": items, "timeout_seconds": 60}))?;
    let job = ended(&server, &id)?;
    ensure!(job["state"] == "succeeded" && job["tasks"]["succeeded"] == 60, "{job}");
    ensure!(job["cost"]["attempts"] == 60, "{job}");
    for (index, task) in tasks(&server, &id)?.iter().enumerate() {
        ensure!(task["stdout"] == format!("{index} {}\n", index * index), "{task}");
        ensure!(task["attempts"].as_array().is_some_and(|attempts| attempts.len() == 1), "{task}");
    }
    // Pages, states, and one of them.
    let page = server
        .api("GET", &format!("/v1/jobs/{id}/tasks?limit=7&from=56&state=succeeded"), None)?
        .expect(200)?;
    ensure!(
        page["tasks"].as_array().is_some_and(|tasks| tasks.len() == 4) && page.get("next").is_none(),
        "{page}"
    );
    let shown = server.run(["job", "show", &id, "--state", "failed"])?.success()?;
    ensure!(shown.contains("60 of 60 succeeded"), "{shown}");
    server.api("GET", &format!("/v1/jobs/{id}/tasks/60"), None)?.refused(404, "task_not_found")?;
    // However many, no more than asked for at one time.
    let spec =
        json!({"command": "echo $PADDOCK_JOB_INDEX", "array": 6, "parallelism": 1, "timeout_seconds": 60});
    let id = submit(&server, &spec)?;
    ended(&server, &id)?;
    let mut times: Vec<(u64, u64)> = tasks(&server, &id)?
        .iter()
        .filter_map(|task| {
            let attempt = &task["attempts"][0];
            Some((attempt["started_at_ms"].as_u64()?, attempt["ended_at_ms"].as_u64()?))
        })
        .collect();
    times.sort_unstable();
    ensure!(times.len() == 6 && times.windows(2).all(|two| two[0].1 <= two[1].0), "they overlap: {times:?}");
    server.run(["job", "rm", &id])?.success()?;
    server.api("GET", &format!("/v1/jobs/{id}"), None)?.refused(404, "job_not_found")?;
    nothing_lives(&server)
}

fn what_fails_is_tried_again_as_the_job_says(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let retries = json!({"attempts": 2, "backoff_seconds": 0.05});
    let command = "echo attempt $PADDOCK_JOB_ATTEMPT; [ $PADDOCK_JOB_ATTEMPT = 3 ]";
    let (job, task) = only(&server, &json!({"command": command, "retries": retries, "timeout_seconds": 60}))?;
    ensure!(job["state"] == "succeeded" && job["cost"]["attempts"] == 3, "{job}");
    let ends: Vec<&Value> =
        task["attempts"].as_array().context("attempts")?.iter().map(|a| &a["end"]).collect();
    ensure!(ends == ["exit", "exit", "succeeded"], "{task}");
    let id = job["id"].as_str().context("an id")?;
    assert_eq!(server.run(["job", "logs", id])?.success()?, "attempt 3\n");
    assert_eq!(server.run(["job", "logs", id, "--attempt", "1"])?.success()?, "attempt 1\n");
    server.run(["job", "logs", id, "--attempt", "9"])?.exited(1)?;
    let on = |on: &str| json!({"attempts": 1, "backoff_seconds": 0.01, "on": [on]});
    let (hungry, limits) = ("x = b'x' * (400 << 20)", json!({"memory_bytes": 134_217_728}));
    let deny = json!({"scan": "deny", "allowed_imports": ["json"]});
    for (spec, end, attempts) in [
        (json!({"command": "exit 4", "retries": on("timeout")}), "exit", 1),
        (json!({"command": "exit 4", "retries": on("exit")}), "exit", 2),
        (json!({"command": "sleep 60", "timeout_seconds": 0.3, "retries": on("timeout")}), "timeout", 2),
        (json!({"command": "sleep 60", "timeout_seconds": 0.3, "retries": on("exit")}), "timeout", 1),
        (json!({"code": "raise ValueError('no')", "retries": on("exit")}), "exit", 2),
        (json!({"command": "echo x", "outputs": ["not-there"], "retries": on("exit")}), "outputs", 1),
        (json!({"command": ["/no/such/program"], "retries": on("exit")}), "exit", 2),
        (json!({"code": hungry, "limits": limits, "retries": on("out_of_memory")}), "out_of_memory", 2),
        (json!({"code": hungry, "limits": limits, "retries": on("exit")}), "out_of_memory", 1),
        // Denied code stays denied.
        (json!({"code": "import socket", "policy": deny, "retries": on("exit")}), "refused", 1),
    ] {
        let mut spec = spec;
        spec.as_object_mut().context("a job")?.entry("timeout_seconds").or_insert(json!(60));
        let (job, task) = only(&server, &spec)?;
        let had = task["attempts"].as_array().context("attempts")?;
        ensure!(job["state"] == "failed" && had.len() == attempts, "{spec}: {task}");
        ensure!(had.iter().all(|attempt| attempt["end"] == end), "{spec}: {task}");
        ensure!(job["reason"].is_string(), "{job}");
    }
    nothing_lives(&server)
}

fn a_job_is_cancelled_whole(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id =
        submit(&server, &json!({"command": "echo begun; sleep 600", "array": 40, "timeout_seconds": 700}))?;
    until(PATIENCE, "that some run", || {
        let job = server.api("GET", &format!("/v1/jobs/{id}"), None).ok()?.expect(200).ok()?;
        (job["tasks"]["running"].as_u64()? > 1 && job["tasks"]["queued"].as_u64()? > 1).then_some(())
    })?;
    server.api("DELETE", &format!("/v1/jobs/{id}"), None)?.refused(409, "wrong_state")?;
    server.run(["job", "cancel", &id])?.success()?;
    let job = ended(&server, &id)?;
    ensure!(job["state"] == "cancelled" && job["tasks"]["cancelled"] == 40, "{job}");
    nothing_lives(&server)?;
    // Again, and of one that has ended: it stays as it is.
    let again = server.api("POST", &format!("/v1/jobs/{id}/cancel"), None)?.expect(200)?;
    ensure!(again["state"] == "cancelled", "{again}");
    // By the command that waits for it.
    let file = caller.file("long.toml", "command = 'echo begun; sleep 600'\ntimeout_seconds = 700\n")?;
    let mut running = server.paddock(["job", "run", &file.display().to_string()])?.start()?;
    running.wait_for("begun")?;
    running.signal(rustix::process::Signal::INT)?;
    running.finish()?.exited(130)?;
    nothing_lives(&server)
}

fn a_failure_stops_the_others_where_it_shall(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let command = "[ $PADDOCK_JOB_INDEX != 0 ] && sleep 600; exit 1";
    let id = submit(
        &server,
        &json!({"command": command, "array": 30, "on_failure": "stop", "timeout_seconds": 700}),
    )?;
    let job = ended(&server, &id)?;
    ensure!(
        job["state"] == "failed" && job["tasks"]["failed"] == 1 && job["tasks"]["cancelled"] == 29,
        "{job}"
    );
    ensure!(job["reason"].as_str().is_some_and(|why| why.contains("task 0")), "{job}");
    nothing_lives(&server)
}

fn a_server_that_is_killed_loses_no_task(caller: &Caller) -> Result<()> {
    let mut server = Server::start(caller)?;
    let spec = json!({"command": "echo $PADDOCK_JOB_INDEX; sleep 0.02", "array": 80, "timeout_seconds": 60});
    let id = submit(&server, &spec)?;
    for least in [5, 20, 45] {
        until(PATIENCE, "that some have ended", || {
            let job = server.api("GET", &format!("/v1/jobs/{id}"), None).ok()?.expect(200).ok()?;
            (job["tasks"]["succeeded"].as_u64()? >= least || job["state"] == "succeeded").then_some(())
        })?;
        server.kill()?;
        server.start_again()?;
    }
    let job = ended(&server, &id)?;
    ensure!(job["state"] == "succeeded" && job["tasks"]["succeeded"] == 80, "{job}");
    for (index, task) in tasks(&server, &id)?.iter().enumerate() {
        ensure!(task["stdout"] == format!("{index}\n"), "{task}");
        ensure!(task["attempts"].as_array().is_some_and(|attempts| attempts.len() == 1), "ran twice: {task}");
    }
    nothing_lives(&server)
}

fn what_runs_while_the_server_is_killed_is_found_again(caller: &Caller) -> Result<()> {
    let mut server = Server::start(caller)?;
    let command = "echo begun; while [ ! -e /tmp/go ]; do sleep 0.05; done; echo kept > out; echo over";
    let spec = json!({"command": command, "outputs": ["/tmp/../workspace/out"]});
    server.api("POST", "/v1/jobs", Some(&spec))?.refused(400, "invalid_request")?;
    let id = submit(&server, &json!({"command": command, "outputs": ["out"], "timeout_seconds": 120}))?;
    let sandbox = until(PATIENCE, "its sandbox", || {
        let tasks = tasks(&server, &id).ok()?;
        let attempt = tasks.first()?["attempts"].get(0)?.clone();
        attempt["exec"].as_u64()?;
        Some(attempt["sandbox"].as_str()?.to_string())
    })?;
    server.kill()?;
    server.start_again()?;
    let mut follower = server.paddock(["job", "logs", "-f", &id])?.start()?;
    follower.wait_for("begun")?;
    // No client waits for this one: the job ends its sandbox, and all other work there with it.
    let go = json!({"command": "sleep 0.2; touch /tmp/go", "background": true});
    server.api("POST", &format!("/v1/sandboxes/{sandbox}/execs"), Some(&go))?.ok()?;
    let job = ended(&server, &id)?;
    ensure!(job["state"] == "succeeded" && job["cost"]["attempts"] == 1, "{job}");
    assert_eq!(follower.finish()?.success()?, "begun\nover\n");
    let kept = server.api("GET", &format!("/v1/jobs/{id}/artifacts/content?path=out"), None)?;
    assert_eq!(kept.ok()?.text(), "kept\n");
    // A sandbox that is killed takes its attempt with it.
    let retried = json!({"command": command, "timeout_seconds": 120, "retries": {"attempts": 1, "backoff_seconds": 0.01}});
    let id = submit(&server, &retried)?;
    for attempt in 0..2 {
        let sandbox = until(PATIENCE, "its sandbox", || {
            let tasks = tasks(&server, &id).ok()?;
            let attempt = tasks.first()?["attempts"].get(attempt)?.clone();
            attempt["exec"].as_u64()?;
            Some(attempt["sandbox"].as_str()?.to_string())
        })?;
        server.run(["kill", &sandbox])?.success()?;
    }
    let job = ended(&server, &id)?;
    let task = &tasks(&server, &id)?[0];
    ensure!(job["state"] == "failed" && task["attempts"][1]["end"] == "lost", "{task}");
    nothing_lives(&server)
}

fn the_best_of_several_wins(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let base = server.create(&[])?;
    server.script(&base, "printf 'value = 1\\n' > /workspace/app.py")?.success()?;
    let candidates = json!([
        {"command": "echo 'value = 2' > app.py"},
        {"code": "open('app.py', 'w').write('value = 7\\n')"},
        {"command": "exit 1"},
        {"command": "echo 'value = 3' > app.py"},
    ]);
    let verifier = json!({"command": "python3 -c 'import app; print(app.value)'", "score": "json"});
    let spec = json!({
        "best_of": {"sandbox": base, "candidates": candidates, "verifier": verifier, "rule": "best_score"},
        "timeout_seconds": 60,
    });
    let id = submit(&server, &spec)?;
    // Later changes of the base do not reach the candidates.
    server.script(&base, "echo later > /workspace/app.py")?.success()?;
    let job = ended(&server, &id)?;
    ensure!(job["state"] == "succeeded" && job["best"]["index"] == 1 && job["best"]["score"] == 7.0, "{job}");
    let changed = &job["best"]["changes"];
    ensure!(changed[0]["path"] == "/workspace/app.py" && changed[0]["kind"] == "modified", "{job}");
    ensure!(changed.as_array().is_some_and(|all| all.len() == 1), "the verifier's own are there too: {job}");
    ensure!(job["cost"]["attempts"] == 4 && job["tasks"]["failed"] == 1, "{job}");
    let patch =
        server.api("GET", &format!("/v1/jobs/{id}/artifacts/content?task=1&path=changes.patch"), None)?;
    ensure!(patch.ok()?.text().contains("-value = 1\n+value = 7\n"), "{}", patch.text());
    // The first that passes ends the others.
    let sleepy = json!([{"command": "sleep 600"}, {"command": "touch good"}, {"command": "sleep 600"}]);
    let verifier = json!({"command": "test -e good"});
    let spec = json!({"best_of": {"candidates": sleepy, "verifier": verifier}, "timeout_seconds": 700});
    let id = submit(&server, &spec)?;
    let job = ended(&server, &id)?;
    ensure!(
        job["state"] == "succeeded" && job["best"]["index"] == 1 && job["tasks"]["cancelled"] == 2,
        "{job}"
    );
    let none = json!({"best_of": {"candidates": [{"command": "true"}], "verifier": {"command": "echo why >&2; false"}}});
    let (job, _) = only(&server, &none)?;
    ensure!(
        job["state"] == "failed" && job["reason"].as_str().is_some_and(|why| why.contains("why")),
        "{job}"
    );
    let listed = server.api("GET", "/v1/snapshots", None)?.expect(200)?;
    ensure!(listed["snapshots"].as_array().is_some_and(Vec::is_empty), "a state was left: {listed}");
    server.run(["kill", &base])?.success()?;
    nothing_lives(&server)
}

fn a_script_returns_its_result(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let script = "# sandbox\ndef main(name: str, times: int = 2):\n    print('called')\n    return {'said': name * times}\n";
    let spec = json!({"script": script, "args": {"name": "n{index}"}, "array": 2, "timeout_seconds": 60});
    let id = submit(&server, &spec)?;
    let job = ended(&server, &id)?;
    let found = tasks(&server, &id)?;
    ensure!(job["state"] == "succeeded", "{job} {found:?}");
    ensure!(found[1]["result"] == json!({"said": "n1n1"}) && found[1]["stdout"] == "called\n", "{found:?}");
    let wrong = json!({"script": "# sandbox\nx = 1\n", "timeout_seconds": 60});
    server.api("POST", "/v1/jobs", Some(&wrong))?.refused(400, "invalid_request")?;
    let fails = json!({"script": "def main():\n    raise ValueError('not today')\n", "timeout_seconds": 60});
    let (job, _) = only(&server, &fails)?;
    ensure!(
        job["state"] == "failed" && job["reason"].as_str().is_some_and(|why| why.contains("not today")),
        "{job}"
    );
    nothing_lives(&server)
}

fn an_image_of_ones_own_is_run_in(caller: &Caller) -> Result<()> {
    let busybox = match images::busybox() {
        Ok(busybox) => busybox,
        Err(why) => {
            skip("images", &why);
            return Ok(());
        }
    };
    let root = caller.directory("image")?.join("root");
    images::directory(&root, &busybox)?;
    std::fs::write(root.join("only-here"), "from the image\n")?;
    caller.own_all(&root)?;
    let server = Server::start(caller)?;
    let spec = json!({
        "command": "cat /only-here; [ ! -e /usr/bin/python3 ]", "image": root.display().to_string(),
        "array": 2, "timeout_seconds": 60,
    });
    let (job, task) = only(&server, &spec)?;
    ensure!(job["state"] == "succeeded" && task["stdout"] == "from the image\n", "{job} {task}");
    let absent = json!({"command": "true", "image": "/no/such/image", "timeout_seconds": 60});
    let refused = server.api("POST", "/v1/jobs", Some(&absent))?;
    ensure!(refused.refused_somehow()?.text().contains("/no/such/image"), "{}", refused.text());
    nothing_lives(&server)
}

fn a_volume_knows_that_its_job_failed(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let volume = |on_failure: &str| json!([{"name": "work", "path": "/data/work", "on_failure": on_failure}]);
    let command = "echo $1 > /data/work/file; exit $2";
    let run = |args: Value, on_failure: &str| -> Result<(Value, Value)> {
        only(
            &server,
            &json!({"command": command, "args": args, "volumes": volume(on_failure), "timeout_seconds": 60}),
        )
    };
    let (job, task) = run(json!(["first", 0]), "keep")?;
    ensure!(job["state"] == "succeeded", "{job}");
    ensure!(task["reason"].as_str().is_some_and(|why| why.contains("committed as version 1")), "{task}");
    let (job, task) = run(json!(["second", 1]), "keep")?;
    ensure!(job["state"] == "failed", "{job}");
    ensure!(task["reason"].as_str().is_some_and(|why| why.contains("kept aside as version 2")), "{task}");
    run(json!(["third", 1]), "discard")?;
    assert_eq!(server.run(["volume", "get", "work", "file"])?.success()?, "first\n");
    run(json!(["fourth", 1]), "commit")?;
    assert_eq!(server.run(["volume", "get", "work", "file"])?.success()?, "fourth\n");
    let both = json!({"command": "true", "array": 2, "volumes": volume("keep")});
    server.api("POST", "/v1/jobs", Some(&both))?.refused(400, "invalid_request")?;
    server.run(["volume", "rm", "work"])?.success()?;
    Ok(())
}

fn a_secret_is_kept_and_never_shown(caller: &Caller) -> Result<()> {
    let mut server = Server::start_with(caller, &["--jobs", "1"])?;
    let secrets = json!({"KEY": {"value": "sk-very-secret", "hosts": ["api.example.com"]}});
    // It waits behind another one while the server is killed.
    let first = submit(&server, &json!({"command": "sleep 600", "timeout_seconds": 700, "priority": 50}))?;
    until(PATIENCE, "that it runs", || {
        let job = server.api("GET", &format!("/v1/jobs/{first}"), None).ok()?.expect(200).ok()?;
        (job["state"] == "running").then_some(())
    })?;
    let spec = json!({"command": "echo $KEY", "policy": {"secrets": secrets}, "timeout_seconds": 60});
    let id = submit(&server, &spec)?;
    let shown = server.api("GET", &format!("/v1/jobs/{id}"), None)?;
    ensure!(
        shown.ok()?.text().contains("api.example.com") && !shown.text().contains("sk-very"),
        "{}",
        shown.text()
    );
    server.kill()?;
    for name in ["paddock.db", "paddock.db-wal"] {
        let bytes = std::fs::read(caller.state().join(name)).unwrap_or_default();
        ensure!(!String::from_utf8_lossy(&bytes).contains("sk-very-secret"), "{name} has it");
    }
    server.start_again()?;
    server.run(["job", "cancel", &first])?.success()?;
    let job = ended(&server, &id)?;
    let task = &tasks(&server, &id)?[0];
    ensure!(job["state"] == "succeeded", "{task}");
    ensure!(task["stdout"].as_str().is_some_and(|said| said.starts_with("paddock-secret-")), "{task}");
    Ok(())
}

fn tenants_see_only_their_own(caller: &Caller) -> Result<()> {
    let server = Server::start_with(caller, &["--listen", "127.0.0.1:0"])?;
    let url = server.url()?;
    let token = |tenant: &str| -> Result<String> {
        Ok(server
            .run(["token", "create", "--tenant", tenant, "--role", "user"])?
            .success()?
            .trim()
            .to_string())
    };
    let ask = |token: &str, method: &str, target: &str, body: &str| {
        let headers = format!("Authorization: Bearer {token}\r\nContent-Type: application/json\r\n");
        paddock_e2e::http::over_tcp(&url, method, target, &headers, body.as_bytes())
    };
    let (one, two) = (token("one")?, token("two")?);
    let job =
        ask(&one, "POST", "/v1/jobs", r#"{"command": "echo mine", "timeout_seconds": 60}"#)?.expect(201)?;
    let id = job["id"].as_str().context("an id")?.to_string();
    ended(&server, &id)?;
    for (method, target) in [
        ("GET", format!("/v1/jobs/{id}")),
        ("GET", format!("/v1/jobs/{id}/tasks")),
        ("GET", format!("/v1/jobs/{id}/logs")),
        ("GET", format!("/v1/jobs/{id}/artifacts")),
        ("POST", format!("/v1/jobs/{id}/cancel")),
        ("DELETE", format!("/v1/jobs/{id}")),
    ] {
        ask(&two, method, &target, "")?.refused(404, "job_not_found")?;
    }
    let listed = ask(&two, "GET", "/v1/jobs", "")?.expect(200)?;
    ensure!(listed["jobs"].as_array().is_some_and(Vec::is_empty), "{listed}");
    ask(&one, "GET", &format!("/v1/jobs/{id}"), "")?.expect(200)?;
    // Access to the host is the owner's alone, in a job too.
    for body in [
        r#"{"command": "true", "policy": {"read": ["/etc"]}}"#,
        r#"{"command": "true", "policy": {"network": "host"}}"#,
        r#"{"command": "true", "image": "/"}"#,
        r#"{"command": "true", "policy": {"secrets": {"K": {"from": "file:/etc/shadow", "hosts": ["a.b"]}}}}"#,
    ] {
        ask(&one, "POST", "/v1/jobs", body)?.refused(403, "forbidden")?;
    }
    Ok(())
}

fn what_is_left_is_bounded_and_its_names_lead_nowhere(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let hostile = "mkdir -p out; ln -s /etc/passwd out/link; mkfifo out/pipe; echo x > 'out/a\nb'; echo y > 'out/..c'; \
                   ln -s /etc out/directory; echo z > out/$(printf '%0200d' 1)";
    let (job, task) =
        only(&server, &json!({"command": hostile, "outputs": ["out/**"], "timeout_seconds": 60}))?;
    let paths: Vec<&str> = task["artifacts"]
        .as_array()
        .context("artifacts")?
        .iter()
        .filter_map(|a| a["path"].as_str())
        .collect();
    ensure!(job["state"] == "succeeded" && paths.len() == 3, "{task}");
    ensure!(paths.contains(&"out/a\nb") && paths.contains(&"out/..c"), "{paths:?}");
    let id = job["id"].as_str().context("an id")?;
    for path in ["out/link", "../../paddock.db", "/etc/passwd", "0", "out/"] {
        let target = format!("/v1/jobs/{id}/artifacts/content?path={}", path.replace('/', "%2F"));
        server.api("GET", &target, None)?.refused(404, "artifact_not_found")?;
    }
    for (command, words) in [
        ("mkdir out; i=0; while [ $i -lt 1001 ]; do : > out/$i; i=$((i+1)); done", "more than 1000 files"),
        ("mkdir out; truncate -s 300M out/large", "more than 256 MiB"),
    ] {
        let (job, task) =
            only(&server, &json!({"command": command, "outputs": ["out/*"], "timeout_seconds": 60}))?;
        ensure!(job["state"] == "failed" && task["attempts"][0]["end"] == "outputs", "{task}");
        ensure!(job["reason"].as_str().is_some_and(|why| why.contains(words)), "{job}");
    }
    Ok(())
}
