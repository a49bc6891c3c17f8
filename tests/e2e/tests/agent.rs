//! `paddock agent`: the loop against a model of the tests' own, which speaks both wire formats, well and badly.

use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, Finished, Invocation, Model, Server, Terminal, for_both_callers};
use rustix::process::Signal;
use serde_json::{Value, json};

for_both_callers!(
    calls_are_done_and_answered_in_both_formats,
    the_key_never_enters,
    a_model_that_fails_for_a_while_is_asked_again,
    a_model_that_fails_for_good_is_a_typed_end,
    a_model_that_never_stops_is_stopped,
    a_signal_leaves_nothing,
    a_session_keeps_its_sandbox,
    a_workspace_is_worked_in,
    events_are_objects,
    tasks_are_asked_for_on_a_terminal,
);

const KEY: &str = "sk-paddock-e2e-agent";
const DIALECTS: [&str; 2] = ["anthropic", "openai"];

pub fn agent(server: &Server, model: &Model, dialect: &str, options: &[&str]) -> Result<Invocation> {
    let url = model.url();
    let fixed = ["agent", "--model", &url, "--name", "m", "--dialect", dialect];
    let invocation = server.paddock(fixed.iter().chain(options))?;
    Ok(invocation.environment("ANTHROPIC_API_KEY", KEY).environment("OPENAI_API_KEY", KEY))
}

fn nothing_lives(server: &Server) -> Result<()> {
    assert_eq!(server.paddock(["ps", "-q"])?.finish()?.success()?, "", "a sandbox was left");
    Ok(())
}

fn call(name: &str, arguments: Value) -> Value {
    json!({ "name": name, "arguments": arguments })
}

fn calls_are_done_and_answered_in_both_formats(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    for dialect in DIALECTS {
        let script = json!([
            { "text": "Let me see.", "calls": [
                call("run_code", json!({ "code": "print(sum(range(101)))" })),
                call("run_shell", json!("{broken")),
                call("no_such_tool", json!({})),
                call("read_file", json!({ "path": "/workspace/missing" })),
            ] },
            { "text": "It is 5050." },
        ]);
        let model = Model::start(caller, dialect, &script)?;
        let finished = agent(&server, &model, dialect, &["what is it?"])?.finish()?;
        assert_eq!(finished.success()?, "It is 5050.\n");
        let asked = model.asked()?;
        assert_eq!(asked.len(), 2);
        let messages = asked[1]["body"]["messages"].as_array().context("messages")?;
        let results: Vec<(String, bool)> = match dialect {
            "anthropic" => messages[2]["content"]
                .as_array()
                .context("results")?
                .iter()
                .map(|r| (r["content"].as_str().unwrap_or_default().into(), r["is_error"] == true))
                .collect(),
            _ => messages[3..]
                .iter()
                .map(|r| r["content"].as_str().unwrap_or_default().to_string())
                .map(|text| (text.clone(), text.starts_with("error:")))
                .collect(),
        };
        assert_eq!(results.len(), 4, "{results:?}");
        assert_eq!(results[0], ("5050".to_string(), false));
        ensure!(results[1..].iter().all(|(text, is_error)| *is_error && !text.is_empty()), "{results:?}");
        let tools = asked[0]["body"]["tools"].to_string();
        ensure!(tools.contains("run_code") && tools.contains("edit_file"), "{tools}");
        nothing_lives(&server)?;
    }
    Ok(())
}

fn the_key_never_enters(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let look = "env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'";
    let script = json!([{ "calls": [call("run_shell", json!({ "command": look }))] }, { "text": "done" }]);
    let model = Model::start(caller, "model", &script)?;
    let transcript = caller.home().join("transcript.jsonl").display().to_string();
    agent(&server, &model, "anthropic", &["--transcript", &transcript, "look"])?.finish()?.success()?;
    let asked = model.asked()?;
    assert_eq!(asked[0]["headers"]["x-api-key"], KEY);
    let seen = asked[1]["body"].to_string();
    ensure!(seen.contains("PATH=") && !seen.contains(KEY), "{seen}");
    let kept = std::fs::read_to_string(&transcript)?;
    assert_eq!(kept.lines().count(), 4);
    ensure!(!kept.contains(KEY), "the key is in the transcript");
    Ok(())
}

fn a_model_that_fails_for_a_while_is_asked_again(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    for dialect in DIALECTS {
        let script = json!([
            { "status": 429, "headers": { "Retry-After": "0" } },
            { "status": 529, "type": "overloaded_error", "headers": { "Retry-After": "0" } },
            { "text": "half of it", "cut": true },
            { "text": "all of it" },
        ]);
        let model = Model::start(caller, dialect, &script)?;
        let finished = agent(&server, &model, dialect, &["x"])?.finish()?;
        assert_eq!(finished.success()?, "all of it\n");
        ensure!(
            finished.err().contains("attempt 3: the stream of the model ended in the middle"),
            "{}",
            finished.err()
        );
        assert_eq!(model.asked()?.len(), 4);
    }
    Ok(())
}

