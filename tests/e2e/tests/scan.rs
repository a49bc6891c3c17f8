//! Code is looked at before it runs: with a server, without one, and alone.

use super::contexts::Place;
use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, Server, for_both_callers};
use serde_json::{Value, json};
use std::path::Path;

for_both_callers!(
    nothing_is_scanned_unless_asked_for,
    warned_code_runs_and_its_findings_come_back,
    denied_code_does_not_run,
    findings_are_in_the_audit,
    no_layer_makes_the_scan_weaker,
    copies_are_scanned_as_their_source_is,
    what_has_no_parser_is_not_passed_in_silence,
    code_for_one_call_is_scanned_too,
    the_command_scans_alone,
    code_that_is_made_to_break_the_scanner_does_not,
    settings_that_cannot_be_are_refused,
);

/// `kind line:column` of each.
fn told(findings: &Value) -> Vec<String> {
    let each = |finding: &Value| {
        format!("{} {}:{}", finding["kind"].as_str().unwrap_or("?"), finding["line"], finding["column"])
    };
    findings.as_array().map(|list| list.iter().map(each).collect()).unwrap_or_default()
}

fn denied(place: &Place, body: Value) -> Result<Value> {
    let answer = place.server.api("POST", &place.path("/code"), Some(&body))?;
    answer.refused(403, "scan_denied")?;
    answer.json()
}

fn nothing_is_scanned_unless_asked_for(caller: &Caller) -> Result<()> {
    let place = Place::new(caller)?;
    let answer = place.python("import subprocess\neval('6 * 7')")?;
    ensure!(answer.get("findings").is_none(), "{answer}");
    assert_eq!(answer["results"][0]["text"], "42");
    assert_eq!(place.get("")?["scan"], json!({ "mode": "off" }));
    Ok(())
}

fn warned_code_runs_and_its_findings_come_back(caller: &Caller) -> Result<()> {
    let mut place = Place::with(caller, &["--scan", "warn", "--allow-import", "json"])?;
    assert_eq!(place.get("")?["scan"], json!({ "mode": "warn", "allowed_imports": ["json"] }));
    let code = "import json, os\nprint('ran')\nx = eval('1')";
    let expected = ["import_not_allowed 1:14", "eval_exec 3:5"];
    let answer = place.python(code)?;
    assert_eq!(told(&answer["findings"]), expected);
    assert_eq!(answer["findings"][1]["text"], "eval");
    assert_eq!((answer["stdout"].as_str(), answer["exit_code"].as_i64()), (Some("ran\n"), Some(0)));
    let clean = place.python("import json\njson.dumps(x)")?;
    ensure!(clean.get("findings").is_none() && clean["exit_code"] == 0, "{clean}");
    // Streamed, and in the background.
    let streamed = json!({ "code": code, "stream": true });
    let lines = place.server.api("POST", &place.path("/code"), Some(&streamed))?.lines()?;
    let last = lines.last().context("no line")?;
    assert_eq!(
        (last["type"].as_str(), told(&last["exec"]["findings"])),
        (Some("ended"), expected.map(String::from).to_vec())
    );
    let begun = place.post("/code", json!({ "code": code, "background": true }), 201)?;
    assert_eq!(told(&begun["findings"]), expected);
    // They are kept with the call, also when its server is not there any more.
    let exec = answer["exec"].as_u64().context("no number")?;
    place.server.kill()?;
    place.server.start_again()?;
    assert_eq!(told(&place.get(&format!("/execs/{exec}"))?["findings"]), expected);
    assert_eq!(told(&place.python("eval('1')")?["findings"]), ["eval_exec 1:1"]);
    let shown = place.server.run(["context", "run", &place.id, "print(eval('2'))"])?;
    assert_eq!(
        (shown.success()?.as_str(), shown.err().as_str()),
        ("2\n", "paddock: scan: line 1, column 7: eval_exec: eval\n")
    );
    Ok(())
}

