//! Mistakes in scripts: named, with the line where there is one, and nothing is left.

use crate::scripts::{nothing_lives, script};
use anyhow::{Result, ensure};
use paddock_e2e::{Caller, Server, for_both_callers};

for_both_callers!(
    headers_and_arguments_are_refused_before_anything_runs,
    what_main_does_wrong_is_named,
    hostile_results_are_bounded,
);

const MAIN: &str = "def main(prompt: str, count=1): return prompt\n";

fn headers_and_arguments_are_refused_before_anything_runs(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    for (header, words) in [
        ("# sandbox=false", "line 1: `sandbox=false`: the sandbox cannot be turned off"),
        ("# sandbx", "line 1: `sandbx` is no annotation; did you mean `sandbox`?"),
        ("# sandbox\n# volum: a-b c", "line 2: `volum` is no annotation; did you mean `volume`?"),
        ("# sandbox\n# gpu: 1", "line 2: `gpu` is no annotation"),
        ("# sandbox /", "line 1: image `/` is a path of the host"),
        ("# volume: ab /data/../etc", "line 1: volume target `/data/../etc` holds `..`"),
        ("# volume: ab /etc/x", "line 1: volume target `/etc/x` is not below"),
        ("# volume: ab x\n# volume: cd x", "line 2: volume target `x` is taken by line 1"),
        ("# volume: ab x\n# volume: ab y", "line 2: volume `ab` is there twice"),
        ("# volume: ../ab x", "line 1: volume name `../ab` is not allowed"),
        (
            "# volume: a-$args[user] x",
            "line 1: volume name `a-$args[user]` needs argument `user`, which is not given",
        ),
        ("# timeout: soon", "line 1: timeout: `soon` is not a duration"),
        ("# memory: 1", "line 1: memory: memory limit 1 B is outside"),
        ("# net: host", "line 1: `net: host` is not for a script to ask for"),
        (
            "# net: a.example, 127.0.0.1:39911",
            "line 1: `net: 127.0.0.1:39911` is an address of the host or its networks, which a header does not open\nhint: if you \
             mean it, say so outside of the script: --allow-net 127.0.0.1:39911",
        ),
        ("# sandbox\n# net: 10.1.0.0/16", "line 2: `net: 10.1.0.0/16` is an address of the host"),
        ("# net: 169.254.169.254", "line 1: `net: 169.254.169.254` is an address of the host"),
        ("# net: [fd00::1]:443", "line 1: `net: [fd00::1]:443` is an address of the host"),
        ("# sandbox 127.0.0.1:18080/x", "line 1: the registry `127.0.0.1:18080` is on the host"),
        ("# sandbox localhost:18080/x", "line 1: the registry `localhost:18080` is on the host"),
        ("# sandbox 10.0.0.1/x:1", "line 1: the registry `10.0.0.1` is on the host"),
        ("# secret: KEY@a.example=env:HOME", "line 1: secret `KEY@a.example=env:HOME` is not NAME@HOST"),
        ("import os\n# sandbox", "line 2: `# sandbox` stands below the header"),
    ] {
        let refused =
            script(&server, caller, "bad.py", &format!("{header}\n{MAIN}"), &["--arg", "prompt=x"])?;
        let said = refused.exited(125)?.err();
        ensure!(
            said.contains(words) && said.contains("hint: ")
                || said.contains("timeout: `soon`")
                || said.contains("outside"),
            "{header}: {said}"
        );
    }
    for (options, words) in [
        (&["--args", "[1]"][..], "the arguments are a list"),
        (&["--args", "{prompt: 1}"], "the arguments are no JSON"),
        (&["--args", r#"{"prompt": 1}"#, "--arg", "prompt=2"], "`prompt` is given twice"),
        (&["--language", "perl"], "language `perl` is not known"),
        (&["--template", "nobody"], "template"),
    ] {
        let refused = script(&server, caller, "bad.py", MAIN, options)?;
        ensure!(refused.exited(125)?.err().contains(words), "{options:?}: {}", refused.err());
    }
    let usage = script(&server, caller, "bad.py", MAIN, &["--arg", "prompt"])?;
    ensure!(usage.exited(2)?.err().contains("KEY=VALUE"), "{}", usage.err());
    let unnamed = script(&server, caller, "bad.txt", MAIN, &[])?;
    ensure!(unnamed.exited(125)?.err().contains("does not say its language"), "{}", unnamed.err());
    let empty = script(&server, caller, "empty.sh", "#!/bin/sh\n# sandbox\n", &[])?;
    ensure!(empty.exited(125)?.err().contains("nothing but its header"), "{}", empty.err());
    let absent = server.run(["script", "run", "/nonexistent/a.py"])?;
    ensure!(absent.exited(125)?.err().contains("cannot be read"), "{}", absent.err());
    for (words, said) in [
        (vec!["resource", "set", "../x", "1"], "not allowed"),
        (vec!["resource", "set", "--type", "a b", "x1", "1"], "resource type"),
        (vec!["resource", "set", "--secret", "key@a.example", "x1", "{}"], "has no text at `key`"),
        (vec!["resource", "set", "--secret", "@10.0.0.1", "x1", "text"], "is no name of a host"),
        (vec!["resource", "get", "nobody"], "there is no resource `nobody`"),
        (vec!["resource", "rm", "nobody"], "there is no resource `nobody`"),
    ] {
        let refused = server.run(&words)?;
        ensure!(refused.exited(1)?.err().contains(said), "{words:?}: {}", refused.err());
    }
    let volumes = server.api("GET", "/v1/volumes", None)?.expect(200)?;
    ensure!(volumes["volumes"].as_array().is_some_and(Vec::is_empty), "something was made: {volumes}");
    nothing_lives(&server)
}

fn what_main_does_wrong_is_named(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    for (body, options, words) in [
        ("print('main')\n", &[][..], "the script has no function main"),
        (MAIN, &[], "argument `prompt` is missing; main's parameters are: prompt, count"),
        (MAIN, &["--arg", "promt=x"], "main has no parameter `promt`; its parameters are: prompt, count"),
        ("def main(): return {1, 2}\n", &[], "the result is no JSON: at $ it has a set; return a list"),
        ("def main(): return {'x': float('nan')}\n", &[], "at $.x it has nan"),
        ("def main(): return [b'x']\n", &[], "at $[0] it has a bytes"),
        ("def main(): raise KeyError('gone')\n", &[], "KeyError: 'gone'"),
        ("def main(): return 1 +\n", &[], "SyntaxError"),
        ("import os\ndef main(): os._exit(0)\n", &[], "the script ended before main returned"),
    ] {
        let failed = script(&server, caller, "wrong.py", body, options)?;
        ensure!(failed.exited(1)?.err().contains(words), "{body}: {}", failed.err());
        ensure!(failed.out().is_empty(), "{body}: {}", failed.out());
    }
    let own = script(&server, caller, "own.py", "import sys\ndef main(): sys.exit(7)\n", &[])?;
    own.exited(7)?;
    let told = script(&server, caller, "own.py", "def main(): return {1}\n", &["--json"])?;
    assert_eq!(told.exited(1)?.json()?["error"]["code"], "result_not_json");
    let (typed, method) = ("export function main() {}\n", "def main\nend\n");
    for (program, file, source) in
        [("deno", "a.deno.ts", typed), ("bun", "a.bun.ts", typed), ("ruby", "a.rb", method)]
    {
        if !caller.script(&[], &format!("command -v {program}"))?.out().is_empty() {
            continue;
        }
        let refused = script(&server, caller, file, source, &[])?;
        let said = refused.exited(127)?.err();
        let words = format!("paddock: there is no `{program}` inside the sandbox");
        ensure!(
            said.starts_with(&words) && said.contains(&format!("hint: --template {program} has it")),
            "{said}"
        );
        ensure!(said.lines().count() == 2 && !said.contains("CALL"), "the wrapper is shown: {said}");
        let told = script(&server, caller, file, source, &["--json"])?.exited(127)?.json()?;
        assert_eq!(told["error"]["code"], "interpreter_missing", "{told}");
        // A server that is named by a URL builds nothing for its callers, and names the command that does.
        let missing = script(&server, caller, file, source, &["--template", program])?;
        let build = format!("`paddock template build {program}` makes it");
        ensure!(missing.exited(125)?.err().contains(&build), "{}", missing.err());
    }
    nothing_lives(&server)
}

/// The place of the result is the script's own to write: nothing that it puts there does any harm.
fn hostile_results_are_bounded(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    for (body, code, words) in [
        ("mkfifo result.json; echo last\n", 0, "\"last\""),
        ("mkdir result.json; echo last\n", 0, "\"last\""),
        ("ln -s /proc/self/environ result.json; echo last\n", 0, ""),
        ("head -c 9000000 /dev/zero | tr '\\0' 1 > result.json\n", 1, "more than 8388608 bytes"),
        ("printf '%0.s[' $(seq 100000) > result.json\n", 1, "is no JSON"),
        ("printf '\\033]0;x\\007' > result.out\n", 0, "\\u001b"),
        ("rm -rf .paddock; chmod 000 .; echo last\n", 0, "last"),
        ("kill -9 $$\n", 137, ""),
    ] {
        let ran = script(&server, caller, "hostile.sh", body, &[])?;
        let said = format!("{}{}", ran.out(), ran.err());
        ensure!(body.starts_with("ln -s") || ran.code == code, "{body}: {} {said}", ran.code);
        ensure!(said.contains(words), "{body}: {said}");
        ensure!(!said.contains('\u{1b}') && !said.contains("PADDOCK_STATE"), "{body}: {said:?}");
    }
    let forged = "import json, os\ndef main():\n    error = {'code': 'internal', 'name': 'x' * 500, 'message': '\\x1b[31m' + 'y' * 9000}\n    \
                  open('/workspace/.paddock/result.json', 'w').write(json.dumps({'error': error}))\n    os._exit(1)\n";
    let told = script(&server, caller, "forged.py", forged, &["--json"])?.exited(1)?.json()?;
    assert_eq!(told["error"]["code"], "script_failed");
    ensure!(told["error"]["message"].as_str().is_some_and(|text| text.chars().count() == 4000), "{told}");
    nothing_lives(&server)
}
