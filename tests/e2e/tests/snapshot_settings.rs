//! What begins with a snapshot has the settings of the sandbox that it was taken of, and no right or value that nobody gives it anew.

use crate::forks::made;
use anyhow::{Context, Result, ensure};
use paddock_e2e::http::over_tcp;
use paddock_e2e::{Caller, Server, as_root, for_both_callers};
use serde_json::{Value, json};

for_both_callers!(
    it_is_as_its_source,
    a_request_says_otherwise,
    it_stays_when_its_template_is_gone,
    a_snapshot_of_an_older_server_still_works,
);

#[test]
fn rights_are_asked_for_anew() -> Result<()> {
    as_root("rights_are_asked_for_anew", rights)
}

const TEMPLATE: &str = r#"
user = "root"
cwd = "/tmp"
hostname = "kept"
tmpfs = ["/scratch"]
env = { FLAVOUR = "sour", CHANGED = "by-the-template" }
limits = { memory = "300MiB", pids = "77" }
"#;
const LOOK: &str =
    "id -un; pwd; uname -n; echo $FLAVOUR [$OF_CALLER] $CHANGED; grep -c ' /scratch tmpfs' /proc/mounts";

/// The server's template, and a snapshot of a sandbox of it that was given variables of its caller's.
fn kept(server: &Server<'_>, caller: &Caller) -> Result<Value> {
    let policy = caller.file("own.toml", TEMPLATE)?.display().to_string();
    server.run(["template", "add", "own", "--policy", &policy])?.success()?;
    let env = json!({ "OF_CALLER": "hush-71c2", "CHANGED": "hush-71c3" });
    let id = made(server, &json!({ "template": "own", "env": env }))?;
    server.script(&id, "echo note > /tmp/note")?.success()?;
    let snapshot = server.api("POST", &format!("/v1/sandboxes/{id}/snapshots"), None)?.expect(201)?;
    ensure!(snapshot["template"] == "own" && snapshot["user"] == "root", "{snapshot}");
    ensure!(snapshot["cwd"] == "/tmp" && !snapshot.to_string().contains("hush"), "{snapshot}");
    Ok(snapshot["id"].clone())
}

/// With one id of the host a sandbox of root's has no line for the agent in its table of users, and neither has a snapshot of it.
fn agent(caller: &Caller) -> &'static str {
    if caller.is_root { "agent" } else { "1000" }
}

fn said(server: &Server<'_>, body: &Value) -> Result<String> {
    server.script(&made(server, body)?, LOOK)?.success()
}

fn it_is_as_its_source(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let snapshot = kept(&server, caller)?;
    let sandbox = server.api("POST", "/v1/sandboxes", Some(&json!({ "snapshot": snapshot })))?.expect(201)?;
    ensure!(sandbox["template"] == "own" && sandbox["snapshot"] == snapshot, "{sandbox}");
    let limits = &sandbox["limits"];
    ensure!(limits["memory"] == 300 << 20 && limits["pids"] == 77, "{limits}");
    let id = sandbox["id"].as_str().context("an id")?;
    let expected = "root\n/tmp\nkept\nsour [] by-the-template\n1\n";
    assert_eq!(server.script(id, LOOK)?.success()?, expected);
    assert_eq!(server.script(id, "cat note")?.success()?, "note\n");
    // A copy of the copy has the same.
    let again = server.api("POST", &format!("/v1/sandboxes/{id}/snapshots"), None)?.expect(201)?;
    assert_eq!(said(&server, &json!({ "snapshot": again["id"] }))?, expected);
    Ok(())
}

fn a_request_says_otherwise(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let snapshot = kept(&server, caller)?;
    let body = json!({
        "snapshot": snapshot, "user": "agent", "cwd": "/", "hostname": "other", "env": { "FLAVOUR": "sweet" }, "tmpfs": ["/scratch"],
        "limits": { "pids": 99 },
    });
    let sandbox = server.api("POST", "/v1/sandboxes", Some(&body))?.expect(201)?;
    let limits = &sandbox["limits"];
    ensure!(limits["memory"] == 300 << 20 && limits["pids"] == 99, "{limits}");
    let id = sandbox["id"].as_str().context("an id")?;
    let expected = format!("{}\n/\nother\nsweet [] by-the-template\n1\n", agent(caller));
    assert_eq!(server.script(id, LOOK)?.success()?, expected);
    // A template that is named is the whole of the settings, as ever.
    let other = json!({ "snapshot": snapshot, "template": "code-interpreter" });
    let other = made(&server, &other)?;
    assert_eq!(
        server.script(&other, "id -un; pwd; echo [$FLAVOUR]; cat /tmp/note")?.success()?,
        format!("{}\n/workspace\n[]\nnote\n", agent(caller))
    );
    Ok(())
}