fn a_model_that_fails_for_good_is_a_typed_end(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let cases = [
        (json!({ "status": 500 }), "model_overloaded", 2),
        (json!({ "status": 529 }), "model_overloaded", 2),
        (json!({ "status": 429, "headers": { "Retry-After": "3600" } }), "model_rate_limit", 1),
        (json!({ "status": 401, "message": "invalid x-api-key" }), "model_key_refused", 1),
        (json!({ "status": 400 }), "model_refused", 1),
        (json!({ "text": "half", "cut": true }), "model_stream_cut", 2),
        (json!({ "text": "half", "error": true }), "model_stream_error", 2),
        (json!({ "nonsense": true }), "model_nonsense", 2),
        (json!({ "garbage": true }), "model_nonsense", 2),
        (json!({ "hang": true }), "model_silent", 2),
    ];
    for (number, (step, code, attempts)) in cases.iter().enumerate() {
        let dialect = DIALECTS[number % 2];
        let model = Model::start(caller, &format!("case-{number}"), &json!([step]))?;
        let options = ["--json", "--attempts", "2", "--silence", "1s", "x"];
        let finished = agent(&server, &model, dialect, &options)?.finish()?;
        finished.exited(6).with_context(|| step.to_string())?;
        let end = last_event(&finished)?;
        assert_eq!((&end["reason"], &end["error"]["code"]), (&"model".into(), &(*code).into()), "{step}");
        assert_eq!(model.asked()?.len(), *attempts, "{step}");
    }
    let gone = Model::start(caller, "gone", &json!([{}]))?;
    let url = gone.url();
    drop(gone);
    let options = ["agent", "--model", &url, "--name", "m", "--key-env", "none", "--attempts", "1", "x"];
    let finished = server.paddock(options)?.finish()?;
    finished.exited(6)?;
    ensure!(finished.err().contains("cannot be reached"), "{}", finished.err());
    nothing_lives(&server)
}

fn last_event(finished: &Finished) -> Result<Value> {
    let out = finished.out();
    Ok(serde_json::from_str(out.lines().last().context("no line")?)?)
}

fn a_model_that_never_stops_is_stopped(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let endless =
        json!([{ "calls": [call("run_shell", json!({ "command": "true" }))], "tokens": [100, 50] }]);
    let model = Model::start(caller, "steps", &endless)?;
    let finished = agent(&server, &model, "anthropic", &["--steps", "3", "x"])?.finish()?;
    finished.exited(3)?;
    ensure!(
        finished.err().contains("after 3 replies") && finished.err().contains("--steps"),
        "{}",
        finished.err()
    );
    assert_eq!(model.asked()?.len(), 3);
    let model = Model::start(caller, "tokens", &endless)?;
    agent(&server, &model, "openai", &["--tokens", "300", "x"])?.finish()?.exited(4)?;
    assert_eq!(model.asked()?.len(), 2);
    // A model that counts no tokens has an end too.
    let uncounted = json!([{ "calls": [call("run_shell", json!({ "command": "true" }))], "tokens": null }]);
    let model = Model::start(caller, "uncounted", &uncounted)?;
    agent(&server, &model, "openai", &["--tokens", "300", "x"])?.finish()?.exited(4)?;
    let slow = json!([{ "calls": [call("run_shell", json!({ "command": "sleep 600" }))] }]);
    let model = Model::start(caller, "time", &slow)?;
    agent(&server, &model, "anthropic", &["--time", "2s", "x"])?.finish()?.exited(5)?;
    nothing_lives(&server)
}

fn a_signal_leaves_nothing(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let script = json!([{ "calls": [call("run_shell", json!({ "command": "sleep 600" }))] }]);
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let model = Model::start(caller, &format!("model-{code}"), &script)?;
        let mut running = agent(&server, &model, "anthropic", &["--json", "x"])?.start()?;
        running.wait_for("sleep 600")?;
        running.signal(signal)?;
        running.finish()?.exited(code)?;
        nothing_lives(&server)?;
    }
    // A sandbox that stays has nothing of it running, and its interpreter all the same.
    let script = json!([
        { "calls": [call("run_code", json!({ "code": "kept = 7" })), call("run_shell", json!({ "command": "sleep 601" }))] },
    ]);
    let model = Model::start(caller, "stays", &script)?;
    let mut running =
        agent(&server, &model, "openai", &["--json", "--sandbox", "per-session", "x"])?.start()?;
    running.wait_for("sleep 601")?;
    running.signal(Signal::TERM)?;
    running.finish()?.exited(143)?;
    let id = server.paddock(["ps", "-q"])?.finish()?.success()?.trim().to_string();
    let processes = server.script(&id, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")?.success()?;
    ensure!(!processes.contains("sleep 601 "), "{processes}");
    assert_eq!(server.paddock(["context", "run", &id, "print(kept)"])?.finish()?.success()?, "7\n");
    server.paddock(["kill", &id])?.finish()?.success()?;
    // While the model is thinking.
    let model = Model::start(caller, "thinking", &json!([{ "hang": true }]))?;
    let running = agent(&server, &model, "anthropic", &["x"])?.start()?;
    paddock_e2e::until(paddock_e2e::PATIENCE, "a request", || {
        model.asked().is_ok_and(|asked| !asked.is_empty()).then_some(())
    })?;
    running.signal(Signal::TERM)?;
    running.finish()?.exited(143)?;
    nothing_lives(&server)
}

