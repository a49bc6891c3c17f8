//! The server as the commands meet it: started by need, refused twice, killed, shared by tenants.

use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, PATIENCE, Server, for_both_callers, until};

for_both_callers!(
    a_second_server_of_one_state_is_refused,
    a_command_goes_on_when_the_server_is_killed,
    tokens_and_quotas,
    tenants_are_strangers,
    a_signed_url_ends_with_its_token,
    a_port_is_opened_by_a_right_to_it,
    a_server_without_an_address_has_no_right_to_a_port,
    sandboxes_outlive_a_killed_server,
    nobody_there_is_said,
);

fn a_second_server_of_one_state_is_refused(caller: &Caller) -> Result<()> {
    let _server = Server::start(caller)?;
    let socket = caller.home().join("second.sock").display().to_string();
    let finished = caller.paddock(["serve", "--socket", &socket])?.finish()?;
    ensure!(finished.exited(1)?.err().contains("\nerror: the sandboxes of this state"), "{}", finished.err());
    ensure!(finished.err().contains("uses the state directory"), "{}", finished.err());
    Ok(())
}

fn a_command_goes_on_when_the_server_is_killed(caller: &Caller) -> Result<()> {
    let mut server = Server::start(caller)?;
    let id = server.create(&[])?;
    let script = "for i in 1 2 3 4 5 6 7 8 9 10; do echo line $i; sleep 0.2; done; exit 5";
    let mut running = server.paddock(["exec", &id, "--", "sh", "-c", script])?.start()?;
    running.wait_for("line 2\n")?;
    server.kill()?;
    server.start_again()?;
    let finished = running.finish()?;
    let expected: String = (1..=10).map(|number| format!("line {number}\n")).collect();
    assert_eq!(finished.exited(5)?.out(), expected);
    Ok(())
}

fn tokens_and_quotas(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let created =
        server.run(["token", "create", "--tenant", "team", "--role", "read-only", "--json"])?.json()?;
    let (id, secret) = (created["id"].as_str().unwrap_or(""), created["secret"].as_str().unwrap_or(""));
    let listed = server.run(["token", "ls"])?.success()?;
    ensure!(listed.contains(id) && !listed.contains(secret) && !secret.is_empty(), "{listed}");
    server.run(["quota", "team", "--sandboxes", "3", "--memory", "1GiB"])?.success()?;
    let shown = server.run(["quota", "team", "--cpus", "2", "--json"])?.json()?;
    assert_eq!(
        (shown[0]["quota"]["live_sandboxes"].as_u64(), shown[0]["quota"]["cpus"].as_f64()),
        (Some(3), Some(2.0))
    );
    server.run(["quota", "team", "--cpus", "lots"])?.exited(1)?;
    assert_eq!(server.run(["token", "role", id, "user"])?.success()?, format!("{id}\n"));
    let listed = server.run(["token", "ls", "--json"])?.json()?;
    let found = listed.as_array().and_then(|all| all.iter().find(|token| token["id"] == id));
    ensure!(found.is_some_and(|token| token["role"] == "user"), "{listed}");
    server.run(["token", "revoke", id])?.success()?;
    ensure!(!server.run(["token", "ls"])?.success()?.contains(id), "it is still listed");
    let both = [(), ()].map(|()| server.run(["token", "create", "--tenant", "gone", "--json"]));
    let ended = server.run(["token", "revoke", "--tenant", "gone"])?.success()?;
    for made in both {
        let made = made?.json()?;
        let id = made["id"].as_str().context("no id")?;
        ensure!(ended.lines().any(|line| line == id), "{ended}");
    }
    Ok(())
}

