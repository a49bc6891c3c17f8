//! A network that inspects TLS, for which the server outside stands: its authority is known to the host alone. Clients inside refuse
//! it, and trust it with `--host-certs`.

use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, Finished, Outside, Server, for_both_callers};
use serde_json::{Value, json};

for_both_callers!(
    clients_inside_trust_what_the_host_trusts,
    each_variable_of_the_host_counts,
    a_sandbox_keeps_them,
    together_with_secrets,
    pools_give_them_to_whoever_asked,
    jobs_and_scripts_have_them,
    what_cannot_be_read_is_named,
);

/// The server outside, whose authority lies in a file that only variables name.
pub fn inspected(caller: &Caller) -> Result<(Outside, String)> {
    let outside = Outside::start(caller)?;
    std::fs::remove_file(caller.state().join("net/roots.pem"))?;
    let file = caller.file("network.pem", &outside.certificate)?.display().to_string();
    Ok((outside, file))
}

fn inside(caller: &Caller, flags: &[String], variable: (&str, &str), line: &str) -> Result<Finished> {
    let arguments = flags.iter().map(String::as_str).chain(["--", "sh", "-c", line]);
    let run = caller.paddock(["run"].into_iter().chain(arguments))?;
    run.environment(variable.0, variable.1).finish()
}

fn with_certificates(rules: &[String]) -> Vec<String> {
    rules.iter().cloned().chain(["--host-certs".to_string()]).collect()
}

fn curl(outside: &Outside) -> String {
    format!("curl -sS https://web.test:{}/hello", outside.tls)
}

pub fn clients_inside_trust_what_the_host_trusts(caller: &Caller) -> Result<()> {
    let (outside, file) = inspected(caller)?;
    let tls = outside.tls;
    let rules = outside.rules(&["web.test", "pypi.test", "npm.test", "git.test"]);
    let certified = with_certificates(&rules);
    for (client, line, said, refusal) in [
        ("curl", curl(&outside), "hello\n", "certificate"),
        (
            "python",
            format!(
                "python3 -c 'import urllib.request as u; print(u.urlopen(\"https://web.test:{tls}/hello\").read().decode(), end=\"\")'"
            ),
            "hello\n",
            "CERTIFICATE_VERIFY_FAILED",
        ),
        (
            "node",
            format!(
                "node -e 'require(\"https\").get(\"https://web.test:{tls}/hello\", r => r.pipe(process.stdout)).on(\"error\", e => {{ console.error(e.code); process.exit(1) }})'"
            ),
            "hello\n",
            "UNABLE_TO_",
        ),
        (
            "pip",
            format!(
                "cd /tmp && export HOME=/tmp && pip install --no-cache-dir --disable-pip-version-check --retries 0 --target lib \
                 -i https://pypi.test:{tls}/simple paddocktest >&2 && PYTHONPATH=lib python3 -c 'import paddocktest; print(paddocktest.value)'"
            ),
            "42\n",
            "certificate verify failed",
        ),
        (
            "npm",
            format!(
                "cd /tmp && export HOME=/tmp && npm install --no-audit --no-fund --fetch-retries=0 --registry https://npm.test:{tls}/ \
                 paddocktest >/dev/null && node -e 'console.log(require(\"paddocktest\"))'"
            ),
            "42\n",
            "UNABLE_TO_",
        ),
        (
            "git",
            format!("cd /tmp && git clone -q https://git.test:{tls}/repo/.git clone && cat clone/file"),
            "content\n",
            "certificate",
        ),
    ] {
        let refused = inside(caller, &rules, ("SSL_CERT_FILE", &file), &line)?;
        ensure!(refused.code != 0 && refused.err().contains(refusal), "{client}: {refused:?}");
        let trusted = inside(caller, &certified, ("SSL_CERT_FILE", &file), &line)?;
        assert_eq!(trusted.success().context(client)?, said, "{client}");
    }
    // A variable of the command itself goes before.
    let mut own = certified.clone();
    own.push("--env=SSL_CERT_FILE=/mine".into());
    let said =
        inside(caller, &own, ("SSL_CERT_FILE", &file), "echo $SSL_CERT_FILE; echo $PIP_CERT")?.success()?;
    assert_eq!(said, "/mine\n/tmp/.paddock/certificates.pem\n");
    Ok(())
}

