//! Secrets: placeholders inside, values at the hosts that they are bound to, and nowhere else.

use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, Finished, Outside, Server, for_both_callers};
use serde_json::json;
use std::path::Path;

for_both_callers!(
    the_value_goes_where_it_is_bound_to_and_nowhere_else,
    programs_work_unchanged_where_tls_is_ended,
    a_value_that_comes_back_is_masked,
    a_value_is_put_into_headers_for_credentials_only,
    a_sandbox_keeps_its_secrets_and_shows_them_to_nobody,
    a_header_that_the_gate_sets_comes_and_goes,
    a_fork_has_none_unless_it_is_asked_for,
    methods_are_held_for_bound_hosts,
    a_pool_of_a_template_with_secrets,
    bad_secrets_are_refused_without_their_value,
    tenants_read_nothing_of_the_server,
);

const VALUE: &str = "sk-paddock-e2e/real+value";

/// `--secret KEY@web.test:PORT`, and the address behind that name, which is this host's own.
fn flags(outside: &Outside) -> [String; 2] {
    [format!("--secret=KEY@web.test:{}", outside.tls), format!("--allow-net=127.0.0.1:{}", outside.tls)]
}

/// The answer of the host outside when it gets this as authorization: in a form that no mask knows.
fn spelled(authorization: &str) -> String {
    let letters: Vec<String> = authorization.chars().map(String::from).collect();
    letters.join(".") + "\n"
}

fn inside(caller: &Caller, flags: &[String], line: &str) -> Result<Finished> {
    let arguments = flags.iter().map(String::as_str).chain(["--", "sh", "-c", line]);
    caller.paddock(["run"].into_iter().chain(arguments))?.environment("KEY", VALUE).finish()
}

fn create(server: &Server, flags: &[String]) -> Result<String> {
    let arguments = ["create"].into_iter().chain(flags.iter().map(String::as_str));
    Ok(server.paddock(arguments)?.environment("KEY", VALUE).finish()?.success()?.trim().to_string())
}

fn ask(outside: &Outside, path: &str) -> String {
    format!("curl -sS -H \"Authorization: Bearer $KEY\" https://web.test:{}/{path}", outside.tls)
}

/// Everything on disk, as it is.
fn holds(directory: &Path, text: &str) -> Result<bool> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        let found = match () {
            // The storage of root's disks is a file system of its own, mounted beside its image.
            () if kind.is_dir() => holds(&entry.path(), text)?,
            () if kind.is_file() && entry.metadata()?.len() < 1 << 26 => {
                let bytes = std::fs::read(entry.path())?;
                bytes.windows(text.len()).any(|window| window == text.as_bytes())
            }
            () => false,
        };
        if found {
            eprintln!("in {}", entry.path().display());
            return Ok(true);
        }
    }
    Ok(false)
}

pub fn the_value_goes_where_it_is_bound_to_and_nowhere_else(caller: &Caller) -> Result<()> {
    let outside = Outside::start(caller)?;
    let (tls, clear) = (outside.tls, outside.clear);
    let mut rules = flags(&outside).to_vec();
    rules.push(format!("--allow-net=other.test:{tls},{clear}"));
    rules.push(format!("--allow-net=127.0.0.1:{clear}"));
    let said = inside(caller, &rules, "echo $KEY; env")?.success()?;
    ensure!(said.starts_with("paddock-secret-") && !said.contains(VALUE), "{said}");
    for options in ["", "--noproxy '*'", "-x socks5h://127.0.0.1:3128"] {
        let line = format!("{} {options}", ask(&outside, "spelled"));
        assert_eq!(
            inside(caller, &rules, &line)?.success()?,
            spelled(&format!("Bearer {VALUE}")),
            "{options}"
        );
    }
    // End to end: the other host gets a placeholder, which is worth nothing.
    let line =
        format!("curl -sS -H \"Authorization: $KEY\" https://other.test:{tls}/spelled; printf %s $KEY");
    let said = inside(caller, &rules, &line)?.success()?;
    let (got, sent) = said.split_once('\n').context("two lines")?;
    assert_eq!(spelled(sent).trim(), got);
    // In the clear it is seen, and goes nowhere.
    for options in ["", "--noproxy '*'"] {
        let line =
            format!("curl -sS -f {options} -H \"Authorization: $KEY\" http://other.test:{clear}/spelled");
        let refused = inside(caller, &rules, &line)?;
        ensure!(refused.code != 0 && refused.err().contains("KEY"), "{options}: {refused:?}");
        let control = inside(caller, &rules, &line.replace("$KEY", "nothing"))?;
        assert_eq!(control.success()?, spelled("nothing"), "{options}");
    }
    Ok(())
}