fn denied_code_does_not_run(caller: &Caller) -> Result<()> {
    let place = Place::with(caller, &["--scan", "deny"])?;
    let touch = "open('/tmp/touched', 'w').close()";
    let error = denied(&place, json!({ "code": format!("{touch}\nimport subprocess, socket") }))?;
    assert_eq!(told(&error["details"]["findings"]), ["subprocess 2:8", "socket 2:20"]);
    let message = error["message"].as_str().context("no message")?;
    ensure!(message.ends_with("line 2, column 8: subprocess: subprocess, and 1 more"), "{message}");
    ensure!(error["hint"].is_string() && error["details"]["findings_missing"] == 0, "{error}");
    // Neither streamed, nor in the background, nor with an error in it.
    for body in [json!({ "stream": true }), json!({ "background": true }), json!({})] {
        let mut body = body;
        body["code"] = format!("{touch}\neval('1')\nx = (").into();
        let error = denied(&place, body)?;
        let kinds = told(&error["details"]["findings"]);
        ensure!(kinds.iter().any(|kind| kind.starts_with("not_parsed")), "{kinds:?}");
    }
    assert_eq!(place.value("import os\nos.path.exists('/tmp/touched')")?, "False");
    let execs = place.get("/execs")?;
    ensure!(!execs.to_string().contains("run_code bash"), "{execs}");
    let context = place.post("/contexts", json!({ "language": "javascript" }), 201);
    if let Ok(context) = context {
        let body = json!({ "code": "require('child_process')", "context": context["id"] });
        assert_eq!(told(&denied(&place, body)?["details"]["findings"]), ["subprocess 1:1"]);
    }
    let refused = place.server.run(["context", "run", &place.id, "eval('1')"])?;
    refused.exited(125)?;
    ensure!(
        refused.err().starts_with("paddock: scan: line 1, column 1: eval_exec: eval\nerror: "),
        "{}",
        refused.err()
    );
    Ok(())
}

fn findings_are_in_the_audit(caller: &Caller) -> Result<()> {
    let mut place = Place::with(caller, &["--scan", "warn"])?;
    for (mode, is_denied) in [("warn", false), ("deny", true)] {
        place.id = place.server.create(&["--scan", mode])?;
        place.python("1 + 1")?;
        let status = if is_denied { 403 } else { 200 };
        place.post("/code", json!({ "code": "'secret word', eval('1')" }), status)?;
        let file = caller.home().join(format!("{mode}.audit")).display().to_string();
        place.server.run(["audit", "export", &place.id, "-o", &file])?.success()?;
        let lines = std::fs::read_to_string(&file)?;
        let scanned: Vec<&str> = lines.lines().filter(|line| line.contains("\"scanned\"")).collect();
        ensure!(scanned.len() == 1, "{lines}");
        ensure!(scanned[0].contains("eval_exec") && scanned[0].contains(mode), "{}", scanned[0]);
        // Code that ran has an entry of its own.
        assert_eq!(scanned[0].contains("secret word"), is_denied, "{}", scanned[0]);
        ensure!(place.server.run(["audit", "verify", &file])?.success()?.contains("is whole"), "not whole");
        ensure!(place.server.run(["audit", "show", &place.id])?.success()?.contains("scanned"), "not shown");
    }
    Ok(())
}

fn no_layer_makes_the_scan_weaker(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let template =
        ["template", "add", "strict", "--scan", "deny", "--allow-import", "json", "--allow-import", "math"];
    server.run(template)?.success()?;
    ensure!(
        server.run(["template", "show", "strict"])?.success()?.contains("scan = \"deny\""),
        "it is not kept"
    );
    let looser = ["--template", "strict", "--scan", "off", "--allow-import", "json", "--allow-import", "os"];
    let place = Place { id: server.create(&looser)?, server };
    assert_eq!(place.get("")?["scan"], json!({ "mode": "deny", "allowed_imports": ["json"] }));
    for (code, finding) in [
        ("import math", "import_not_allowed 1:8"),
        ("import os", "import_not_allowed 1:8"),
        ("eval('1')", "eval_exec 1:1"),
    ] {
        assert_eq!(told(&denied(&place, json!({ "code": code }))?["details"]["findings"]), [finding]);
    }
    assert_eq!(place.value("import json\njson.dumps([1])")?, "'[1]'");
    // With nothing in common nothing may be imported.
    let body = json!({ "template": "strict", "allowed_imports": ["os"] });
    let made = place.server.api("POST", "/v1/sandboxes", Some(&body))?.expect(201)?;
    assert_eq!(made["scan"], json!({ "mode": "deny", "allowed_imports": [] }));
    Ok(())
}

