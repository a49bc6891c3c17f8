//! Scripts with annotations, from a file to a result.

use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, Finished, PATIENCE, Registry, Server, for_both_callers, images, skip, until};
use serde_json::{Value, json};

for_both_callers!(
    a_script_has_a_result_and_keeps_its_state,
    every_language_of_the_machine_calls_main,
    a_failed_script_leaves_its_volume_as_it_was,
    one_script_waits_for_another_ones_volume,
    limits_of_the_header_hold,
    values_that_are_kept_reach_scripts,
    what_is_bound_to_a_host_stays_outside,
    a_header_is_checked_without_a_server,
    a_signal_ends_the_script_and_its_sandbox,
    a_command_can_have_volumes,
    an_image_of_the_header_is_the_root,
    a_script_to_begin_with_is_written_and_runs,
    a_header_opens_nothing_of_the_host,
);

/// `paddock script run`, with a file of this name and text.
pub fn script(
    server: &Server<'_>,
    caller: &Caller,
    name: &str,
    text: &str,
    options: &[&str],
) -> Result<Finished> {
    let file = caller.file(name, text)?.display().to_string();
    let words = ["script", "run", &file];
    server.run(words.iter().chain(options))
}

pub fn result(finished: &Finished) -> Result<Value> {
    serde_json::from_str(&finished.success()?).context("the result is no JSON")
}

/// No sandbox is left when a script has ended.
pub fn nothing_lives(server: &Server<'_>) -> Result<()> {
    let left = server.run(["ps", "-q"])?.success()?;
    ensure!(left.is_empty(), "these live on: {left}");
    Ok(())
}

fn versions(server: &Server<'_>, name: &str) -> Result<Vec<Value>> {
    let listed = server.api("GET", &format!("/v1/volumes/{name}/history"), None)?.expect(200)?;
    Ok(listed["versions"].as_array().context("a list")?.clone())
}

const COUNTER: &str = "# sandbox\n# volume: $workspace-$args[who] state\n# volume: other /data/other\nimport os, sys\n\
    def main(who: str, step: int = 1):\n    path = 'state/count'\n    count = int(open(path).read()) if os.path.exists(path) else 0\n    \
    print('counting'); print('to stderr', file=sys.stderr)\n    open(path, 'w').write(str(count + step))\n    \
    return {'who': who, 'count': count + step, 'other': os.listdir('/data/other')}\n";