pub fn programs_work_unchanged_where_tls_is_ended(caller: &Caller) -> Result<()> {
    let outside = Outside::start(caller)?;
    let rules = flags(&outside);
    let url = format!("https://web.test:{}/spelled", outside.tls);
    for (program, line) in [
        (
            "python",
            format!(
                "python3 -c 'import os, urllib.request as u
print(u.urlopen(u.Request(\"{url}\", headers={{\"Authorization\": \"Bearer \" + os.environ[\"KEY\"]}})).read().decode(), end=\"\")'"
            ),
        ),
        (
            "node",
            format!(
                "node -e 'fetch(\"{url}\", {{headers: {{Authorization: \"Bearer \" + process.env.KEY}}}}).then(r => r.text()).then(t => process.stdout.write(t))'"
            ),
        ),
    ] {
        let finished = inside(caller, &rules, &line)?;
        assert_eq!(finished.success().context(program)?, spelled(&format!("Bearer {VALUE}")), "{program}");
    }
    let line =
        format!("cd /tmp && git clone -q https://web.test:{}/repo/.git clone && cat clone/file", outside.tls);
    assert_eq!(inside(caller, &rules, &line)?.success().context("git")?, "content\n");
    Ok(())
}

pub fn a_value_that_comes_back_is_masked(caller: &Caller) -> Result<()> {
    let outside = Outside::start(caller)?;
    let rules = flags(&outside);
    let masked = format!("Bearer {}\n", "*".repeat(VALUE.len()));
    assert_eq!(inside(caller, &rules, &ask(&outside, "echo"))?.success()?, masked);
    let slowly =
        format!("{} | while IFS= read -r -n 1 c; do printf '%s' \"$c\"; done", ask(&outside, "echo"));
    let bash = format!("bash -c {}", quoted(&slowly));
    assert_eq!(inside(caller, &rules, &bash)?.success()? + "\n", masked);
    let json = [&rules[..], &["--json".to_string()]].concat();
    let said = inside(caller, &json, &ask(&outside, "echo"))?.json()?;
    assert_eq!(said["stdout"], masked);
    // It does not enter the sandbox either: a copy in a form that no mask knows has no value in it.
    let line = format!("{} | tr a-z b-za", ask(&outside, "echo"));
    let entered = inside(caller, &rules, &line)?.success()?;
    ensure!(entered.contains(&"*".repeat(VALUE.len())), "{entered}");
    let line = format!("{} -i | tr a-z b-za", ask(&outside, "forms"));
    let entered = inside(caller, &rules, &line)?.success()?;
    let moved = |text: &str| {
        text.bytes()
            .map(|byte| if byte.is_ascii_lowercase() { (byte - b'a' + 1) % 26 + b'a' } else { byte } as char)
            .collect::<String>()
    };
    let reversed: String = VALUE.chars().rev().collect();
    let hex: String = VALUE.bytes().map(|byte| format!("{byte:02x}")).collect();
    for form in [VALUE, &reversed, &hex, "sk-paddock-e2e%2Freal%2Bvalue"] {
        ensure!(!entered.contains(&moved(form)), "{form}: {entered}");
    }
    ensure!(entered.contains(&format!("y-tffo: Bfbsfs {}", "*".repeat(VALUE.len()))), "{entered}");
    // Text that looks like its beginning, and is not, comes through.
    assert_eq!(inside(caller, &rules, "printf sk-paddock-")?.success()?, "sk-paddock-");
    let server = Server::start(caller)?;
    let id = create(&server, &rules)?;
    assert_eq!(server.script(&id, &ask(&outside, "echo"))?.success()?, masked);
    let code = format!(
        "import os, urllib.request as u\nu.urlopen(u.Request('https://web.test:{}/echo', headers={{'Authorization': os.environ['KEY']}})).read().decode()",
        outside.tls
    );
    let answer = server.ask("POST", &format!("/v1/sandboxes/{id}/code"), Some(&json!({ "code": code })))?;
    let stars = "*".repeat(VALUE.len());
    ensure!(answer.text().contains(&stars) && !answer.text().contains(VALUE), "{}", answer.text());
    Ok(())
}

fn a_value_is_put_into_headers_for_credentials_only(caller: &Caller) -> Result<()> {
    let outside = Outside::start(caller)?;
    let mut rules = flags(&outside).to_vec();
    let line = format!(
        "curl -sS -H \"Origin: $KEY\" -H \"Authorization: $KEY\" https://web.test:{}/spelled",
        outside.tls
    );
    let refused = inside(caller, &rules, &line)?.success()?;
    let words = ["secret KEY is not put into header origin", "--secret-header KEY:origin"];
    ensure!(words.iter().all(|words| refused.contains(words)), "{refused}");
    // More by name.
    rules.push("--secret-header=KEY:Origin".into());
    assert_eq!(inside(caller, &rules, &line)?.success()?, spelled(VALUE));
    let none = caller.paddock(["run", "--secret-header=OTHER:x", "--", "true"])?.finish()?;
    none.refused(&["OTHER", "--secret"])?;
    // In a policy file, and by the API.
    let policy = format!(
        "[secrets.KEY]\nfrom = \"env:KEY\"\nhosts = [\"web.test:{0}\"]\nheaders = [\"origin\"]\n[net]\nallow = [\"127.0.0.1:{0}\"]\n",
        outside.tls
    );
    let file = caller.file("policy.toml", policy)?.display().to_string();
    assert_eq!(inside(caller, &["--policy".into(), file], &line)?.success()?, spelled(VALUE));
    let server = Server::start(caller)?;
    let body = |headers: serde_json::Value| {
        json!({ "network": { "allow": [format!("127.0.0.1:{}", outside.tls)] }, "secrets": { "KEY": {
            "value": VALUE, "hosts": [format!("web.test:{}", outside.tls)], "headers": headers } } })
    };
    let made = server.ask("POST", "/v1/sandboxes", Some(&body(json!(["origin"]))))?.json()?;
    let id = made["id"].as_str().context("an id")?;
    assert_eq!(server.script(id, &line)?.success()?, spelled(VALUE));
    let wrong = server.ask("POST", "/v1/sandboxes", Some(&body(json!(["a b"]))))?;
    ensure!(wrong.status == 400 && wrong.text().contains("a b"), "{}", wrong.text());
    Ok(())
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

pub fn a_sandbox_keeps_its_secrets_and_shows_them_to_nobody(caller: &Caller) -> Result<()> {
    let outside = Outside::start(caller)?;
    let mut server = Server::start(caller)?;
    let id = create(&server, &flags(&outside))?;
    let right = spelled(&format!("Bearer {VALUE}"));
    let works = |server: &Server, id: &str| -> Result<()> {
        assert_eq!(server.script(id, &ask(&outside, "spelled"))?.success()?, right);
        Ok(())
    };
    works(&server, &id)?;
    assert_eq!(server.run(["diff", &id])?.success()?, "nothing was changed\n", "its certificates are");
    server.kill()?;
    server.start_again()?;
    works(&server, &id)?;
    server.run(["hibernate", &id])?.success()?;
    works(&server, &id)?;
    let shown = server.run(["inspect", &id])?.json()?;
    assert_eq!(shown["secrets"], json!({ "KEY": [format!("web.test:{}", outside.tls)] }));
    // Other rules, and the host that it is bound to is still reached.
    server.run(["update", &id, &format!("--allow-net=127.0.0.1:{}", outside.tls)])?.success()?;
    works(&server, &id)?;
    let audit = server.run(["audit", "show", &id])?.success()?;
    ensure!(audit.contains("KEY") && !audit.contains(VALUE), "{audit}");
    ensure!(!server.run(["inspect", &id])?.success()?.contains(VALUE), "shown");
    // The same request once more, by its key, is the same sandbox; with another value it is another request.
    let body =
        |value: &str| json!({ "secrets": { "KEY": { "value": value, "hosts": ["web.test"] } } }).to_string();
    let create = |value: &str| {
        let headers = "Content-Type: application/json\r\nIdempotency-Key: once\r\n";
        server.send("POST", "/v1/sandboxes", headers, body(value).as_bytes())
    };
    let (first, second) = (create(VALUE)?.json()?, create(VALUE)?.json()?);
    assert_eq!(first["id"], second["id"]);
    assert_eq!(create("another-value")?.status, 409);
    ensure!(!holds(&caller.state(), VALUE)?, "the value lies on the disk");
    // A control of the search: a value that is not secret is found.
    ensure!(holds(&caller.state(), &id)?, "the search finds nothing at all");
    Ok(())
}

pub fn a_fork_has_none_unless_it_is_asked_for(caller: &Caller) -> Result<()> {
    let outside = Outside::start(caller)?;
    let server = Server::start(caller)?;
    let id = create(&server, &flags(&outside))?;
    let fork = |options: &[&str]| -> Result<String> {
        let arguments = ["fork", &id].into_iter().chain(options.iter().copied());
        Ok(server.run(arguments)?.success()?.trim().to_string())
    };
    let without = fork(&[])?;
    let said = server.script(&without, "env; echo [$KEY]")?.success()?;
    ensure!(said.contains("[]") && !said.contains("paddock-secret-") && !said.contains("CERT"), "{said}");
    assert_eq!(server.run(["inspect", &without])?.json()?["secrets"], serde_json::Value::Null);
    // Its parent's placeholder is worth nothing to it, and TLS is its own again.
    let place = server.script(&id, "printf %s $KEY")?.success()?;
    let line = format!(
        "printf '%s' '{}' > /tmp/ca; curl -sS --cacert /tmp/ca -H 'Authorization: {place}' https://web.test:{}/spelled",
        outside.certificate, outside.tls
    );
    assert_eq!(server.script(&without, &line)?.success()?, spelled(&place));
    let with = fork(&["--secrets"])?;
    assert_eq!(
        server.script(&with, &ask(&outside, "spelled"))?.success()?,
        spelled(&format!("Bearer {VALUE}"))
    );
    let snapshot = server.run(["snapshot", "create", &id])?.success()?;
    let made = server.create(&["--snapshot", snapshot.trim()])?;
    assert_eq!(server.script(&made, "echo [$KEY]")?.success()?, "[]\n");
    Ok(())
}

fn methods_are_held_for_bound_hosts(caller: &Caller) -> Result<()> {
    let outside = Outside::start(caller)?;
    let mut rules = flags(&outside).to_vec();
    rules.push("--net-method=GET".into());
    assert_eq!(
        inside(caller, &rules, &ask(&outside, "spelled"))?.success()?,
        spelled(&format!("Bearer {VALUE}"))
    );
    let posted = inside(caller, &rules, &format!("{} -d x=1", ask(&outside, "spelled")))?;
    ensure!(posted.out().contains("method POST is not allowed"), "{posted:?}");
    Ok(())
}

fn a_pool_of_a_template_with_secrets(caller: &Caller) -> Result<()> {
    let outside = Outside::start(caller)?;
    let file = caller.file("key", format!("{VALUE}\n"))?;
    let [_, address] = flags(&outside);
    let secret = format!("--secret=KEY@web.test:{}=file:{}", outside.tls, file.display());
    caller.paddock(["template", "add", "keyed", &secret, &address])?.finish()?.success()?;
    let server = Server::start(caller)?;
    crate::pools::set(&server, "keyed", 1, 2)?;
    crate::pools::filled(&server, "keyed", 1)?;
    let id = server.create(&["--template", "keyed"])?;
    assert_eq!(crate::pools::pool(&server, "keyed")?["hits"], 1);
    let right = spelled(&format!("Bearer {VALUE}"));
    assert_eq!(server.script(&id, &ask(&outside, "spelled"))?.success()?, right);
    assert_eq!(server.run(["diff", &id])?.success()?, "nothing was changed\n", "its certificates are");
    // The interpreter that was there before has them too.
    let place = crate::contexts::Place { server, id };
    let code = format!(
        "import os, urllib.request as u; u.urlopen(u.Request('https://web.test:{}/spelled', headers={{'Authorization': 'Bearer ' + os.environ['KEY']}})).read().decode()",
        outside.tls
    );
    ensure!(place.value(&code)?.contains(right.trim()), "{}", place.value(&code)?);
    Ok(())
}

fn a_header_that_the_gate_sets_comes_and_goes(caller: &Caller) -> Result<()> {
    let outside = Outside::start(caller)?;
    let server = Server::start(caller)?;
    let [secret, address] = flags(&outside);
    let host = format!("--allow-net=web.test:{}", outside.tls);
    let id = create(&server, &[host.clone(), address.clone()])?;
    let update = |flags: &[&str]| {
        let arguments = ["update", &id].into_iter().chain(flags.iter().copied());
        server.paddock(arguments)?.environment("KEY", VALUE).finish()
    };
    let seen = || {
        let line = format!("curl -sSk https://web.test:{}/spelled", outside.tls);
        server.script(&id, &line)?.success()
    };
    let right = spelled(&format!("Bearer {VALUE}"));
    ensure!(seen()? != right, "there is no secret yet");
    let header = "--secret-inject=KEY:Authorization=Bearer {}";
    update(&[&secret, header, &address])?.success()?;
    assert_eq!(seen()?, right);
    // Beside the network rules, and with a header for the gate to set.
    for (flags, words) in [
        (&[secret.as_str(), header][..], "network rules"),
        (&["--forget-secret=KEY"], "network rules"),
        (&[secret.as_str(), address.as_str()], "placeholder"),
        (&["--secret-inject=OTHER:X={}", address.as_str()], "OTHER"),
    ] {
        let refused = update(flags)?;
        ensure!(refused.code != 0 && refused.err().contains(words), "{flags:?}: {refused:?}");
        ensure!(!refused.err().contains(VALUE), "{refused:?}");
    }
    assert_eq!(seen()?, right, "what is refused changes nothing");
    update(&["--forget-secret=KEY", &host, &address])?.success()?;
    ensure!(seen()? != right, "it was taken away");
    Ok(())
}

fn bad_secrets_are_refused_without_their_value(caller: &Caller) -> Result<()> {
    let run =
        |flag: &str| caller.paddock(["run", flag, "--", "true"])?.environment("KEY", "real-value").finish();
    for (flag, words) in [
        ("--secret=KEY@10.0.0.1", &["10.0.0.1", "no name"][..]),
        ("--secret=KEY@https://web.test", &["https://web.test"]),
        ("--secret=NONE@web.test", &["NONE", "no variable"]),
        ("--secret=PATH@web.test", &["PATH", "set already"]),
        ("--secret=KEY@web.test=file:/no/such", &["/no/such"]),
        ("--secret=KEY@web.test=real-value", &["NAME@HOST"]),
    ] {
        let finished = run(flag)?;
        // The author of the command line sees it there; our message does not repeat it.
        ensure!(!finished.err().contains("real-value") || flag.contains("=real-value"), "{finished:?}");
        finished.refused(words)?;
    }
    let both = caller.paddock(["run", "--net=none", "--secret=KEY@web.test", "--", "true"])?;
    both.environment("KEY", "real-value").finish()?.refused(&["secrets need the gate"])?;
    let short = caller.paddock(["run", "--secret=KEY@web.test", "--", "true"])?;
    short.environment("KEY", "short").finish()?.refused(&["KEY", "5 bytes"])
}

fn tenants_read_nothing_of_the_server(caller: &Caller) -> Result<()> {
    let server = Server::start_with(caller, &["--listen", "127.0.0.1:0"])?;
    let token = server.run(["token", "create", "--tenant", "team", "--role", "user"])?.success()?;
    let url = server.url()?;
    for from in ["env:HOME", "file:/etc/passwd"] {
        let body = json!({ "secrets": { "KEY": { "from": from, "hosts": ["web.test"] } } }).to_string();
        let said = std::process::Command::new("curl")
            .args(["-sS", "-X", "POST", "-H", "Content-Type: application/json", "-d", &body])
            .args(["-H", &format!("Authorization: Bearer {}", token.trim())])
            .arg(format!("{url}/v1/sandboxes"))
            .output()?;
        let said = String::from_utf8_lossy(&said.stdout).to_string();
        ensure!(said.contains("forbidden") && said.contains("secrets.from"), "{said}");
    }
    Ok(())
}