fn copies_are_scanned_as_their_source_is(caller: &Caller) -> Result<()> {
    let place = Place::with(caller, &["--scan", "deny", "--allow-import", "json"])?;
    let rules = json!({ "mode": "deny", "allowed_imports": ["json"] });
    let forked = place.server.run(["fork", &place.id])?.success()?;
    let snapshot = place.server.run(["snapshot", "create", &place.id])?.success()?;
    let begun = place.server.create(&["--snapshot", snapshot.trim(), "--scan", "off"])?;
    for id in [forked.trim(), &begun] {
        let shown = place.server.api("GET", &format!("/v1/sandboxes/{id}"), None)?.expect(200)?;
        assert_eq!(shown["scan"], rules);
        let body = json!({ "code": "import os" });
        place
            .server
            .api("POST", &format!("/v1/sandboxes/{id}/code"), Some(&body))?
            .refused(403, "scan_denied")?;
    }
    Ok(())
}

fn what_has_no_parser_is_not_passed_in_silence(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let (warned, refused) = (server.create(&["--scan", "warn"])?, server.create(&["--scan", "deny"])?);
    for language in ["bash", "sh"] {
        let body = json!({ "code": "echo ran", "language": language });
        let answer = server.api("POST", &format!("/v1/sandboxes/{warned}/code"), Some(&body))?.expect(200)?;
        assert_eq!(
            (answer["stdout"].as_str(), told(&answer["findings"])),
            (Some("ran\n"), vec!["not_scanned 1:1".into()])
        );
        server
            .api("POST", &format!("/v1/sandboxes/{refused}/code"), Some(&body))?
            .refused(403, "scan_denied")?;
    }
    // A command is not code.
    assert_eq!(server.script(&refused, "echo ran")?.success()?, "ran\n");
    Ok(())
}

fn code_for_one_call_is_scanned_too(caller: &Caller) -> Result<()> {
    let code = |arguments: &[&str]| caller.paddock(["code"])?.arguments(arguments).finish();
    let source = "import json\nprint(eval('6 * 7'))";
    let warned = code(&["--scan", "warn", source])?;
    assert_eq!(
        (warned.success()?.as_str(), warned.err().as_str()),
        ("42\n", "paddock: scan: line 2, column 7: eval_exec: eval\n")
    );
    let denied = code(&["--scan", "deny", "--allow-import", "math", source])?;
    denied.exited(125)?;
    ensure!(denied.out().is_empty() && denied.err().contains("import_not_allowed: json"), "{}", denied.err());
    ensure!(denied.err().contains("error: the policy denies this code"), "{}", denied.err());
    assert_eq!(code(&["--scan", "deny", "print(6 * 7)"])?.success()?, "42\n");
    code(&["--scan", "deny", "-l", "bash", "echo ran"])?.exited(125)?;
    let report = code(&["--scan", "warn", "--json", source])?.json()?;
    assert_eq!(
        (told(&report["findings"]), report["stdout"].as_str()),
        (vec!["eval_exec 2:7".into()], Some("42\n"))
    );
    let policy =
        caller.file("policy.toml", "scan = 'deny'\nallowed_imports = ['math']")?.display().to_string();
    code(&["--policy", &policy, "--scan", "off", "import json"])?.exited(125)?;
    let explained = code(&["--explain", "--policy", &policy, "1"])?.success()?;
    ensure!(explained.contains("deny; only these may be imported: math"), "{explained}");
    Ok(())
}