/// An authority that is known only to one program of the host is brought along, beside those of the store.
fn each_variable_of_the_host_counts(caller: &Caller) -> Result<()> {
    let (outside, file) = inspected(caller)?;
    let rules = with_certificates(&outside.rules(&["web.test"]));
    let line = format!("{}; grep -c BEGIN $SSL_CERT_FILE", curl(&outside));
    for variable in ["NODE_EXTRA_CA_CERTS", "PIP_CERT", "REQUESTS_CA_BUNDLE"] {
        let said = inside(caller, &rules, (variable, &file), &line)?.success()?;
        let count = said.strip_prefix("hello\n").context(said.clone())?.trim().parse::<usize>()?;
        ensure!(count > 1, "{variable}: the host's own are missing: {said}");
    }
    let said = inside(caller, &rules, ("SSL_CERT_FILE", &file), &line)?.success()?;
    assert_eq!(said, "hello\n1\n", "it takes the place of the store");
    // The owner's own, of the state directory; and by the variable in place of the flag.
    let roots = caller.state().join("net/roots.pem");
    std::fs::write(&roots, &outside.certificate)?;
    caller.own(&roots)?;
    let rules = outside.rules(&["web.test"]);
    let said = inside(caller, &rules, ("PADDOCK_HOST_CERTS", "1"), &curl(&outside))?;
    assert_eq!(said.success()?, "hello\n");
    let refused = inside(caller, &rules, ("PADDOCK_HOST_CERTS", "0"), &curl(&outside))?;
    ensure!(refused.code != 0, "{refused:?}");
    Ok(())
}

fn certified_server<'a>(caller: &'a Caller, file: &str) -> Result<Server<'a>> {
    Server::start_in(caller, &[("NODE_EXTRA_CA_CERTS", file.to_string().leak())])
}

fn request(outside: &Outside, host_certs: Option<bool>) -> Value {
    let allow = [format!("web.test:{}", outside.tls), format!("127.0.0.1:{}", outside.tls)];
    json!({ "network": { "allow": allow }, "host_certs": host_certs })
}

fn made(server: &Server, body: &Value) -> Result<String> {
    let answer = server.ask("POST", "/v1/sandboxes", Some(body))?;
    ensure!(answer.status == 201, "{}", answer.text());
    Ok(answer.json()?["id"].as_str().context("an id")?.to_string())
}

pub fn a_sandbox_keeps_them(caller: &Caller) -> Result<()> {
    let (outside, file) = inspected(caller)?;
    let mut server = certified_server(caller, &file)?;
    let line = curl(&outside);
    let trusts = |server: &Server, id: &str| -> Result<()> {
        assert_eq!(server.script(id, &line)?.success()?, "hello\n");
        Ok(())
    };
    let plain = made(&server, &request(&outside, None))?;
    ensure!(server.script(&plain, &line)?.code != 0, "it trusts what nobody told it to");
    assert_eq!(server.run(["inspect", &plain])?.json()?["host_certs"], false);
    let id = made(&server, &request(&outside, Some(true)))?;
    trusts(&server, &id)?;
    assert_eq!(server.run(["inspect", &id])?.json()?["host_certs"], true);
    assert_eq!(server.run(["diff", &id])?.success()?, "nothing was changed\n", "its certificates are");
    server.kill()?;
    server.start_again()?;
    trusts(&server, &id)?;
    server.script(&id, "rm -f /tmp/.paddock/certificates.pem")?.success()?;
    server.run(["hibernate", &id])?.success()?;
    trusts(&server, &id)?;
    let fork = server.run(["fork", &id])?.success()?.trim().to_string();
    trusts(&server, &fork)?;
    assert_eq!(server.run(["inspect", &fork])?.json()?["host_certs"], true);
    let snapshot = server.run(["snapshot", "create", &plain])?.success()?.trim().to_string();
    let mut from_snapshot = request(&outside, Some(true));
    from_snapshot["snapshot"] = json!(snapshot);
    trusts(&server, &made(&server, &from_snapshot)?)?;
    // Other variables take nothing away, and other rules neither.
    let changed =
        server.ask("PATCH", &format!("/v1/sandboxes/{id}"), Some(&json!({ "env": { "A": "1" } })))?;
    ensure!(changed.status == 200, "{}", changed.text());
    trusts(&server, &id)?;
    let flags: Vec<String> = with_certificates(&outside.rules(&["web.test"]));
    let by_flag = server.create(&flags.iter().map(String::as_str).collect::<Vec<_>>())?;
    trusts(&server, &by_flag)
}