fn it_stays_when_its_template_is_gone(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let snapshot = kept(&server, caller)?;
    server.run(["template", "rm", "own"])?.success()?;
    let expected = "root\n/tmp\nkept\nsour [] by-the-template\n1\n";
    assert_eq!(said(&server, &json!({ "snapshot": snapshot }))?, expected);
    Ok(())
}

/// Its record has no settings: a request says all.
fn a_snapshot_of_an_older_server_still_works(caller: &Caller) -> Result<()> {
    let mut server = Server::start(caller)?;
    let snapshot = kept(&server, caller)?;
    server.stop()?;
    let id = snapshot.as_str().context("an id")?;
    let database = caller.state().join("paddock.db");
    let old = "import sqlite3, sys\n\
               store = sqlite3.connect(sys.argv[1])\n\
               changed = store.execute(\"update snapshots set body = json_remove(body, '$.settings') where id = ?\", [sys.argv[2]])\n\
               assert changed.rowcount == 1\n\
               store.commit()";
    let database = database.display().to_string();
    let changed = caller.program("python3").args(["-c", old, &database, id]).status()?;
    ensure!(changed.success(), "the record was not changed");
    server.start_again()?;
    let shown = server.api("GET", &format!("/v1/snapshots/{id}"), None)?.expect(200)?;
    ensure!(shown["template"].is_null() && shown["user"].is_null(), "{shown}");
    assert_eq!(
        server
            .script(&made(&server, &json!({ "snapshot": id }))?, "id -un; pwd; cat /tmp/note")?
            .success()?,
        format!("{}\n/workspace\nnote\n", agent(caller))
    );
    Ok(())
}

/// The owner's choice counts at the create, and no snapshot is a way around it.
fn rights(caller: &Caller) -> Result<()> {
    let address = ["--listen", "127.0.0.1:0"];
    let mut server = Server::start_with(caller, &address)?;
    let token = server.api("POST", "/v1/tokens", Some(&json!({ "tenant": "team", "role": "user" })))?;
    let secret = token.expect(201)?["secret"].as_str().context("a secret")?.to_string();
    let headers = format!("Authorization: Bearer {secret}\r\nContent-Type: application/json\r\n");
    let ask = |server: &Server<'_>, path: &str, body: &Value| {
        over_tcp(&server.url()?, "POST", path, &headers, body.to_string().as_bytes())
    };
    let file = caller.state().join("templates/sudo.toml");
    std::fs::create_dir_all(file.parent().context("a directory")?)?;
    std::fs::write(&file, "become_root = true\nbackend = \"process\"\n")?;
    let mut snapshots = Vec::new();
    for body in [json!({ "template": "sudo" }), json!({ "become_root": true, "backend": "process" })] {
        let made = ask(&server, "/v1/sandboxes", &body)?.expect(201)?;
        let path = format!("/v1/sandboxes/{}/snapshots", made["id"].as_str().context("an id")?);
        let snapshot = ask(&server, &path, &json!({}))?.expect(201)?;
        ensure!(snapshot["become_root"] == true && snapshot["root_may_install"].is_null(), "{snapshot}");
        snapshots.push(snapshot["id"].clone());
    }
    let [of_template, of_request] = [&snapshots[0], &snapshots[1]];
    let create = |server: &Server<'_>, snapshot: &Value, right: Option<bool>| {
        ask(server, "/v1/sandboxes", &json!({ "snapshot": snapshot, "become_root": right }))
    };
    for snapshot in [of_template, of_request] {
        let plain = create(&server, snapshot, None)?.expect(201)?;
        ensure!(plain["guarantees"]["become_root"] != true, "nobody asked for it: {plain}");
        let has = create(&server, snapshot, Some(true))?.expect(201)?;
        ensure!(has["guarantees"]["become_root"] == true, "{has}");
    }
    server.stop()?;
    server.start_again_with(&[&address[..], &["--root-may-install", "owner"]].concat())?;
    // The owner's template gives it still, and a tenant may not ask for it.
    create(&server, of_template, Some(true))?.expect(201)?;
    create(&server, of_request, Some(true))?.refused(403, "forbidden")?;
    create(&server, of_request, None)?.expect(201)?;
    std::fs::write(&file, "backend = \"process\"\n")?;
    create(&server, of_template, Some(true))?.refused(403, "forbidden")?;
    std::fs::remove_file(&file)?;
    create(&server, of_template, Some(true))?.refused(403, "forbidden")?;
    create(&server, of_template, None)?.expect(201)?;
    let by_owner = json!({ "snapshot": of_request, "become_root": true });
    server.api("POST", "/v1/sandboxes", Some(&by_owner))?.expect(201)?;
    std::fs::write(&file, "become_root = true\nbackend = \"process\"\n")?;
    server.stop()?;
    server.start_again_with(&[&address[..], &["--root-may-install", "nobody"]].concat())?;
    for snapshot in [of_template, of_request] {
        create(&server, snapshot, Some(true))?.refused(403, "forbidden")?;
        create(&server, snapshot, None)?.expect(201)?;
    }
    Ok(())
}
