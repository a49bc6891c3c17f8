//! Code that means harm, in a context: contained, reported, bounded; the next call works or says exactly why not.

use crate::contexts::{Place, text_of};
use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, for_both_callers};
use serde_json::{Value, json};

for_both_callers!(
    a_gigabyte_of_output,
    code_that_never_ends,
    children_that_never_end,
    forks_of_the_interpreter,
    a_bomb_of_forks,
    its_own_output_closed,
    every_descriptor_written_to,
    its_parent_killed,
    every_file_deleted,
    the_runner_monkeypatched,
    a_representation_of_500_megabytes,
    a_representation_that_raises,
    half_characters,
    forged_messages,
    floods_of_results,
);

/// After all that, a call in the same context is answered.
fn goes_on(place: &Place<'_>) -> Result<()> {
    let answer = place.python("6 * 7")?;
    assert_eq!(text_of(&answer)?, "42", "{answer}");
    Ok(())
}

/// Output from inside was never held whole: checks the most memory that the server ever had.
fn stays_small(place: &Place<'_>) -> Result<()> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", place.server.process()?))?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().split(' ').next());
    let kibibytes: u64 = peak.context("no VmHWM")?.parse()?;
    ensure!(kibibytes < 300 << 10, "the server had {kibibytes} KiB at one time");
    Ok(())
}

fn with_limit(code: &str, seconds: f64) -> Value {
    json!({ "code": code, "timeout_seconds": seconds })
}

fn a_gigabyte_of_output(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    let code = "import sys\nblock = 'x' * (1 << 20)\nfor _ in range(1024): sys.stdout.write(block)\nprint('end')\n'done'";
    let answer = place.code(with_limit(code, 240.0))?;
    assert_eq!(answer["stdout_bytes"].as_u64(), Some((1 << 30) + 4), "{}", answer["cause"]);
    ensure!(answer["stdout_missing_bytes"].as_u64() > Some(1 << 29), "all of it was kept");
    ensure!(answer["stdout"].as_str().is_some_and(|text| text.ends_with("end\n")), "the end was not kept");
    assert_eq!(text_of(&answer)?, "'done'");
    stays_small(&place)?;
    goes_on(&place)
}

/// In each way that ignores an interrupt: the call ends all the same, and the fate of the context is told.
fn code_that_never_ends(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    place.python("x = 'kept'")?;
    let heeds = place.code(with_limit("import time\ntime.sleep(1000)", 0.3))?;
    assert_eq!((&heeds["cause"]["kind"], &heeds["exit_code"]), (&json!("time_limit"), &json!(124)));
    assert_eq!(place.value("x")?, "'kept'");
    for deaf in [
        "import time\nwhile True:\n    try: time.sleep(1)\n    except BaseException: pass",
        "class Again:\n    def __repr__(self):\n        while True:\n            try: time.sleep(1)\n            except BaseException: pass\nimport time\nAgain()",
        "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True: pass",
        "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
    ] {
        let answer = place.code(with_limit(deaf, 0.3))?;
        assert_eq!(answer["cause"]["kind"], "time_limit", "{deaf}: {answer}");
        assert_eq!(answer["error"]["name"], "ContextDied", "{deaf}: {answer}");
        let next = place.python("'x' in globals()")?;
        assert_eq!(text_of(&next)?, "False");
        ensure!(next["context_restarted"].is_object(), "the loss was not told: {next}");
    }
    // A thread that never ends is no call that never ends, and does not keep the context from its own end.
    place.python(
        "import threading\ndef spin():\n    while True: pass\nthreading.Thread(target=spin).start()",
    )?;
    goes_on(&place)?;
    place.act("/contexts/python/restart")?;
    goes_on(&place)
}