fn the_command_scans_alone(caller: &Caller) -> Result<()> {
    let scan = |arguments: &[&str]| caller.paddock(["scan"])?.arguments(arguments).finish();
    let file = caller.file("tool.py", "import os\n\nos.system('ls \u{1b}')\n")?.display().to_string();
    assert_eq!(scan(&[&file])?.exited(1)?.out(), format!("{file}:3:1: subprocess: os.system\n"));
    assert_eq!(scan(&["--allow-import", "os", "--allow-import", "os.system", &file])?.success()?, "");
    let script = caller.file("tool.ts", "const x: number = eval('1')")?.display().to_string();
    let report = scan(&["--json", &script])?.exited(1)?.json()?;
    assert_eq!(
        (told(&report["findings"]), report["findings_missing"].as_u64()),
        (vec!["eval_exec 1:19".into()], Some(0))
    );
    assert_eq!(caller.paddock(["scan", "-"])?.input("x = 1").finish()?.success()?, "");
    assert_eq!(
        scan(&["-l", "bash", "echo"])?.exited(1)?.out(),
        "-:1:1: not_scanned: there is no parser for bash\n"
    );
    let missing = scan(&["nope.py"])?;
    missing.exited(2)?;
    ensure!(missing.err().contains("source file `nope.py` does not exist"), "{}", missing.err());
    scan(&["--allow-import", "a b", "1"])?.exited(2)?;
    Ok(())
}

fn code_that_is_made_to_break_the_scanner_does_not(caller: &Caller) -> Result<()> {
    let place = Place::with(caller, &["--scan", "deny"])?;
    let deep = format!("{}1{}", "(".repeat(100_000), ")".repeat(100_000));
    let endless = "a<b,".repeat(200_000);
    let large = "x = 1\n".repeat(600_000);
    for (language, code) in [
        ("python", "(".repeat(900_000).as_str()),
        ("javascript", "a=>".repeat(300_000).as_str()),
        ("typescript", &endless),
        ("python", &large),
        ("python", "x = '\0'"),
    ] {
        let error = match denied(&place, json!({ "code": code, "language": language })) {
            // A host without Node has no context for it, and says so first.
            Err(_) if language != "python" && !Path::new("/usr/bin/node").exists() => continue,
            error => error?,
        };
        let kinds = told(&error["details"]["findings"]);
        ensure!(kinds.iter().any(|kind| kind.starts_with("not_parsed")), "{language}: {kinds:?}");
    }
    let scanned = caller.paddock(["scan", "-"])?.input(deep).finish()?;
    ensure!(scanned.code == 0 || scanned.out().contains("not_parsed"), "{}", scanned.err());
    let scanned = caller.paddock(["scan", "-"])?.input(&b"x = 1\n\xff"[..]).finish()?;
    ensure!(scanned.exited(1)?.out().starts_with("-:2:1: not_parsed: "), "{}", scanned.out());
    // Nothing of all that is left, and the next call is as quick as ever.
    assert_eq!(place.value("6 * 7")?, "42");
    assert_eq!(scanners_of(place.server.process()?)?, 0, "scanners are left");
    Ok(())
}

/// Children of the server that are scanners.
fn scanners_of(server: u32) -> Result<usize> {
    let mut count = 0;
    for entry in std::fs::read_dir("/proc")?.flatten() {
        // A process that ends meanwhile has no files any more.
        let read = |name: &str| std::fs::read_to_string(entry.path().join(name)).unwrap_or_default();
        let parent = read("status").lines().any(|line| *line == format!("PPid:\t{server}"));
        count += usize::from(parent && read("cmdline").contains("--be-the-scanner"));
    }
    Ok(count)
}

fn settings_that_cannot_be_are_refused(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    for (body, words) in [
        (json!({ "scan": "strict" }), "scan `strict` is not known; known are off, warn and deny"),
        (json!({ "allowed_imports": ["os"] }), "allowed_imports is given, and nobody looks: scan is off"),
        (
            json!({ "scan": "warn", "allowed_imports": ["a b"] }),
            "allowed import `a b` is not the name of a module",
        ),
    ] {
        let answer = server.api("POST", "/v1/sandboxes", Some(&body))?;
        assert_eq!(answer.refused(400, "invalid_request")?.json()?["message"], words);
    }
    let finished = server.run(["create", "--allow-import", "os"])?;
    ensure!(finished.exited(1)?.err().contains("set scan to `warn` or `deny`"), "{}", finished.err());
    Ok(())
}
