//! Network rules: the hosts that real programs reach through the gate, and those that they do not.

use crate::contexts::Place;
use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, Outside, PATIENCE, Server, for_both_callers, until};
use serde_json::json;

for_both_callers!(
    programs_work_unchanged_for_allowed_names,
    every_other_way_is_refused,
    the_host_and_other_sandboxes_are_out_of_reach,
    a_run_says_what_was_refused_and_how_to_allow_it,
    what_a_run_needs_is_learnt,
    a_policy_file_and_a_preset_have_rules_too,
    bad_rules_are_refused_with_their_value,
    rules_change_while_a_sandbox_lives,
    a_gate_comes_back_with_the_next_server,
    nothing_leaves_while_there_is_no_gate,
    a_limit_of_bytes_is_for_life,
    tenants_reach_nothing_of_the_host,
    a_pool_of_a_template_with_rules,
);

/// A shell's line inside, with these rules.
fn inside(caller: &Caller, rules: &[String], line: &str) -> Result<paddock_e2e::Finished> {
    let mut arguments: Vec<&str> = rules.iter().map(String::as_str).collect();
    arguments.extend(["--", "sh", "-c", line]);
    caller.run(arguments)
}

pub fn programs_work_unchanged_for_allowed_names(caller: &Caller) -> Result<()> {
    let outside = Outside::start(caller)?;
    let rules = outside.rules(&["web.test", "pypi.test", "npm.test", "git.test", "deb.test"]);
    let (tls, clear) = (outside.tls, outside.clear);
    let setup = format!("cat > /tmp/ca.pem <<'E'\n{}E\nexport HOME=/tmp; cd /tmp;", outside.certificate);
    for (program, line, said) in [
        ("curl", format!("curl -sS --cacert ca.pem https://web.test:{tls}/hello"), "hello\n"),
        ("curl, no proxy", format!("curl -sS --noproxy '*' --cacert ca.pem https://web.test:{tls}/hello"), "hello\n"),
        ("curl, version 6", format!("curl -sS -6 --noproxy '*' http://web.test:{clear}/hello"), "hello\n"),
        ("curl, socks", format!("curl -sS -x socks5h://127.0.0.1:3128 http://web.test:{clear}/hello"), "hello\n"),
        (
            "pip",
            format!(
                "pip install -q --no-cache-dir --disable-pip-version-check --cert ca.pem --target lib \
                 -i https://pypi.test:{tls}/simple paddocktest 2>&1 && PYTHONPATH=lib python3 -c 'import paddocktest; print(paddocktest.value)'"
            ),
            "42\n",
        ),
        (
            "npm",
            format!(
                "npm install --silent --no-audit --no-fund --cafile ca.pem --registry https://npm.test:{tls}/ paddocktest \
                 >/dev/null && node -e 'console.log(require(\"paddocktest\"))'"
            ),
            "42\n",
        ),
        (
            "git",
            format!("git -c http.sslCAInfo=ca.pem clone -q https://git.test:{tls}/repo/.git clone && cat clone/file"),
            "content\n",
        ),
        (
            "apt",
            format!(
                "mkdir -p s/lists/partial c/archives/partial e && touch s/status
echo 'deb [trusted=yes] https://deb.test:{tls}/deb ./' > e/sources.list
apt() {{ apt-get -qq -o Dir::State=/tmp/s -o Dir::State::status=/tmp/s/status -o Dir::Cache=/tmp/c -o Dir::Etc=/tmp/e \
    -o Acquire::https::CAInfo=/tmp/ca.pem \"$@\" > log 2>&1 || cat log; }}
apt update; apt download paddocktest; dpkg-deb -f paddocktest_1.0_all.deb Version"
            ),
            "1.0\n",
        ),
        (
            "node's fetch",
            format!(
                "NODE_EXTRA_CA_CERTS=ca.pem node -e 'fetch(\"https://web.test:{tls}/hello\").then(r => r.text()).then(t => process.stdout.write(t))'"
            ),
            "hello\n",
        ),
        (
            "python's socket",
            format!(
                "python3 -c 'import socket, ssl
s = ssl.create_default_context(cafile=\"ca.pem\").wrap_socket(socket.create_connection((\"web.test\", {tls})), server_hostname=\"web.test\")
s.sendall(b\"GET /hello HTTP/1.0\\r\\n\\r\\n\")
print(b\"\".join(iter(lambda: s.recv(4096), b\"\")).decode().splitlines()[-1])'"
            ),
            "hello\n",
        ),
    ] {
        let finished = inside(caller, &rules, &format!("{setup} {line}"))?;
        assert_eq!(finished.success().context(program)?, said, "{program}");
    }
    Ok(())
}

pub fn every_other_way_is_refused(caller: &Caller) -> Result<()> {
    let outside = Outside::start(caller)?;
    let rules = outside.rules(&["web.test"]);
    let (tls, clear) = (outside.tls, outside.clear);
    // The control: the targets refused below are there for an allowed name.
    let control = inside(caller, &rules, &format!("curl -sS http://web.test:{clear}/hello"))?;
    assert_eq!(control.success()?, "hello\n");
    let python = |body: &str| format!("python3 -c '{body}'");
    for (what, line) in [
        ("another name", format!("curl -sS -f http://other.test:{clear}/hello")),
        ("another name, no proxy", format!("curl -sS -f --noproxy '*' http://other.test:{clear}/hello")),
        ("another name, CONNECT", format!("curl -sS -k https://other.test:{tls}/hello")),
        (
            "another name, SOCKS",
            format!("curl -sS -x socks5h://127.0.0.1:3128 http://other.test:{clear}/hello"),
        ),
        ("another port", "curl -sS -f http://web.test:1/hello".to_string()),
        (
            "another name in TLS",
            format!(
                "echo | openssl s_client -connect web.test:{tls} -servername other.test 2>&1 | grep -q 'BEGIN CERT'"
            ),
        ),
        (
            "an address of the outside",
            format!("curl -sS -f --noproxy '*' --max-time 20 http://1.2.3.4:{clear}/"),
        ),
        (
            "the gate's own address",
            format!("curl -sS -f --noproxy '*' --max-time 20 http://10.0.2.2:{clear}/hello"),
        ),
        ("a metadata service", "curl -sS -f --max-time 20 http://169.254.169.254/".to_string()),
        (
            "UDP",
            python(
                "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(20); s.connect((\"1.1.1.1\", 443)); s.send(b\"x\"); s.recv(1)",
            ),
        ),
        (
            "ICMP",
            python(
                "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP).connect((\"1.1.1.1\", 0))",
            ),
        ),
        ("raw packets", python("import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 255)")),
        ("the link itself", python("import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)")),
        (
            "another route",
            "ip route add 1.2.3.4 dev lo || ip link set gate0 down || ip addr add 10.9.9.9/24 dev eth0"
                .to_string(),
        ),
    ] {
        let finished = inside(caller, &rules, &line)?;
        ensure!(finished.code != 0, "{what}: {finished:?}");
        ensure!(!finished.out().contains("hello\n"), "{what}: {finished:?}");
    }
    Ok(())
}

pub fn the_host_and_other_sandboxes_are_out_of_reach(caller: &Caller) -> Result<()> {
    let outside = Outside::start(caller)?;
    // Every name and every address is allowed, and yet nothing of this host: those are listed one by one.
    let open: Vec<String> =
        ["--allow-net=*:*", "--allow-net=0.0.0.0/0:*", "--allow-net=[::]/0:*"].map(String::from).into();
    for host in ["web.test", "evil.test", "127.0.0.1", "[::1]", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0"]
    {
        for options in
            ["", "-x http://127.0.0.1:3128", "-p -x http://127.0.0.1:3128", "-x socks5h://127.0.0.1:3128"]
        {
            let line = format!(
                "curl -sS -f --noproxy '' --max-time 20 {options} http://{host}:{}/hello",
                outside.clear
            );
            let finished = inside(caller, &open, &line)?;
            ensure!(
                finished.code != 0 && !finished.out().contains("hello"),
                "{host} {options}: {finished:?}"
            );
        }
    }
    // Two sandboxes have the same addresses, and neither reaches the other.
    let server = Server::start(caller)?;
    let options: Vec<&str> = open.iter().map(String::as_str).collect();
    let (one, other) = (server.create(&options)?, server.create(&options)?);
    let listen = "python3 -m http.server 8000 --bind 0.0.0.0 >/dev/null 2>&1 & sleep 1; curl -sS --noproxy '*' http://10.0.2.15:8000/ >/dev/null && echo there";
    assert_eq!(server.script(&one, listen)?.success()?, "there\n");
    let reach = server.script(&other, "curl -sS -f --noproxy '*' --max-time 20 http://10.0.2.15:8000/")?;
    ensure!(reach.code != 0, "{reach:?}");
    Ok(())
}

pub fn a_run_says_what_was_refused_and_how_to_allow_it(caller: &Caller) -> Result<()> {
    let outside = Outside::start(caller)?;
    let mut arguments = outside.rules(&["web.test"]);
    let finished =
        inside(caller, &arguments, &format!("curl -sS http://other.test:{}/hello", outside.clear))?;
    let place = format!("other.test:{}", outside.clear);
    let advice = format!(
        "paddock: network: {place} was refused: no rule allows it; to allow it: --allow-net {place}\n"
    );
    ensure!(finished.err().contains(&advice), "{finished:?}");
    arguments.insert(0, "--json".into());
    let report =
        inside(caller, &arguments, &format!("curl -sS http://other.test:{}/hello", outside.clear))?.json()?;
    assert_eq!(report["guarantees"]["network"], "gate", "{report}");
    assert_eq!(report["network"][0]["verdict"], "denied", "{report}");
    Ok(())
}

pub fn what_a_run_needs_is_learnt(caller: &Caller) -> Result<()> {
    let outside = Outside::start(caller)?;
    let line = format!("curl -sS -f http://web.test:{}/hello", outside.clear);
    let address = format!("--allow-net=127.0.0.1:{}", outside.clear);
    let denied = inside(caller, &["--net-mode=learn-deny".into(), address.clone()], &line)?;
    ensure!(
        denied.code != 0 && denied.err().contains(&format!("\"web.test:{}\"", outside.clear)),
        "{denied:?}"
    );
    let allowed = inside(caller, &["--net-mode=learn-allow".into(), address], &line)?;
    assert_eq!(allowed.success()?, "hello\n");
    // The output is a policy, and lets the same run through.
    let printed = allowed.err();
    let policy = printed.split_once("[net]").map(|(_, rest)| format!("[net]{rest}")).context("a policy")?;
    let file = caller.file("learnt.toml", policy)?;
    let finished = caller.run(["--policy", &file.display().to_string(), "--", "sh", "-c", &line])?;
    assert_eq!(finished.success()?, "hello\n");
    Ok(())
}

fn a_policy_file_and_a_preset_have_rules_too(caller: &Caller) -> Result<()> {
    let outside = Outside::start(caller)?;
    let port = outside.clear;
    let presets = caller.state().join("net/presets");
    std::fs::create_dir_all(&presets)?;
    std::fs::write(presets.join("ours.toml"), format!("allow = [\"web.test:{port}\"]\n"))?;
    caller.own_all(&caller.state())?;
    let policy = format!("[net]\nallow = [\"preset:ours\", \"127.0.0.1:{port}\"]\nmethods = [\"GET\"]\n");
    let file = caller.file("policy.toml", policy)?.display().to_string();
    let run = |line: &str| caller.run(["--policy", &file, "--", "sh", "-c", line]);
    assert_eq!(run(&format!("curl -sS http://web.test:{port}/hello"))?.success()?, "hello\n");
    let posted = run(&format!("curl -sS -d x=1 http://web.test:{port}/hello"))?;
    ensure!(posted.out().contains("method POST is not allowed"), "{posted:?}");
    let plain = run(&format!("curl -sS --noproxy '*' -d x=1 http://web.test:{port}/hello"))?;
    ensure!(plain.out().contains("method POST is not allowed"), "{plain:?}");
    Ok(())
}

fn bad_rules_are_refused_with_their_value(caller: &Caller) -> Result<()> {
    for (rule, words) in [
        ("--allow-net=https://web.test/", &["https://web.test/", "URL"][..]),
        ("--allow-net=web.test:99999", &["99999", "ports"]),
        ("--allow-net=10.1.2.3/24", &["10.1.2.3/24", "10.1.2.0/24"]),
        ("--allow-net=preset:nope", &["nope", "model-apis"]),
        ("--net-mode=learn", &["learn", "learn-deny"]),
        ("--net-rate=fast", &["fast"]),
    ] {
        caller.run([rule, "--", "true"])?.refused(words)?;
    }
    caller
        .run(["--allow-net=web.test", "--net-method=GET", "--", "true"])?
        .refused(&["web.test", "encrypted"])?;
    caller.run(["--net=host", "--allow-net=web.test", "--", "true"])?.refused(&["--net host"])
}

pub fn rules_change_while_a_sandbox_lives(caller: &Caller) -> Result<()> {
    let outside = Outside::start(caller)?;
    let server = Server::start(caller)?;
    let rules = outside.rules(&["web.test"]);
    let id = server.create(&rules.iter().map(String::as_str).collect::<Vec<_>>())?;
    let fetch =
        |name: &str| server.script(&id, &format!("curl -sS -f http://{name}:{}/hello", outside.clear));
    assert_eq!(fetch("web.test")?.success()?, "hello\n");
    ensure!(fetch("other.test")?.code != 0, "not yet");
    let mut update = vec!["update".to_string(), id.clone()];
    update.extend(outside.rules(&["other.test"]));
    server.run(&update)?.success()?;
    assert_eq!(fetch("other.test")?.success()?, "hello\n");
    ensure!(fetch("web.test")?.code != 0, "not any more");
    let shown = server.run(["net", &id])?.success()?;
    let denied = format!("denied   http     web.test:{}", outside.clear);
    ensure!(shown.contains(&denied) && shown.contains("to allow it: --allow-net web.test"), "{shown}");
    let audit = server.run(["audit", "show", &id])?.success()?;
    ensure!(audit.contains("\"verdict\":\"denied\"") && audit.contains("web.test"), "{audit}");
    server.run(["update", &id, "--net", "none"])?.success()?;
    ensure!(fetch("other.test")?.code != 0, "nothing leaves");
    // A sandbox that was made without rules has no link.
    let without = server.create(&[])?;
    let refused = server.run(["update", &without, "--allow-net", "web.test"])?;
    ensure!(refused.exited(1)?.err().contains("has no link"), "{refused:?}");
    Ok(())
}

fn a_pool_of_a_template_with_rules(caller: &Caller) -> Result<()> {
    let outside = Outside::start(caller)?;
    let mut add = vec!["template".to_string(), "add".into(), "fenced".into()];
    add.extend(outside.rules(&["web.test"]));
    caller.paddock(&add)?.finish()?.success()?;
    let server = Server::start(caller)?;
    crate::pools::set(&server, "fenced", 1, 2)?;
    crate::pools::filled(&server, "fenced", 1)?;
    let id = server.create(&["--template", "fenced"])?;
    assert_eq!(crate::pools::pool(&server, "fenced")?["hits"], 1);
    for options in ["", "--noproxy '*'"] {
        let line = format!("curl -sS {options} http://web.test:{}/hello", outside.clear);
        assert_eq!(server.script(&id, &line)?.success()?, "hello\n", "{options}");
        let other = format!("curl -sS -f {options} http://other.test:{}/hello", outside.clear);
        ensure!(server.script(&id, &other)?.code != 0, "{options}");
    }
    // The interpreter that was there before finds the proxy too.
    let code = format!(
        "import urllib.request; urllib.request.urlopen('http://web.test:{}/hello').read()",
        outside.clear
    );
    let place = Place { server, id };
    assert_eq!(place.value(&code)?, "b'hello\\n'");
    Ok(())
}

pub fn a_gate_comes_back_with_the_next_server(caller: &Caller) -> Result<()> {
    let outside = Outside::start(caller)?;
    let mut server = Server::start(caller)?;
    let rules = outside.rules(&["web.test"]);
    let id = server.create(&rules.iter().map(String::as_str).collect::<Vec<_>>())?;
    let port = outside.clear;
    server.kill()?;
    server.start_again()?;
    for options in ["", "--noproxy '*'"] {
        let line = format!("curl -sS {options} http://web.test:{port}/hello");
        assert_eq!(server.script(&id, &line)?.success()?, "hello\n", "{options}");
        let other = server.script(&id, &format!("curl -sS -f {options} http://other.test:{port}/hello"))?;
        ensure!(other.code != 0, "{options}: {other:?}");
    }
    server.run(["hibernate", &id])?.success()?;
    let woken = server.script(&id, &format!("curl -sS http://web.test:{port}/hello"))?;
    assert_eq!(woken.success()?, "hello\n");
    let fork = server.run(["fork", &id])?.success()?;
    let forked = server.script(fork.trim(), &format!("curl -sS http://web.test:{port}/hello"))?;
    assert_eq!(forked.success()?, "hello\n");
    Ok(())
}

/// A program that runs on without a server looks for the file `go` in its workspace, and tries every way then.
pub fn nothing_leaves_while_there_is_no_gate(caller: &Caller) -> Result<()> {
    let outside = Outside::start(caller)?;
    let mut server = Server::start(caller)?;
    let workspace = caller.directory("shared")?;
    let mut options = outside.rules(&["web.test"]);
    options.push(format!("--workspace={}", workspace.display()));
    let id = server.create(&options.iter().map(String::as_str).collect::<Vec<_>>())?;
    let ways = ["", "--noproxy '*'", "-6 --noproxy '*'", "-x socks5h://127.0.0.1:3128"];
    let tried = |way: &&str| format!("curl -sS --max-time 5 {way} http://web.test:{}/hello;", outside.clear);
    let all: String = ways.iter().map(tried).collect();
    // The control: with a gate each of them leads out.
    assert_eq!(server.script(&id, &all)?.success()?, "hello\n".repeat(ways.len()));
    let wait = "cd /workspace; touch ready; until [ -e go ]; do sleep 0.1; done;";
    let script = format!("{wait} {{ {all} }} > said 2>&1; touch done");
    server.run(["exec", "-d", &id, "--", "sh", "-c", &script])?.success()?;
    let there = |name: &str| until(PATIENCE, name, || workspace.join(name).exists().then_some(()));
    there("ready")?;
    server.kill()?;
    std::fs::write(workspace.join("go"), "")?;
    there("done")?;
    let said = std::fs::read_to_string(workspace.join("said"))?;
    ensure!(!said.contains("hello") && said.matches("curl: (").count() == ways.len(), "{said}");
    // And with the next one they do again.
    server.start_again()?;
    assert_eq!(server.script(&id, &all)?.success()?, "hello\n".repeat(ways.len()));
    Ok(())
}

pub fn a_limit_of_bytes_is_for_life(caller: &Caller) -> Result<()> {
    let outside = Outside::start(caller)?;
    let mut server = Server::start(caller)?;
    let mut rules = outside.rules(&["web.test"]);
    rules.push("--net-bytes=3000".into());
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    let line = format!("curl -sS -f http://web.test:{}/hello", outside.clear);
    let rest = |server: &Server, id: &str| -> Result<u32> {
        let mut passed = 0;
        while server.script(id, &line)?.code == 0 {
            passed += 1;
            ensure!(passed < 50, "there is no limit");
        }
        Ok(passed)
    };
    let (one, other) = (server.create(&rules)?, server.create(&rules)?);
    let all = rest(&server, &one)?;
    ensure!(all > 3, "the limit is for more than that: {all}");
    server.script(&other, &line)?.success()?;
    server.stop()?;
    server.start_again()?;
    server.script(&other, &line)?.success()?;
    server.run(["hibernate", &other])?.success()?;
    let passed = rest(&server, &other)? + 2;
    // The last one may be over the limit with its first byte or with its last.
    ensure!(passed.abs_diff(all) <= 1, "{passed} and not {all}");
    ensure!(server.run(["net", &other])?.success()?.contains("the limit of bytes is reached"), "told");
    Ok(())
}

fn tenants_reach_nothing_of_the_host(caller: &Caller) -> Result<()> {
    let server = Server::start_with(caller, &["--listen", "127.0.0.1:0"])?;
    let token = server.run(["token", "create", "--tenant", "team", "--role", "user"])?.success()?;
    let url = server.url()?;
    for rule in ["127.0.0.1:80", "10.0.0.0/8", "[fd00::]/8:443", "169.254.169.254"] {
        let body = json!({ "network": { "allow": [rule] } }).to_string();
        let line = format!(
            "curl -sS -X POST {url}/v1/sandboxes -H 'Authorization: Bearer {}' -H 'Content-Type: application/json' -d '{body}'",
            token.trim()
        );
        let answer = caller.shell(&caller.home(), &line)?.success()?;
        ensure!(answer.contains("forbidden") && answer.contains("only its owner"), "{rule}: {answer}");
    }
    Ok(())
}