/// They hold the interpreter's streams: the call does not wait for that.
fn children_that_never_end(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    let code = "import subprocess\nchild = subprocess.Popen(['sh', '-c', 'echo at once; exec sleep 1000'])\n\
                import time\ntime.sleep(0.3)\nprint('go on')";
    let answer = place.python(code)?;
    assert_eq!((&answer["stdout"], &answer["exit_code"]), (&json!("at once\ngo on\n"), &json!(0)));
    goes_on(&place)?;
    // More output than a pipe holds, on both streams, of a child that the code waits for.
    let code = "done = subprocess.run(['sh', '-c', 'yes | head -c 3000000; yes | head -c 2000000 >&2; exit 5'])\ndone.returncode";
    let answer = place.python(code)?;
    assert_eq!(text_of(&answer)?, "5");
    assert_eq!((&answer["stdout_bytes"], &answer["stderr_bytes"]), (&json!(3_000_000), &json!(2_000_000)));
    // A child that asks for input finds its end.
    let answer = place
        .code(with_limit("subprocess.run(['sh', '-c', 'read line || echo nothing']).returncode", 20.0))?;
    assert_eq!(answer["stdout"], "nothing\n");
    place.python("child.kill()")?;
    goes_on(&place)
}

fn forks_of_the_interpreter(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    place.python("x = 1")?;
    let answer =
        place.python("import os\npid = os.fork()\nif pid == 0: x = 'child'\nelse: os.waitpid(pid, 0)\nx")?;
    assert_eq!(text_of(&answer)?, "1", "{answer}");
    // A child that lives on is not the context, and holds no call up.
    place.python("import time\nif os.fork() == 0:\n    time.sleep(1000)")?;
    goes_on(&place)
}

fn a_bomb_of_forks(caller: &Caller) -> Result<()> {
    let place = Place::with(caller, &["--pids", "50"])?;
    let code = "import os, time\nwhile True:\n    try: os.fork()\n    except OSError: time.sleep(0.01)";
    let answer = place.code(with_limit(code, 1.0))?;
    assert_eq!(answer["cause"]["kind"], "time_limit", "{answer}");
    place.act("/contexts/python/restart")?;
    goes_on(&place)
}

fn its_own_output_closed(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    place.python("import os\nprint('before')\nos.close(1); os.close(2)\nprint('lost')")?;
    assert_eq!(place.python("print('back')")?["stdout"], "back\n");
    place.python("import sys\nsys.stdout.close(); sys.stderr.close(); sys.stdin.close()")?;
    assert_eq!(place.python("print('back again')")?["stdout"], "back again\n");
    place.python("del sys.stdout\nsys.stderr = None")?;
    assert_eq!(place.python("print('and again')")?["stdout"], "and again\n");
    goes_on(&place)
}

fn every_descriptor_written_to(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    let code = "import os\nfor number in range(3, 1024):\n    try: os.write(number, b'garbage without end' * 20)\n    except OSError: pass\nprint('written')";
    let answer = place.python(code)?;
    // A runner that says nothing sensible any more is ended, and that is told.
    assert_eq!(answer["error"]["name"], "ContextDied", "{answer}");
    ensure!(
        answer["error"]["value"].as_str().unwrap_or_default().contains("runner's own stream"),
        "{answer}"
    );
    goes_on(&place)?;
    // Closing all of them takes the runner its voice.
    let answer = place.code(with_limit("os.closerange(3, 1024)", 2.0))?;
    ensure!(answer["error"].is_object(), "{answer}");
    let answer = place.code(with_limit("import os; os.closerange(3, 1024)", 2.0))?;
    ensure!(answer["error"]["name"] == "ContextDied", "{answer}");
    goes_on(&place)
}

fn its_parent_killed(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    place.python("x = 'kept'")?;
    let code = "import os\nfor signal in (9, 15, 19):\n    try: os.kill(os.getppid(), signal)\n    except PermissionError: pass\nos.getppid()";
    assert_eq!(text_of(&place.python(code)?)?, "1");
    assert_eq!(place.value("x")?, "'kept'");
    // All that it may kill is itself.
    let answer = place.python("try: os.kill(-1, 9)\nfinally: os.kill(os.getpid(), 9)")?;
    assert_eq!(answer["error"]["name"], "ContextDied", "{answer}");
    goes_on(&place)
}

