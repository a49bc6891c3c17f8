//! Code contexts: interpreters that remember, against a real server.

use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, PATIENCE, Server, for_both_callers, until};
use serde_json::{Value, json};

for_both_callers!(
    state_is_kept_and_the_last_value_comes_back,
    streams_are_told_apart_and_in_order,
    errors_show_the_callers_own_line,
    input_is_given_or_at_its_end,
    a_call_has_its_own_directory_and_environment,
    await_works_at_the_top,
    a_time_limit_interrupts_and_keeps_the_state,
    what_does_not_heed_an_interrupt_is_ended,
    a_crash_is_told_and_the_next_call_begins_anew,
    many_contexts_live_side_by_side,
    calls_wait_for_their_turn,
    output_between_calls_is_the_contexts_own,
    requests_that_cannot_be_are_refused,
    the_command_line_speaks_to_contexts,
);

/// A sandbox, and code in it.
pub struct Place<'a> {
    pub server: Server<'a>,
    pub id: String,
}

impl<'a> Place<'a> {
    pub fn new(caller: &'a Caller) -> Result<Place<'a>> {
        Place::with(caller, &[])
    }

    pub fn with(caller: &'a Caller, options: &[&str]) -> Result<Place<'a>> {
        let server = Server::start(caller)?;
        let id = server.create(options)?;
        Ok(Place { server, id })
    }

    pub fn path(&self, rest: &str) -> String {
        format!("/v1/sandboxes/{}{rest}", self.id)
    }

    pub fn post(&self, rest: &str, body: Value, status: u16) -> Result<Value> {
        self.server.api("POST", &self.path(rest), Some(&body))?.expect(status)
    }

    /// Without a body: the server reads none, and unread bytes may cut the answer off.
    pub fn act(&self, rest: &str) -> Result<Value> {
        self.server.api("POST", &self.path(rest), None)?.expect(200)
    }

    pub fn get(&self, rest: &str) -> Result<Value> {
        self.server.api("GET", &self.path(rest), None)?.expect(200)
    }

    pub fn python(&self, code: &str) -> Result<Value> {
        self.code(json!({ "code": code }))
    }

    pub fn code(&self, body: Value) -> Result<Value> {
        self.post("/code", body, 200)
    }

    /// The text of the last value.
    pub fn value(&self, code: &str) -> Result<String> {
        text_of(&self.python(code)?)
    }
}

pub fn text_of(answer: &Value) -> Result<String> {
    let results = answer["results"].as_array().with_context(|| format!("no results: {answer}"))?;
    let main = results.iter().find(|result| result["main"] == true);
    Ok(main.and_then(|result| result["text"].as_str()).with_context(|| format!("{answer}"))?.to_string())
}

fn state_is_kept_and_the_last_value_comes_back(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    let first = place.python("x = 41\nprint('set')")?;
    assert_eq!((first["stdout"].as_str(), first["exit_code"].as_i64()), (Some("set\n"), Some(0)));
    ensure!(first.get("results").is_none(), "a statement has no value: {first}");
    assert_eq!(place.value("x + 1")?, "42");
    assert_eq!(place.value("def f(): return 'kept'\nf()")?, "'kept'");
    assert_eq!(place.value("f()")?, "'kept'");
    ensure!(place.python("x;")?.get("results").is_none(), "a semicolon hides the value");
    let listed = place.get("/contexts")?;
    assert_eq!(listed["contexts"][0]["id"], "python");
    assert_eq!(listed["contexts"][0]["state"], "idle");
    assert_eq!(listed["contexts"][0]["default"], true);
    Ok(())
}

fn streams_are_told_apart_and_in_order(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    let code = "import sys, subprocess\n\
                for i in range(3):\n    print('out', i)\n    print('err', i, file=sys.stderr)\n\
                subprocess.run(['sh', '-c', 'echo from a child'])\n\
                display('shown')\nprint('last')\n'value'";
    let body = json!({ "code": code, "stream": true });
    let events = place.server.api("POST", &place.path("/code"), Some(&body))?.lines()?;
    let mut told = Vec::new();
    for event in &events {
        match event["type"].as_str() {
            Some("output") => told.push(event["stream"].as_str().unwrap_or_default().to_string()),
            Some("result") => told.push(format!("{} {}", event["result"]["main"], event["result"]["text"])),
            Some(other) => told.push(other.to_string()),
            None => {}
        }
    }
    told.dedup();
    let expected = ["stdout", "stderr", "stdout", "stderr", "stdout", "stderr"];
    assert_eq!(told[..6], expected, "{told:?}");
    let shown = told.iter().position(|one| one == "false \"'shown'\"").context("no display")?;
    let value = told.iter().position(|one| one == "true \"'value'\"").context("no value")?;
    ensure!(shown < value && told.last().is_some_and(|last| last == "ended"), "{told:?}");
    let number = &events.last().context("no events")?["exec"]["exec"];
    let whole = place.get(&format!("/execs/{number}"))?;
    assert_eq!(whole["stdout"], "out 0\nout 1\nout 2\nfrom a child\nlast\n");
    assert_eq!(whole["stderr"], "err 0\nerr 1\nerr 2\n");
    assert_eq!(whole["results"].as_array().map(Vec::len), Some(2));
    Ok(())
}

fn errors_show_the_callers_own_line(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    place.python("def divide(by):\n    return 1 / by")?;
    let answer = place.python("print('before')\ndivide(0)")?;
    let error = &answer["error"];
    assert_eq!(
        (error["name"].as_str(), error["value"].as_str()),
        (Some("ZeroDivisionError"), Some("division by zero"))
    );
    let traceback = error["traceback"].as_str().unwrap_or_default();
    ensure!(traceback.contains("return 1 / by") && traceback.contains("divide(0)"), "{traceback}");
    ensure!(!traceback.contains("paddock"), "the runner shows: {traceback}");
    assert_eq!((answer["stdout"].as_str(), answer["exit_code"].as_i64()), (Some("before\n"), Some(1)));
    assert_eq!(place.python("def")?["error"]["name"], "SyntaxError");
    assert_eq!(place.python("import sys; sys.exit(3)")?["exit_code"], 3);
    Ok(())
}

fn input_is_given_or_at_its_end(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    assert_eq!(place.python("input()")?["error"]["name"], "EOFError");
    let answer = place.code(json!({ "code": "input(), input()", "stdin": "one\ntwo\n" }))?;
    assert_eq!(text_of(&answer)?, "('one', 'two')");
    let code = "import subprocess; subprocess.run(['cat'])";
    let answer = place.code(json!({ "code": code, "stdin": "to the child" }))?;
    assert_eq!(answer["stdout"], "to the child");
    assert_eq!(place.python("input()")?["error"]["name"], "EOFError");
    Ok(())
}

fn a_call_has_its_own_directory_and_environment(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    let code = "import os\nos.getcwd(), os.environ.get('A')";
    let before = place.value(code)?;
    let answer = place.code(json!({ "code": code, "cwd": "/tmp", "env": { "A": "b" } }))?;
    assert_eq!(text_of(&answer)?, "('/tmp', 'b')");
    assert_eq!(place.value(code)?, before);
    let answer = place.code(json!({ "code": "print('not run')", "cwd": "/no/such" }))?;
    assert_eq!(answer["error"]["name"], "FileNotFoundError");
    assert_eq!(answer["stdout"], "");
    Ok(())
}

fn await_works_at_the_top(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    place.python("import asyncio\nasync def later(x):\n    await asyncio.sleep(0.01)\n    return x")?;
    assert_eq!(place.value("await later(7)")?, "7");
    assert_eq!(
        place.value("task = asyncio.ensure_future(later(8)) if False else None\n(await later(9)) + 1")?,
        "10"
    );
    Ok(())
}

fn a_time_limit_interrupts_and_keeps_the_state(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    place.python("x = 'kept'")?;
    let answer = place.code(json!({ "code": "print('before')\nwhile True: pass", "timeout_seconds": 2 }))?;
    assert_eq!(answer["cause"]["kind"], "time_limit");
    assert_eq!(answer["error"]["name"], "KeyboardInterrupt");
    assert_eq!((answer["stdout"].as_str(), answer["exit_code"].as_i64()), (Some("before\n"), Some(124)));
    assert_eq!(place.value("x")?, "'kept'");
    // An interrupt by hand, too.
    let body =
        json!({ "code": "print('begun', flush=True)\nimport time\ntime.sleep(1000)", "background": true });
    let number = place.post("/code", body, 201)?["exec"].clone();
    until(PATIENCE, "output", || {
        let seen = place.get(&format!("/execs/{number}")).ok()?;
        (seen["stdout_bytes"].as_u64() > Some(0)).then_some(())
    })?;
    assert_eq!(place.get("/contexts/python")?["state"], "busy");
    assert_eq!(place.act("/contexts/python/interrupt")?["interrupted"], true);
    assert_eq!(place.get(&format!("/execs/{number}/wait"))?["error"]["name"], "KeyboardInterrupt");
    assert_eq!(place.value("x")?, "'kept'");
    assert_eq!(place.act("/contexts/python/interrupt")?["interrupted"], false);
    // However early it comes.
    for _ in 0..20 {
        let body = json!({ "code": "while True: pass", "background": true });
        let number = place.post("/code", body, 201)?["exec"].clone();
        // The turn of the one before may be given back a moment after its end is told.
        until(PATIENCE, "a busy context", || {
            (place.act("/contexts/python/interrupt").ok()?["interrupted"] == true).then_some(())
        })?;
        assert_eq!(place.get(&format!("/execs/{number}/wait"))?["error"]["name"], "KeyboardInterrupt");
    }
    assert_eq!(place.value("x")?, "'kept'");
    Ok(())
}

fn what_does_not_heed_an_interrupt_is_ended(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    let code = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('deaf', flush=True)\nwhile True: pass";
    // The interpreter is there before the limit counts, and on a busy host three seconds suffice for one line.
    assert_eq!(place.value("1")?, "1");
    let answer = place.code(json!({ "code": code, "timeout_seconds": 3 }))?;
    assert_eq!(
        (answer["cause"]["kind"].as_str(), answer["stdout"].as_str()),
        (Some("time_limit"), Some("deaf\n"))
    );
    assert_eq!(answer["error"]["name"], "ContextDied");
    assert_eq!(place.value("1")?, "1");
    Ok(())
}

fn a_crash_is_told_and_the_next_call_begins_anew(caller: &Caller) -> Result<()> {
    let place = Place::with(caller, &["--memory", "256M"])?;
    let crashes = [
        ("import os; print('x', flush=True); os._exit(7)", "exited", 7),
        ("import ctypes; ctypes.string_at(0)", "signaled", 139),
        ("import os; os.kill(os.getpid(), 9)", "signaled", 137),
    ];
    for (code, kind, exit) in crashes {
        place.python("x = 1")?;
        let answer = place.python(code)?;
        assert_eq!(
            (answer["cause"]["kind"].as_str(), answer["exit_code"].as_i64()),
            (Some(kind), Some(exit))
        );
        assert_eq!(answer["error"]["name"], "ContextDied", "{answer}");
        assert_eq!(place.get("/contexts/python")?["state"], "ended");
        let next = place.python("'x' in globals()")?;
        assert_eq!(next["context_restarted"]["kind"], kind, "the loss is told: {next}");
        assert_eq!(text_of(&next)?, "False");
        ensure!(place.python("1")?.get("context_restarted").is_none(), "told twice");
    }
    let answer = place.python("x = bytearray(1 << 30)\nfor i in range(0, 1 << 30, 4096): x[i] = 1")?;
    let told = answer["cause"]["kind"] == "out_of_memory" || answer["error"]["name"] == "MemoryError";
    ensure!(told, "{answer}");
    assert_eq!(place.value("1 + 1")?, "2");
    Ok(())
}

fn many_contexts_live_side_by_side(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    let made = place.post("/contexts", json!({ "id": "one", "cwd": "/tmp", "env": { "A": "1" } }), 201)?;
    assert_eq!((made["id"].as_str(), made["state"].as_str()), (Some("one"), Some("idle")));
    let two = place.post("/contexts", json!({}), 201)?["id"].as_str().unwrap_or_default().to_string();
    let run = |context: &str, code: &str| place.code(json!({ "code": code, "context": context }));
    run("one", "x = 'first'")?;
    run(&two, "x = 'second'")?;
    assert_eq!(
        text_of(&run("one", "import os; x, os.getcwd(), os.environ['A']")?)?,
        "('first', '/tmp', '1')"
    );
    assert_eq!(text_of(&run(&two, "x")?)?, "'second'");
    assert_eq!(place.python("x")?["error"]["name"], "NameError");
    assert_eq!(place.get("/contexts")?["contexts"].as_array().map(Vec::len), Some(3));
    // A context that was made on purpose does not begin anew by itself.
    run("one", "import os; os._exit(1)")?;
    let refused = place.post("/code", json!({ "code": "x", "context": "one" }), 409)?;
    assert_eq!(refused["code"], "context_ended", "{refused}");
    place.act("/contexts/one/restart")?;
    assert_eq!(run("one", "x")?["error"]["name"], "NameError");
    assert_eq!(text_of(&run(&two, "x")?)?, "'second'");
    place.server.api("DELETE", &place.path("/contexts/one"), None)?.expect(204)?;
    let gone = place.post("/code", json!({ "code": "x", "context": "one" }), 404)?;
    assert_eq!(gone["code"], "context_not_found");
    Ok(())
}

fn calls_wait_for_their_turn(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    place.python("seen = []\nimport time")?;
    let mut numbers = Vec::new();
    for index in 0..5 {
        let body = json!({ "code": format!("seen.append({index}); time.sleep(0.05)"), "background": true });
        numbers.push(place.post("/code", body, 201)?["exec"].clone());
    }
    assert_eq!(place.value("seen")?, "[0, 1, 2, 3, 4]");
    for number in numbers {
        assert_eq!(place.get(&format!("/execs/{number}"))?["exit_code"], 0);
    }
    // A waiting call can be taken back, and does not hold up the others.
    let long = place.post("/code", json!({ "code": "time.sleep(1000)", "background": true }), 201)?;
    let waits = place.post("/code", json!({ "code": "seen.append('never')", "background": true }), 201)?;
    for exec in [&waits, &long] {
        let path = place.path(&format!("/execs/{}", exec["exec"]));
        assert_eq!(place.server.api("DELETE", &path, None)?.expect(200)?["cause"]["kind"], "killed");
    }
    assert_eq!(place.value("seen")?, "[0, 1, 2, 3, 4]");
    Ok(())
}

fn output_between_calls_is_the_contexts_own(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    let code = "import threading, time\n\
                threading.Thread(target=lambda: (time.sleep(0.2), print('from behind'))).start()\nprint('now')";
    assert_eq!(place.python(code)?["stdout"], "now\n");
    let exec = place.get("/contexts/python")?["exec"].clone();
    until(PATIENCE, "output of the thread", || {
        let seen = place.get(&format!("/execs/{exec}")).ok()?;
        (seen["stdout_bytes"].as_u64() == Some(12)).then_some(())
    })?;
    assert_eq!(place.python("print('later')")?["stdout"], "later\n");
    Ok(())
}

fn requests_that_cannot_be_are_refused(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    for (body, status, code) in [
        (json!({ "code": "1", "language": "COBOL 85" }), 400, "invalid_request"),
        (json!({ "code": "1", "context": "absent" }), 404, "context_not_found"),
        (json!({ "code": "1", "stream": true, "background": true }), 400, "invalid_request"),
        (json!({ "code": "1", "timeout_seconds": -1 }), 400, "invalid_request"),
        (json!({ "code": "1", "cwd": "relative" }), 400, "invalid_request"),
        (json!({ "code": "1", "unknown": 1 }), 400, "unknown_field"),
        (json!({ "code": "1", "env": { "A=B": "c" } }), 400, "invalid_request"),
    ] {
        let answer = place.post("/code", body.clone(), status)?;
        assert_eq!(answer["code"], code, "{body}: {answer}");
    }
    for id in ["", "a b", "../x", ".hidden", &"x".repeat(65)] {
        place.post("/contexts", json!({ "id": id }), 400)?;
    }
    place.post("/contexts", json!({ "id": "x" }), 201)?;
    assert_eq!(place.post("/contexts", json!({ "id": "x" }), 409)?["code"], "name_taken");
    let refused = place.post("/code", json!({ "code": "1", "context": "x", "language": "bash" }), 400)?;
    ensure!(refused["message"].as_str().unwrap_or_default().contains("python"), "{refused}");
    // No runner for it in this template.
    let refused = place.post("/code", json!({ "code": "1", "language": "fortran" }), 400)?;
    ensure!(refused["message"].as_str().unwrap_or_default().contains("fortran"), "{refused}");
    Ok(())
}

fn the_command_line_speaks_to_contexts(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    let id = place.id.as_str();
    let context = |words: &[&str]| place.server.run(["context"].iter().chain(words));
    assert_eq!(context(&["run", id, "x = 41"])?.success()?, "");
    assert_eq!(context(&["run", id, "print('out')\nx + 1"])?.success()?, "out\n42\n");
    assert_eq!(context(&["run", id, "'\u{1b}[31m'"])?.success()?, "'\\x1b[31m'\n");
    ensure!(context(&["run", id, "1 / 0"])?.exited(1)?.err().contains("ZeroDivisionError"), "no traceback");
    let from_input =
        place.server.paddock(["context", "run", "-l", "bash", id, "-"])?.input("echo $((6 * 7))");
    assert_eq!(from_input.finish()?.success()?, "42\n");
    let json = context(&["run", "--json", id, "x"])?;
    assert_eq!(json.json()?["results"][0]["text"], "41");
    context(&["run", "--timeout", "300ms", id, "while True: pass"])?.exited(124)?;
    assert_eq!(context(&["create", id, "--name", "own", "-l", "bash", "-w", "/tmp"])?.success()?, "own\n");
    assert_eq!(context(&["run", "-c", "own", id, "pwd"])?.success()?, "/tmp\n");
    let listed = context(&["ls", id])?.success()?;
    ensure!(listed.contains("own") && listed.contains("python") && listed.contains("idle"), "{listed}");
    context(&["restart", id, "python"])?.success()?;
    ensure!(context(&["run", id, "x"])?.exited(1)?.err().contains("NameError"), "it remembers");
    ensure!(context(&["interrupt", id, "own"])?.exited(0)?.err().contains("nothing ran"), "something ran");
    let died = context(&["run", id, "import os; os._exit(3)"])?;
    ensure!(died.exited(3)?.err().contains("remembered is gone"), "{}", died.err());
    ensure!(context(&["run", id, "1"])?.exited(0)?.err().contains("began anew"), "the loss was not told");
    assert_eq!(context(&["rm", id, "own"])?.success()?, "own\n");
    ensure!(
        context(&["run", "-c", "own", id, "pwd"])?.exited(125)?.err().contains("there is no context `own`"),
        "it is there"
    );
    Ok(())
}