/// The gate ends TLS for the host of the secret, and has to trust the network's authority itself; other hosts are the
/// clients' to trust.
pub fn together_with_secrets(caller: &Caller) -> Result<()> {
    let (outside, file) = inspected(caller)?;
    let tls = outside.tls;
    let mut flags = vec![format!("--secret=KEY@web.test:{tls}")];
    flags.extend(outside.rules(&["other.test"]));
    let line = format!(
        "curl -sS -H \"Authorization: $KEY\" https://web.test:{tls}/spelled; curl -sS https://other.test:{tls}/hello"
    );
    let run = |flags: &[String]| {
        let arguments = flags.iter().map(String::as_str).chain(["--", "sh", "-c", &line]);
        let run = caller.paddock(["run"].into_iter().chain(arguments))?;
        run.environment("KEY", "the-real-value").environment("PIP_CERT", &file).finish()
    };
    ensure!(run(&flags)?.code != 0, "nobody told it of the authority");
    let spelled: Vec<String> = "the-real-value".chars().map(String::from).collect();
    let said = run(&with_certificates(&flags))?.success()?;
    assert_eq!(said, format!("{}\nhello\n", spelled.join(".")));
    // A fork without the secret has the host's certificates still.
    let server = certified_server(caller, &file)?;
    let mut body = request(&outside, Some(true));
    body["secrets"] = json!({ "KEY": { "value": "the-real-value", "hosts": [format!("web.test:{tls}")] } });
    let id = made(&server, &body)?;
    let asked = format!("curl -sS -H \"Authorization: $KEY\" https://web.test:{tls}/spelled");
    assert_eq!(server.script(&id, &asked)?.success()?, format!("{}\n", spelled.join(".")));
    let fork = server.run(["fork", &id])?.success()?.trim().to_string();
    assert_eq!(server.script(&fork, &format!("{}; echo [$KEY]", curl(&outside)))?.success()?, "hello\n[]\n");
    Ok(())
}

fn pools_give_them_to_whoever_asked(caller: &Caller) -> Result<()> {
    let (outside, file) = inspected(caller)?;
    let allow = outside.rules(&["web.test"]);
    let add = |name: &str, more: &[&str]| {
        let flags = allow.iter().map(String::as_str).chain(more.iter().copied());
        caller.paddock(["template", "add", name].into_iter().chain(flags))?.finish()?.success()
    };
    add("plain", &[])?;
    add("certified", &["--host-certs"])?;
    let server = certified_server(caller, &file)?;
    for template in ["plain", "certified"] {
        crate::pools::set(&server, template, 1, 2)?;
        crate::pools::filled(&server, template, 1)?;
    }
    let create = |template: &str, host_certs: Option<bool>| {
        let id = made(&server, &json!({ "template": template, "host_certs": host_certs }))?;
        Ok::<_, anyhow::Error>((server.script(&id, &curl(&outside))?.code == 0, id))
    };
    // A ready sandbox without them gets them on its way.
    let (trusts, id) = create("plain", Some(true))?;
    ensure!(trusts && crate::pools::pool(&server, "plain")?["hits"] == 1, "it was made anew");
    assert_eq!(server.run(["diff", &id])?.success()?, "nothing was changed\n");
    ensure!(!create("plain", None)?.0, "it trusts what nobody told it to");
    let (trusts, id) = create("certified", None)?;
    ensure!(trusts && crate::pools::pool(&server, "certified")?["hits"] == 1, "it was made anew");
    let (trusts, without) = create("certified", Some(false))?;
    ensure!(!trusts, "it trusts although it was told not to");
    assert_eq!(server.run(["inspect", &without])?.json()?["host_certs"], false);
    // The interpreter that was there before has them too.
    let place = crate::contexts::Place { server, id };
    let code = format!(
        "import urllib.request as u; u.urlopen('https://web.test:{}/hello').read().decode()",
        outside.tls
    );
    ensure!(place.value(&code)?.contains("hello"), "{}", place.value(&code)?);
    Ok(())
}