fn every_file_deleted(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    let code = "import os\nfor top in ('/tmp', '/workspace', '/home', '/etc', '/var', '/root'):\n    \
                for base, folders, files in os.walk(top, topdown=False):\n        \
                for name in files:\n            try: os.remove(os.path.join(base, name))\n            except OSError: pass";
    place.python(code)?;
    goes_on(&place)?;
    // A new interpreter finds its runner untouched: it never was a file inside.
    place.act("/contexts/python/restart")?;
    goes_on(&place)
}

fn the_runner_monkeypatched(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    let code = "import builtins, os, sys, json, traceback, ast, socket, linecache\n\
                for name in ('len', 'repr', 'str', 'isinstance', 'getattr', 'type', 'compile', 'eval', 'exec', 'print', 'zip', 'list', 'hasattr', 'open', 'int', 'range'):\n    \
                setattr(builtins, name, None)\n\
                os._exit = os.getpid = json.dumps = traceback.TracebackException = ast.parse = None\n\
                linecache.cache = None";
    place.python(code)?;
    let answer = place.code(with_limit("6 * 7", 5.0))?;
    // The context may have broken itself; then that is told by name, and a restart mends it.
    let told = answer["error"]["name"].as_str().is_some_and(|name| !name.is_empty());
    ensure!(told || text_of(&answer)? == "42", "{answer}");
    place.act("/contexts/python/restart")?;
    goes_on(&place)?;
    // From the runner's own objects on, everything that the code can reach.
    let code = "import gc\nfor thing in gc.get_objects():\n    \
                if type(thing).__name__ == 'Runner': thing.answer = thing.run = thing.serve = thing.control = None";
    place.code(with_limit(code, 5.0))?;
    place.act("/contexts/python/restart")?;
    goes_on(&place)
}

fn a_representation_of_500_megabytes(caller: &Caller) -> Result<()> {
    let place = Place::with(caller, &["--memory", "3G"])?;
    let code = "class Huge:\n    def __repr__(self): return 'x' * (500 << 20)\nHuge()";
    let answer = place.code(with_limit(code, 120.0))?;
    let text = text_of(&answer)?;
    ensure!(text.len() < 2 << 20 && text.contains("characters were cut"), "{} bytes", text.len());
    assert_eq!(answer["results"][0]["cut"], json!(["text/plain"]));
    let code = "class Huge:\n    def _repr_png_(self): return b'x' * (100 << 20)\n    def _repr_html_(self): return 'y' * (100 << 20)\nHuge()";
    let answer = place.code(with_limit(code, 120.0))?;
    ensure!(answer["results"][0].get("png").is_none(), "100 MB of picture came back");
    assert_eq!(answer["results"][0]["cut"], json!(["text/html", "image/png"]));
    let answer = place.python("raise Exception('x' * (50 << 20))")?;
    ensure!(answer["error"]["value"].as_str().is_some_and(|text| text.len() <= 1 << 20), "an endless error");
    stays_small(&place)?;
    goes_on(&place)
}

fn a_representation_that_raises(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    let code = "class Bad:\n    def __repr__(self): raise ValueError('no text')\nBad()";
    assert_eq!(place.python(code)?["error"]["name"], "ValueError");
    let code = "class Bad:\n    def __repr__(self): raise SystemExit(9)\nBad()";
    assert_eq!(place.python(code)?["exit_code"], 9);
    let code = "class Half:\n    def _repr_html_(self): raise ValueError\n    def __repr__(self): return 'text'\nHalf()";
    let answer = place.python(code)?;
    assert_eq!((text_of(&answer)?.as_str(), answer["results"][0].get("html")), ("text", None));
    let code = "class Odd:\n    def _repr_mimebundle_(self): return {'a b': 1, 7: 2, 'x/\\n': 3, 'text/plain': 4, 'image/png': 'not base64!'}\nOdd()";
    assert_eq!(place.value(code)?, "4");
    let code = "class E(Exception):\n    def __str__(self): raise KeyError('deeper')\nraise E()";
    assert_eq!(place.python(code)?["error"]["name"], "E");
    goes_on(&place)
}