fn a_session_keeps_its_sandbox(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let write = json!([
        { "calls": [call("run_code", json!({ "code": "kept = 41" })), call("write_file", json!({ "path": "note", "content": "from before" }))] },
        { "text": "kept" },
    ]);
    let model = Model::start(caller, "first", &write)?;
    let options = ["--json", "--sandbox", "per-session", "keep it"];
    let first = agent(&server, &model, "anthropic", &options)?.finish()?;
    first.success()?;
    let session = last_event(&first)?["session"].as_str().context("a session")?.to_string();
    let id = server.paddock(["ps", "-q"])?.finish()?.success()?.trim().to_string();
    ensure!(!id.is_empty(), "the sandbox did not stay");
    let read = json!([
        { "calls": [call("run_code", json!({ "code": "print(kept + 1, open('note').read())" }))] },
        { "text": "read" },
    ]);
    let model = Model::start(caller, "second", &read)?;
    // In the other format: the conversation is the same.
    agent(&server, &model, "openai", &["--continue", &session, "read it"])?.finish()?.success()?;
    let asked = model.asked()?;
    let messages = asked[1]["body"]["messages"].as_array().context("messages")?;
    assert_eq!(messages.last().context("a result")?["content"], "42 from before");
    ensure!(
        messages.iter().any(|message| message["content"] == "keep it"),
        "the task from before is missing"
    );
    assert_eq!(server.paddock(["ps", "-q"])?.finish()?.success()?.trim(), id);
    // Its sandbox is gone: the model is told.
    server.paddock(["kill", &id])?.finish()?.success()?;
    let model = Model::start(caller, "third", &json!([{ "text": "so be it" }]))?;
    agent(&server, &model, "anthropic", &["--continue", &session, "and now"])?.finish()?.success()?;
    let last =
        model.asked()?[0]["body"]["messages"].as_array().and_then(|m| m.last().cloned()).context("a task")?;
    ensure!(
        last["content"].as_str().is_some_and(|text| text.contains("has ended") && text.ends_with("and now")),
        "{last}"
    );
    server.paddock(["kill", "--all"])?.finish()?.success()?;
    Ok(())
}

fn a_workspace_is_worked_in(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let directory = caller.directory("project")?;
    let script = json!([
        { "calls": [call("write_file", json!({ "path": "/workspace/made.txt", "content": "by the model" }))] },
        { "text": "made" },
    ]);
    let model = Model::start(caller, "model", &script)?;
    let place = directory.display().to_string();
    agent(&server, &model, "anthropic", &["--workspace", &place, "make it"])?.finish()?.success()?;
    assert_eq!(std::fs::read_to_string(directory.join("made.txt"))?, "by the model");
    Ok(())
}

fn events_are_objects(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let script = json!([
        { "text": "so", "calls": [call("run_shell", json!({ "command": "echo hi" }))], "tokens": [100, 50] },
        { "text": "done", "tokens": [200, 5] },
    ]);
    let model = Model::start(caller, "model", &script)?;
    let finished = agent(&server, &model, "openai", &["--json", "x"])?.finish()?;
    let text = finished.success()?;
    let events: Vec<Value> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let names: Vec<&str> = events.iter().filter_map(|event| event["event"].as_str()).collect();
    assert_eq!(names, ["text", "text", "step", "call", "result", "text", "text", "step", "end"], "{text}");
    assert_eq!(events[4]["text"], "hi");
    let end = &events[8];
    assert_eq!(
        (&end["reason"], &end["text"], &end["exit_code"]),
        (&"answer".into(), &"done".into(), &0.into())
    );
    assert_eq!(end["usage"], json!({ "input_tokens": 300, "output_tokens": 55 }));
    Ok(())
}

fn tasks_are_asked_for_on_a_terminal(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let model = Model::start(
        caller,
        "model",
        &json!([{ "text": "first answer" }, { "text": "second\u{1b}[2J answer" }]),
    )?;
    let mut terminal = Terminal::open(24, 80)?;
    terminal.start(agent(&server, &model, "anthropic", &["--sandbox", "per-session"])?.command())?;
    terminal.wait_for("task> ")?;
    terminal.type_keys(b"one\n")?;
    terminal.wait_for("first answer")?;
    terminal.type_keys(b"two\n")?;
    terminal.wait_for("second\\u{1b}[2J answer")?;
    terminal.type_keys(b"\x04")?;
    assert_eq!(terminal.exit_code()?, 0);
    let last = model.asked()?.pop().context("a request")?;
    assert_eq!(last["body"]["messages"].as_array().map(Vec::len), Some(3), "one conversation");
    server.paddock(["kill", "--all"])?.finish()?.success()?;
    Ok(())
}