fn jobs_and_scripts_have_them(caller: &Caller) -> Result<()> {
    let (outside, file) = inspected(caller)?;
    let server = certified_server(caller, &file)?;
    let (tls, url) = (outside.tls, format!("https://web.test:{}/hello", outside.tls));
    let job = format!(
        "command = [\"curl\", \"-sS\", \"{url}\"]\n[policy.network]\nallow = [\"web.test:{tls}\", \"127.0.0.1:{tls}\"]\n"
    );
    let job = caller.file("job.toml", job)?.display().to_string();
    ensure!(server.run(["job", "run", &job])?.code != 0, "it trusts what nobody told it to");
    assert_eq!(server.run(["job", "run", "--host-certs", &job])?.success()?, "hello\n");
    let script = format!(
        "# sandbox\n# net: web.test:{tls}\n\nimport urllib.request as u\ndef main():\n    return u.urlopen('{url}').read().decode()\n"
    );
    let script = caller.file("ask.py", script)?.display().to_string();
    let address = format!("--allow-net=127.0.0.1:{tls}");
    let named = format!("--allow-net=web.test:{tls}");
    let run = |more: &[&str]| {
        let words =
            ["script", "run", &address, &named].into_iter().chain(more.iter().copied()).chain([&*script]);
        server.run(words)
    };
    let refused = run(&[])?;
    ensure!(refused.code != 0 && refused.err().contains("CERTIFICATE_VERIFY_FAILED"), "{refused:?}");
    assert_eq!(run(&["--host-certs"])?.success()?, "\"hello\\n\"\n");
    Ok(())
}

fn what_cannot_be_read_is_named(caller: &Caller) -> Result<()> {
    let run = |variable: &str, value: &str| {
        let run = caller.paddock(["run", "--host-certs", "--", "true"])?;
        run.environment(variable, value).finish()
    };
    run("PIP_CERT", "/no/such.pem")?.refused(&["PIP_CERT", "/no/such.pem", "no such file"])?;
    let empty = caller.file("empty.pem", "")?.display().to_string();
    run("NODE_EXTRA_CA_CERTS", &empty)?.refused(&["NODE_EXTRA_CA_CERTS", "no certificate in it"])?;
    let nothing = caller.directory("nothing")?.display().to_string();
    run("SSL_CERT_DIR", &nothing)?.refused(&["no certificates", "SSL_CERT_FILE"])?;
    let word = caller.paddock(["run", "--", "true"])?.environment("PADDOCK_HOST_CERTS", "maybe").finish()?;
    word.refused(&["PADDOCK_HOST_CERTS", "maybe"])?;
    let shown = caller.paddock(["run", "--host-certs", "--explain", "--", "true"])?.finish()?.success()?;
    ensure!(shown.contains("those that the host believes"), "{shown}");
    let server = Server::start_in(caller, &[("PIP_CERT", "/no/such.pem")])?;
    let refused = server.ask("POST", "/v1/sandboxes", Some(&json!({ "host_certs": true })))?;
    let error = refused.json()?;
    assert_eq!((refused.status, &error["code"]), (422, &json!("host_certs_unusable")), "{error}");
    let text = error.to_string();
    ensure!(["PIP_CERT", "/no/such.pem"].iter().all(|word| text.contains(word)), "{text}");
    ensure!(error["hint"].is_string(), "{text}");
    assert_eq!(server.ask("GET", "/v1/sandboxes", None)?.json()?["sandboxes"], json!([]));
    Ok(())
}