fn tenants_are_strangers(caller: &Caller) -> Result<()> {
    let server = Server::start_with(caller, &["--listen", "127.0.0.1:0"])?;
    let url = server.url()?;
    let secret = |tenant: &str, role: &str| -> Result<String> {
        let made = server.run(["token", "create", "--tenant", tenant, "--role", role])?.success()?;
        Ok(made.trim().to_string())
    };
    let (one, two, reader) = (secret("one", "user")?, secret("two", "user")?, secret("one", "read-only")?);
    let with = |secret: &str, words: &[&str]| {
        let paddock = caller.paddock(words)?.environment("PADDOCK_URL", &url);
        paddock.environment("PADDOCK_TOKEN", secret).finish()
    };
    let id = with(&one, &["create", "--name", "same"])?.success()?.trim().to_string();
    let other = with(&two, &["create", "--name", "same"])?.success()?.trim().to_string();
    assert_eq!(with(&one, &["exec", "same", "--", "echo", "hello"])?.success()?, "hello\n");
    assert_eq!(with(&two, &["ps", "-a", "-q"])?.success()?, format!("{other}\n"));
    for words in [&["inspect", id.as_str()][..], &["kill", &id], &["audit", "show", &id], &["fork", &id]] {
        let refused = with(&two, words)?;
        ensure!(refused.exited(1)?.err().contains("there is no sandbox"), "{words:?}: {}", refused.err());
    }
    // Another tenant's sandbox gets the same answer as a missing one.
    let strange = with(&two, &["exec", &id, "--", "true"])?.err().replace(&id, "ID");
    let absent = with(&two, &["exec", "sb-0000000000000000", "--", "true"])?.err();
    assert_eq!(strange, absent.replace("sb-0000000000000000", "ID"));
    with(&reader, &["inspect", "same"])?.success()?;
    let refused = with(&reader, &["kill", "same"])?;
    ensure!(refused.exited(1)?.err().contains("read-only"), "{}", refused.err());
    for words in [&["quota", "one", "--unlimited"][..], &["token", "create"]] {
        with(&one, words)?.exited(1)?;
    }
    let refused = with(&one, &["create", "--workspace", "/"])?;
    ensure!(refused.exited(1)?.err().contains("owner of the host"), "{}", refused.err());
    let refused = caller.paddock(["ps"])?.environment("PADDOCK_URL", &url).finish()?;
    ensure!(refused.exited(1)?.err().contains("PADDOCK_TOKEN"), "{}", refused.err());
    // The host's owner sees all of them, and their tenants.
    let all = server.run(["ps"])?.success()?;
    ensure!(all.contains("TENANT") && all.contains(&id) && all.contains(&other), "{all}");
    let tokens = server.run(["token", "ls", "--json"])?.json()?;
    let mut ends = tokens.as_array().into_iter().flatten().filter(|token| token["tenant"] == "two");
    let token = ends.next().and_then(|token| token["id"].as_str()).unwrap_or("");
    server.run(["token", "revoke", token])?.success()?;
    with(&two, &["ps"])?.exited(1)?;
    Ok(())
}

/// Without any client: the work goes on, its output meanwhile is kept, and a paused sandbox stays so.
fn sandboxes_outlive_a_killed_server(caller: &Caller) -> Result<()> {
    let mut server = Server::start(caller)?;
    let (id, paused) = (server.create(&["--name", "works"])?, server.create(&[])?);
    server.script(&id, "echo before > /tmp/f")?.success()?;
    let script = "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.1; done; exit 6";
    let number = server.run(["exec", "-d", &id, "--", "sh", "-c", script])?.success()?;
    server.run(["pause", &paused])?.success()?;
    server.kill()?;
    std::thread::sleep(std::time::Duration::from_millis(300));
    server.start_again()?;
    assert_eq!(server.run(["logs", "-f", "works", number.trim()])?.out(), "1\n2\n3\n4\n5\n6\n7\n8\n");
    assert_eq!(server.script("works", "cat /tmp/f")?.success()?, "before\n");
    assert_eq!(server.run(["inspect", &paused])?.json()?["state"], "paused");
    server.run(["resume", &paused])?.success()?;
    assert_eq!(server.script(&paused, "echo again")?.success()?, "again\n");
    Ok(())
}

fn nobody_there_is_said(caller: &Caller) -> Result<()> {
    let finished =
        caller.paddock(["ps"])?.environment("PADDOCK_URL", "unix:/nonexistent/api.sock").finish()?;
    ensure!(
        finished.exited(1)?.err().contains("no server listens at unix:/nonexistent/api.sock"),
        "{}",
        finished.err()
    );
    let finished = caller.paddock(["ps"])?.environment("PADDOCK_URL", "nonsense").finish()?;
    ensure!(finished.exited(1)?.err().contains("PADDOCK_URL `nonsense`"), "{}", finished.err());
    Ok(())
}

/// Root's own socket is the host's, and not this test's: only an ordinary user has one of its own.
#[test]
fn a_server_is_started_by_need_and_shared() -> Result<()> {
    paddock_e2e::as_ordinary_user("a_server_is_started_by_need_and_shared", |caller| {
        let runtime = caller.directory("runtime")?.display().to_string();
        let paddock =
            |words: &[&str]| caller.paddock(words)?.environment("XDG_RUNTIME_DIR", &runtime).finish();
        let id = paddock(&["create"])?.success()?;
        assert_eq!(paddock(&["exec", id.trim(), "--", "echo", "hello"])?.success()?, "hello\n");
        assert_eq!(paddock(&["ps", "-q"])?.success()?, id);
        paddock(&["kill", "--all"])?.success()?;
        // It would end by itself when idle; the test does not wait for that. `[s]` keeps this shell from ending itself first.
        let socket = format!("{runtime}/paddock/api.sock");
        caller.shell(&caller.home(), &format!("for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline 2>/dev/null | grep -q '[s]erve.*{socket}' && kill ${{p#/proc/}}; done; true"))?;
        until(PATIENCE, "the end of the server", || {
            std::os::unix::net::UnixStream::connect(&socket).is_err().then_some(())
        })
    })
}