fn a_script_has_a_result_and_keeps_its_state(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let first = script(&server, caller, "count.py", COUNTER, &["--arg", "who=ada"])?;
    assert_eq!(result(&first)?, json!({ "who": "ada", "count": 1, "other": [] }));
    // Standard output is for the result.
    ensure!(first.err().contains("counting\n") && first.err().contains("to stderr\n"), "{}", first.err());
    let again = script(&server, caller, "count.py", COUNTER, &["--args", r#"{"who": "ada", "step": 5}"#])?;
    assert_eq!(result(&again)?["count"], 6);
    // Another argument is another volume, and another workspace too.
    let other = script(&server, caller, "count.py", COUNTER, &["--arg", "who=bob"])?;
    assert_eq!(result(&other)?["count"], 1);
    let other =
        script(&server, caller, "count.py", COUNTER, &["--arg", "who=ada", "--workspace-id", "team-b"])?;
    assert_eq!(result(&other)?["count"], 1);
    assert_eq!(server.run(["volume", "get", "default-ada", "count"])?.success()?, "6");
    let told = script(&server, caller, "count.py", COUNTER, &["--json", "--arg", "who=ada"])?.json()?;
    assert_eq!((&told["result"]["count"], &told["exit_code"]), (&json!(7), &json!(0)), "{told}");
    assert_eq!((told["stdout"].as_str(), told["stderr"].as_str()), (Some("counting\n"), Some("to stderr\n")));
    assert_eq!(told["volumes"][0]["outcome"], "committed as version 3", "{told}");
    assert_eq!(told["volumes"][1]["outcome"], "nothing was changed", "{told}");
    nothing_lives(&server)
}

fn every_language_of_the_machine_calls_main(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let arguments = ["--args", r#"{"a": "é", "b": {"c": [1, 2]}}"#];
    let both = json!(["é", { "c": [1, 2] }]);
    let typed = "export async function main(b: { c: number[] }, a: string) { return [a, b] }\n";
    let cases: [(&str, &str, &str, &Value); 6] = [
        ("python3", "both.py", "async def main(b, a):\n    return [a, b]\n", &both),
        ("node", "both.mjs", "export const main = async (b, a) => [a, b]\n", &both),
        ("bash", "both.sh", "a=\"$1\"\nb=\"$2\"\necho \"[\\\"$a\\\", $b]\"\n", &both),
        ("ruby", "both.rb", "def main(b, a:)\n  [a, b]\nend\n", &both),
        ("bun", "both.bun.ts", typed, &both),
        ("deno", "both.deno.ts", typed, &both),
    ];
    for (program, name, text, expected) in cases {
        let look = format!("command -v {program}");
        if !caller.script(&[], &look)?.out().contains(program) {
            skip(program, "a sandbox of this machine does not have it");
            continue;
        }
        let ran = script(&server, caller, name, text, &arguments)?;
        assert_eq!(result(&ran)?, *expected, "{name}: {}", ran.err());
    }
    let image = "#!/bin/bash\n# sandbox\necho to the log\necho '{\"from\": \"a file\"}' > ./result.json\n";
    assert_eq!(result(&script(&server, caller, "file.sh", image, &[])?)?, json!({ "from": "a file" }));
    let text = "echo 'two\nlines' > result.out; echo other\n";
    assert_eq!(result(&script(&server, caller, "text.sh", text, &[])?)?, json!("two\nlines"));
    nothing_lives(&server)
}

fn a_failed_script_leaves_its_volume_as_it_was(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let text = "# volume: state state\ndef main(word: str, fail: bool = False):\n    open('state/word', 'w').write(word)\n    \
                if fail: raise RuntimeError('after ' + word)\n    return word\n";
    let run = |options: &[&str]| script(&server, caller, "state.py", text, options);
    result(&run(&["--arg", "word=good"])?)?;
    let failed = run(&["--arg", "word=bad", "--arg", "fail=true"])?;
    ensure!(failed.exited(1)?.err().contains("RuntimeError: after bad"), "{}", failed.err());
    ensure!(failed.out().is_empty(), "{}", failed.out());
    let word = || server.run(["volume", "get", "state", "word"])?.success();
    assert_eq!(word()?, "good");
    let kept = versions(&server, "state")?;
    assert_eq!((kept.len(), &kept[0]["kind"], &kept[0]["current"]), (2, &json!("kept"), &json!(false)));
    assert_eq!(server.run(["volume", "get", "state", "word", "--version", "2"])?.success()?, "bad");
    run(&["--arg", "word=lost", "--arg", "fail=true", "--on-failure", "discard"])?.exited(1)?;
    assert_eq!((word()?.as_str(), versions(&server, "state")?.len()), ("good", 2));
    run(&["--arg", "word=kept", "--arg", "fail=true", "--on-failure", "commit"])?.exited(1)?;
    assert_eq!((word()?.as_str(), versions(&server, "state")?.len()), ("kept", 3));
    nothing_lives(&server)
}

fn one_script_waits_for_another_ones_volume(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let writer = server.create(&["--volume", "queue:/data/queue"])?;
    let text = "# volume: queue /data/queue\nls /data/queue\n";
    let busy = script(&server, caller, "wait.sh", text, &["--wait", "300ms"])?;
    ensure!(
        busy.exited(125)?.err().contains(&format!("is written to by sandbox {writer}")),
        "{}",
        busy.err()
    );
    let file = caller.file("wait.sh", text)?.display().to_string();
    let waiting = server.paddock(["script", "run", &file])?.start()?;
    server.script(&writer, "echo x > /data/queue/one")?.success()?;
    server.run(["kill", &writer])?.success()?;
    assert_eq!(waiting.finish()?.success()?, "\"one\"\n");
    nothing_lives(&server)
}

fn limits_of_the_header_hold(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let slow = "# timeout: 500ms\nimport time\ndef main(): time.sleep(60)\n";
    let ended = script(&server, caller, "slow.py", slow, &[])?;
    ensure!(ended.exited(124)?.err().contains("the time limit of 500 ms was reached"), "{}", ended.err());
    let large =
        "# memory: 64MiB\ndef main():\n    x = bytearray(512 << 20)\n    x[::4096] = b'1' * len(x[::4096])\n";
    let ended = script(&server, caller, "large.py", large, &[])?;
    ensure!(ended.code == 137 || ended.err().contains("MemoryError"), "{} {}", ended.code, ended.err());
    let net = "# net: none\nimport socket\ndef main():\n    try:\n        socket.create_connection(('192.0.2.1', 80), 1)\n    \
               except OSError as error:\n        return 'refused'\n";
    assert_eq!(result(&script(&server, caller, "net.py", net, &[])?)?, "refused");
    let demand = "# require: own-kernel\n# backend: process\ndef main(): pass\n";
    let refused = script(&server, caller, "demand.py", demand, &[])?;
    ensure!(refused.exited(125)?.err().contains("own-kernel"), "{}", refused.err());
    nothing_lives(&server)
}

fn values_that_are_kept_reach_scripts(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let set = ["resource", "set", "--type", "limits", "team/limits", r#"{"days": 7, "deep": {"n": [1, 2]}}"#];
    assert_eq!(server.run(set)?.success()?, "team/limits\n");
    let token = server.paddock(["resource", "set", "TOKEN"])?.input("a plain text\n").finish()?;
    assert_eq!(token.success()?, "TOKEN\n");
    let text = "def main(limits, n, token, plain): return [limits, n, token, plain]\n";
    let arguments = r#"{"limits": "$res:team/limits", "n": "$res:team/limits.deep.n.1", "token": "$var:TOKEN", "plain": "$resident"}"#;
    let ran = script(&server, caller, "kept.py", text, &["--args", arguments])?;
    assert_eq!(
        result(&ran)?,
        json!([{ "days": 7, "deep": { "n": [1, 2] } }, 2, "a plain text", "$resident"])
    );
    let listed = server.run(["resource", "ls"])?.success()?;
    ensure!(listed.contains("team/limits") && listed.contains("variable"), "{listed}");
    assert_eq!(server.run(["resource", "get", "team/limits"])?.json()?["days"], 7);
    for (name, words) in [
        ("token=$var:nobody", "no resource `nobody`"),
        ("token=$res:team/limits.x", "has no `x`"),
        ("token=$var:team/limits", "as text"),
        ("token=$encrypted:x", "is not to be had"),
    ] {
        let refused = script(&server, caller, "one.py", "def main(token): return token\n", &["--arg", name])?;
        ensure!(refused.exited(125)?.err().contains(words), "{name}: {}", refused.err());
    }
    for name in ["TOKEN", "team/limits"] {
        server.run(["resource", "rm", name])?.success()?;
    }
    assert_eq!(server.run(["resource", "ls", "--json"])?.json()?, json!([]));
    Ok(())
}

const VALUE: &str = "sk-this-never-enters-0123456789";

fn what_is_bound_to_a_host_stays_outside(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let json = format!(r#"{{"apiKey": "{VALUE}", "url": "https://api.example.com"}}"#);
    let set = ["resource", "set", "--type", "api", "--secret", "apiKey@api.example.com", "api"];
    server.paddock(set)?.input(json).finish()?.success()?;
    let shown = server.run(["resource", "get", "--json", "api"])?.success()?;
    ensure!(!shown.contains(VALUE) && shown.contains("(bound to api.example.com)"), "{shown}");
    let text = "# secret: KEY@api.example.com=$res:api.apiKey\nimport os\ndef main(api): return [api, os.environ['KEY'], dict(os.environ)]\n";
    let ran = script(&server, caller, "bound.py", text, &["--arg", "api=$res:api"])?;
    let value = result(&ran)?;
    ensure!(!ran.out().contains(VALUE) && !ran.err().contains(VALUE), "{}", ran.out());
    for place in [&value[0]["apiKey"], &value[1]] {
        ensure!(place.as_str().is_some_and(|text| text.starts_with("paddock-secret-")), "{value}");
    }
    assert_eq!(value[0]["url"], "https://api.example.com");
    let elsewhere = text.replace("KEY@api.example.com", "KEY@evil.example.com");
    let refused = script(&server, caller, "bound.py", &elsewhere, &["--arg", "api=$res:api"])?;
    ensure!(
        refused.exited(125)?.err().contains("line 1: secret `KEY` is to be sent to `evil.example.com`"),
        "{}",
        refused.err()
    );
    // The server itself holds to it, for every caller.
    let body =
        json!({ "secrets": { "KEY": { "from": "resource:api.apiKey", "hosts": ["evil.example.com"] } } });
    server.api("POST", "/v1/sandboxes", Some(&body))?.refused(403, "forbidden")?;
    // No value lies on the disk in the clear.
    let mut stack = vec![caller.state()];
    while let Some(directory) = stack.pop() {
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            let kind = entry.file_type()?;
            if kind.is_dir() {
                stack.push(entry.path());
            } else if kind.is_file() && entry.metadata()?.len() < 64 << 20 {
                let bytes = std::fs::read(entry.path()).unwrap_or_default();
                let found = bytes.windows(VALUE.len()).any(|window| window == VALUE.as_bytes());
                ensure!(!found, "{} holds the value", entry.path().display());
            }
        }
    }
    Ok(())
}

fn a_header_is_checked_without_a_server(caller: &Caller) -> Result<()> {
    let check = |name: &str, text: &str, options: &[&str]| {
        let file = caller.file(name, text)?.display().to_string();
        caller.paddock(["script", "check", &file].iter().chain(options))?.finish()
    };
    let text = "// sandbox oven/bun:1\n// volume: $workspace-x .x\n// net: api.example.com\n// timeout: 5m\nexport function main() {}\n";
    let said = check("a.ts", text, &[])?.success()?;
    for words in ["typescript", "oven/bun:1", "$workspace-x at .x", "api.example.com", "5 min"] {
        ensure!(said.contains(words), "{said}");
    }
    let json = check("a.ts", text, &["--json"])?.json()?;
    assert_eq!(
        (&json["volumes"][0]["name"], &json["language"]),
        (&json!("$workspace-x"), &json!("typescript"))
    );
    let wrong = check("b.ts", &text.replace("volume:", "volum:"), &[])?;
    ensure!(
        wrong.exited(1)?.err().contains("b.ts: line 2: `volum` is no annotation; did you mean `volume`?"),
        "{}",
        wrong.err()
    );
    ensure!(!caller.state().join("paddock.db").exists(), "a server was started");
    Ok(())
}

fn a_signal_ends_the_script_and_its_sandbox(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let text = "# volume: state state\nimport time\ndef main():\n    open('state/x', 'w').write('x')\n    print('here', flush=True)\n    time.sleep(600)\n";
    let file = caller.file("sleeps.py", text)?.display().to_string();
    let running = server.paddock(["script", "run", &file])?.start()?;
    until(PATIENCE, "a line of the script", || running.said().contains("here").then_some(()))?;
    running.signal(rustix::process::Signal::INT)?;
    let ended = running.finish()?;
    ensure!(ended.exited(130)?.out().is_empty(), "{}", ended.out());
    nothing_lives(&server)?;
    assert_eq!(versions(&server, "state")?[0]["kind"], "kept");
    Ok(())
}

fn a_command_can_have_volumes(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let run = |volume: &str, options: &[&str], script: &str| {
        let words = ["run", "--volume", volume];
        server.run(words.iter().chain(options).chain(&["--", "sh", "-c", script]))
    };
    run("memory:/data/memory", &[], "echo one > /data/memory/file; cat")?.success()?;
    assert_eq!(run("memory:/data/memory:ro", &[], "cat /data/memory/file")?.success()?, "one\n");
    let refused = run("memory:/data/memory:ro", &[], "echo two > /data/memory/file")?;
    ensure!(refused.err().contains("Read-only file system"), "{}", refused.err());
    let failed = run("memory:/data/memory", &[], "echo bad > /data/memory/file; exit 7")?;
    failed.exited(7)?;
    ensure!(failed.err().contains("nothing was committed to volume `memory`"), "{}", failed.err());
    assert_eq!(server.run(["volume", "get", "memory", "file"])?.success()?, "one\n");
    run("memory:/data/memory", &["--on-failure", "commit"], "echo three > /data/memory/file; exit 1")?
        .exited(1)?;
    assert_eq!(server.run(["volume", "get", "memory", "file"])?.success()?, "three\n");
    let piped = server.paddock([
        "run",
        "--volume",
        "memory:/data/memory",
        "--",
        "sh",
        "-c",
        "cat > /data/memory/in; cat /data/memory/in",
    ])?;
    assert_eq!(piped.input("through\n").finish()?.success()?, "through\n");
    let json = run("memory:/data/memory", &["--json"], "echo out")?.json()?;
    assert_eq!(
        (&json["stdout"], &json["volumes"][0]["outcome"]),
        (&json!("out\n"), &json!("nothing was changed")),
        "{json}"
    );
    for words in [
        vec!["run", "--volume", "memory:/data/memory"],
        vec!["run", "--explain", "--volume", "m1:/data/m", "--", "true"],
    ] {
        server.run(&words)?.exited(125)?;
    }
    nothing_lives(&server)
}

fn an_image_of_the_header_is_the_root(caller: &Caller) -> Result<()> {
    let busybox = match images::busybox() {
        Ok(busybox) => busybox,
        Err(reason) => {
            skip("an image of a script", &reason);
            return Ok(());
        }
    };
    let registry = Registry::start(images::blobs(&busybox)?)?;
    let server = Server::start(caller)?;
    // The image has no bash.
    let text = format!(
        "# sandbox {}/e2e/busybox:1\n# volume: state state\nwho=\"$1\"\ncat /etc/greeting > state/greeting\necho \"$who at $(pwd)\"\n",
        registry.address
    );
    // A registry of the host is for the person to name.
    let refused = script(&server, caller, "image.sh", &text, &["--arg", "who=it's me"])?;
    let flag = format!("--allow-net {}", registry.address);
    ensure!(refused.exited(125)?.err().contains(&flag), "{}", refused.err());
    assert_eq!(registry.asked(), Vec::<String>::new(), "it was asked all the same");
    let named = ["--allow-net", registry.address.as_str()];
    let ran = script(&server, caller, "image.sh", &text, &["--arg", "who=it's me", named[0], named[1]])?;
    assert_eq!(result(&ran)?, "it's me at /workspace", "{}", ran.err());
    assert_eq!(server.run(["volume", "get", "state", "greeting"])?.success()?, images::GREETING);
    let python = text.replace("who=\"$1\"", "def main(): pass");
    let absent = script(&server, caller, "image.py", &python, &named)?;
    ensure!(
        absent.exited(127)?.err().contains("there is no `python3` inside the sandbox"),
        "{}",
        absent.err()
    );
    nothing_lives(&server)
}

/// Neither by an address that its rules cover, nor by a preset of the owner's, nor by a name that leads there.
fn a_header_opens_nothing_of_the_host(caller: &Caller) -> Result<()> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let net = caller.state().join("net/presets");
    std::fs::create_dir_all(&net)?;
    std::fs::write(net.join("inner.toml"), format!("allow = [\"127.0.0.1:{port}\"]\n"))?;
    caller.own_all(&caller.state())?;
    let server = Server::start(caller)?;
    let text = format!(
        "# net: preset:inner 0.0.0.0/0:* localhost:{port}\nimport socket\ndef main():\n    said = []\n    for host in ['127.0.0.1', \
         'localhost']:\n        s = socket.create_connection(('127.0.0.1', 3128), 20)\n        \
         s.sendall(f'CONNECT {{host}}:{port} HTTP/1.1\\r\\n\\r\\n'.encode())\n        \
         said.append(s.recv(4096).decode().split('\\r\\n')[0])\n    return said\n"
    );
    let flag = format!("--allow-net 127.0.0.1:{port}");
    let said = result(&script(&server, caller, "reach.py", &text, &[])?)?;
    let denied = |answer: &Value| answer.as_str().is_some_and(|answer| answer.contains(" 403 "));
    ensure!(said.as_array().is_some_and(|said| said.iter().all(denied)), "{said}");
    let named = |answer: &Value| answer.as_str().is_some_and(|answer| answer.contains(&flag));
    ensure!(said.as_array().is_some_and(|said| said.iter().all(named)), "{said}");
    // The control: the person says so.
    let given = format!("127.0.0.1:{port}");
    for given in [given.as_str(), "preset:inner"] {
        let said = result(&script(&server, caller, "reach.py", &text, &["--allow-net", given])?)?;
        let reached = |answer: &Value| answer.as_str().is_some_and(|answer| answer.contains(" 200 "));
        ensure!(said.as_array().is_some_and(|said| said.iter().all(reached)), "{given}: {said}");
    }
    // A job is its sender's word, the script in it is not.
    let literal = text.replace("preset:inner", &format!("127.0.0.1:{port}"));
    let answer = server.ask("POST", "/v1/jobs", Some(&json!({ "script": literal })))?;
    ensure!(answer.status == 400 && answer.text().contains(&flag), "{}", answer.text());
    nothing_lives(&server)
}

/// Go builds its library first, which takes its time: once is enough.
#[test]
fn go_is_built_inside() -> Result<()> {
    paddock_e2e::as_root("go", |caller| {
        if !caller
            .script(&[], "PATH=$PATH:/usr/local/go/bin:/usr/lib/go/bin; command -v go")?
            .out()
            .contains("go")
        {
            skip("go", "a sandbox of this machine does not have it");
            return Ok(());
        }
        let server = Server::start(caller)?;
        let text = "// sandbox\npackage inner\n\nfunc main(a string, b any) ([]any, error) {\n\treturn []any{a, b}, nil\n}\n";
        let file = caller.file("both.go", text)?.display().to_string();
        let arguments = r#"{"a": "é", "b": {"c": [1, 2]}}"#;
        let mut running = server.paddock(["script", "run", &file, "--args", arguments])?.start()?;
        until(PATIENCE * 10, "a program that was built", || running.has_ended().then_some(()))?;
        assert_eq!(result(&running.finish()?)?, json!(["é", { "c": [1, 2] }]));
        nothing_lives(&server)
    })
}

fn a_script_to_begin_with_is_written_and_runs(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let listed = server.run(["script", "new"])?.success()?;
    let names: Vec<&str> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    for name in ["claude", "codex", "opencode", "python", "typescript", "bash", "go", "ruby"] {
        ensure!(names.contains(&name), "no {name} in {listed}");
    }
    let directory = caller.directory("scripts")?;
    for (program, name) in
        [("python3", "python"), ("node", "typescript"), ("node", "javascript"), ("bash", "bash")]
    {
        if caller.script(&[], &format!("command -v {program}"))?.out().is_empty() {
            skip(program, "a sandbox of this machine does not have it");
            continue;
        }
        let endings = [("python", "py"), ("typescript", "ts"), ("javascript", "mjs"), ("bash", "sh")];
        let ending = endings.iter().find(|(known, _)| *known == name).context("its ending")?.1;
        let file = directory.join(format!("{name}.{ending}")).display().to_string();
        let written = server.run(["script", "new", name, &file])?;
        assert_eq!(written.success()?.trim_end(), file);
        ensure!(
            written.err().starts_with(&format!("run it: paddock script run {file} --arg ")),
            "{}",
            written.err()
        );
        let argument = if name == "python" { "prompt=hello" } else { "name=Ada" };
        for _ in 0..2 {
            result(&server.run(["script", "run", &file, "--arg", argument])?)?;
        }
        let again = server.run(["script", "new", name, &file])?;
        ensure!(again.exited(1)?.err().contains("is there already"), "{}", again.err());
    }
    let count = server.run(["volume", "get", "greetings", "count"])?.success()?;
    assert_eq!(count.trim(), "6", "the state of the scripts is not one");
    let printed = server.run(["script", "new", "claude", "-"])?.success()?;
    ensure!(printed.contains("claude-agent-sdk"), "{printed}");
    let unknown = server.run(["script", "new", "cobol"])?;
    ensure!(
        unknown.exited(1)?.err().contains("hint: known are claude, codex, opencode"),
        "{}",
        unknown.err()
    );
    nothing_lives(&server)
}