fn half_characters(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    let code = "import os\nos.write(1, b'a\\xc3'); os.write(1, b'\\xa9b\\xff\\xe2\\x82')\nprint('\\ud800')\n'\\udfff'";
    let answer = place.python(code)?;
    assert_eq!(answer["stdout"], "aéb\u{fffd}\u{fffd}\\ud800\n");
    ensure!(text_of(&answer)?.contains("udfff"), "{answer}");
    goes_on(&place)
}

fn forged_messages(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    place.post("/contexts", json!({ "id": "other" }), 201)?;
    place.code(json!({ "code": "x = 'untouched'", "context": "other" }))?;
    let find = "import os, stat\ndef control():\n    for number in range(3, 1024):\n        \
                try:\n            if stat.S_ISSOCK(os.fstat(number).st_mode): return number\n        \
                except OSError: pass\n";
    place.python(find)?;
    // An end for a call that is not, and results that were never computed: only its own answer is the worse for it.
    let forged = "os.write(control(), b'done 1\\ncall 3\\nxyz\\n')\nos.write(control(), b'result 1\\ntext/plain 6\\nforged\\n')\n'real'";
    let answer = place.python(forged)?;
    assert_eq!(text_of(&answer)?, "'real'", "{answer}");
    assert_eq!(answer["results"][0]["text"], "forged");
    // With the call's own nonce, which the code can find, it ends early; the next call is answered by its own end.
    let early = "import gc, time\nnonce = next(thing['call'] for thing in gc.get_objects() if isinstance(thing, dict) and 'call' in thing and 'code' in thing)\n\
                 os.write(control(), b'done 1\\ncall %d\\n%s\\n' % (len(nonce), nonce))\ntime.sleep(0.5)\nprint('late')";
    let answer = place.python(early)?;
    assert_eq!(answer["exit_code"], 0);
    goes_on(&place)?;
    // A length without an end.
    let answer =
        place.code(with_limit("os.write(control(), b'result 1\\ntext/plain 99999999\\n')\n1", 5.0))?;
    assert_eq!(answer["error"]["name"], "ContextDied", "{answer}");
    goes_on(&place)?;
    place.python(find)?;
    // A frame that never comes to its end holds up its own call only, until its time is over.
    let answer =
        place.code(with_limit("os.write(control(), b'result 1\\ntext/plain 9000000\\n')\n1", 1.0))?;
    assert_eq!(answer["cause"]["kind"], "time_limit", "{answer}");
    place.act("/contexts/python/restart")?;
    goes_on(&place)?;
    let answer = place.code(json!({ "code": "x", "context": "other" }))?;
    assert_eq!(text_of(&answer)?, "'untouched'");
    Ok(())
}

fn floods_of_results(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    let answer = place.code(with_limit("for i in range(3000): display(i)\n'end'", 120.0))?;
    assert_eq!(answer["results"].as_array().map(Vec::len), Some(1000));
    ensure!(answer["results_missing"].as_u64() > Some(0), "{}", answer["results_missing"]);
    let code =
        "class Big:\n    def _repr_html_(self): return 'y' * (4 << 20)\nfor i in range(20): display(Big())";
    let answer = place.code(with_limit(code, 120.0))?;
    let kept: usize =
        answer["results"].as_array().into_iter().flatten().map(|one| one.to_string().len()).sum();
    ensure!(kept < 40 << 20, "{kept} bytes of results");
    ensure!(answer["results_missing"].as_u64() > Some(0), "all were kept");
    goes_on(&place)
}