fn a_port_is_opened_by_a_right_to_it(caller: &Caller) -> Result<()> {
    let server = Server::start_with(caller, &["--listen", "127.0.0.1:0"])?;
    server.create(&["--name", "web"])?;
    let serve = "echo content > /tmp/page; cd /tmp && exec python3 -m http.server 8000";
    server.run(["exec", "-d", "web", "--", "sh", "-c", serve])?.success()?;
    let made = server.run(["port", "web", "8000", "--lasts", "10m", "--json"])?.json()?;
    let url = server.url()?;
    let text = |name: &str| made[name].as_str().unwrap_or_default().to_string();
    ensure!(text("url").starts_with(&url) && text("token").starts_with("pdp_"), "{made}");
    let curl = |address: &str| {
        let call = format!("curl -s -w '%{{http_code}}' '{address}'");
        caller.shell(&caller.home(), &call)?.success()
    };
    let page = text("url").replace("/?", "/page?");
    until(PATIENCE, "an answer from inside", || (curl(&page).ok()? == "content\n200").then_some(()))?;
    let printed = server.run(["port", "web", "8000"])?.success()?;
    ensure!(curl(printed.trim())?.ends_with("200"), "{printed}");
    ensure!(curl(&page.replace("/ports/8000/", "/ports/8001/"))?.ends_with("403"), "another port");
    ensure!(
        curl(&format!("{url}/v1/sandboxes?paddock_token={}", text("token")))?.ends_with("401"),
        "the API"
    );
    ensure!(
        server.run(["port", "web", "8000", "--lasts", "2d"])?.exited(1)?.err().contains("more than a day")
    );
    server.run(["port", "web", "0"])?.exited(2)?;
    server.run(["port", "none", "80"])?.exited(1)?;
    Ok(())
}

fn a_server_without_an_address_has_no_right_to_a_port(caller: &Caller) -> Result<()> {
    let silent = Server::start(caller)?;
    silent.create(&["--name", "web"])?;
    let refused = silent.run(["port", "web", "80"])?.exited(1)?.err();
    ensure!(refused.contains("listens on no address"), "{refused}");
    Ok(())
}

fn a_signed_url_ends_with_its_token(caller: &Caller) -> Result<()> {
    let mut server = Server::start_with(caller, &["--listen", "127.0.0.1:0"])?;
    let token = |server: &Server| {
        server.run(["token", "create", "--tenant", "team", "--role", "user", "--json"])?.json()
    };
    let (first, second) = (token(&server)?, token(&server)?);
    let curl = |server: &Server, secret: &str, options: &str, path: &str| {
        let call = format!(
            "curl -s -w '\\n%{{http_code}}' {} {options} '{}{path}'",
            if secret.is_empty() { String::new() } else { format!("-H 'Authorization: Bearer {secret}'") },
            server.url()?
        );
        caller.shell(&caller.home(), &call)?.success()
    };
    let secret = |token: &serde_json::Value| token["secret"].as_str().unwrap_or_default().to_string();
    let made = curl(&server, &secret(&first), "-X POST", "/v1/sandboxes")?;
    let made: serde_json::Value = serde_json::from_str(made.trim_end_matches("\n201"))?;
    let id = made["id"].as_str().unwrap_or_default().to_string();
    let content = format!("/v1/sandboxes/{id}/files/content?path=/tmp/f");
    ensure!(curl(&server, &secret(&first), "-X PUT --data-binary hello", &content)?.ends_with("\n200"));
    let sign = |server: &Server, token| -> Result<String> {
        let body = r#"-X POST -H 'Content-Type: application/json' -d '{"path":"/tmp/f","operation":"read","expires_seconds":600}'"#;
        let signed = curl(server, &secret(token), body, &format!("/v1/sandboxes/{id}/files/sign"))?;
        let signed: serde_json::Value = serde_json::from_str(signed.trim_end_matches("\n200"))?;
        Ok(signed["url"].as_str().unwrap_or_default().to_string())
    };
    let (by_first, by_second) = (sign(&server, &first)?, sign(&server, &second)?);
    let month = serde_json::json!({"path": "/tmp/f", "operation": "read", "expires_seconds": 30 * 86400});
    let refused = server.ask("POST", &format!("/v1/sandboxes/{id}/files/sign"), Some(&month))?;
    ensure!(
        refused.refused(400, "invalid_request")?.text().contains("more than a week"),
        "{}",
        refused.text()
    );
    assert_eq!(curl(&server, "", "", &by_first)?, "hello\n200");
    server.run(["token", "revoke", first["id"].as_str().unwrap_or_default()])?.success()?;
    let refused = curl(&server, "", "", &by_first)?;
    ensure!(refused.ends_with("\n403") && refused.contains("revoked"), "{refused}");
    assert_eq!(curl(&server, "", "", &by_second)?, "hello\n200");
    server.kill()?;
    server.start_again()?;
    ensure!(curl(&server, "", "", &by_first)?.ends_with("\n403"));
    assert_eq!(curl(&server, "", "", &by_second)?, "hello\n200");
    Ok(())
}
