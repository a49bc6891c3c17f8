//! The fate of a volume when its sandbox ends, the tenants that may have it, and its limits.

use crate::attacks::with_token;
use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, PATIENCE, Server, for_both_callers, until};
use serde_json::{Value, json};

for_both_callers!(
    a_failure_discards_keeps_or_commits,
    a_volume_is_shared_with_another_tenant,
    quotas_hold,
    what_no_version_can_have_leaves_one_directory,
);

fn history(server: &Server<'_>) -> Result<Vec<Value>> {
    let listed = server.api("GET", "/v1/volumes/state/history", None)?.expect(200)?;
    Ok(listed["versions"].as_array().context("a list")?.clone())
}

fn a_failure_discards_keeps_or_commits(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let first = server.create(&["--volume", "state:/data/state"])?;
    server.script(&first, "echo good > /data/state/word")?.success()?;
    server.run(["kill", &first])?.success()?;
    for (on_failure, outcome, word, versions) in [
        ("discard", "discarded", "good", 1),
        ("keep", "kept aside as version 2, for the sandbox failed", "good", 2),
        ("commit", "committed as version 3", "commit", 3),
    ] {
        let id = server.create(&["--volume", "state:/data/state", "--on-failure", on_failure])?;
        server.script(&id, &format!("echo {on_failure} > /data/state/word"))?.success()?;
        let ended = server.api("DELETE", &format!("/v1/sandboxes/{id}?failed=true"), None)?.expect(200)?;
        assert_eq!(ended["end"]["cause"]["kind"], "failed", "{ended}");
        assert_eq!(ended["volumes"][0]["outcome"], outcome, "{ended}");
        assert_eq!(
            server.run(["volume", "get", "state", "word"])?.success()?,
            format!("{word}\n"),
            "{on_failure}"
        );
        assert_eq!(history(&server)?.len(), versions, "{on_failure}");
    }
    // A plain kill does not say that anything failed.
    let id = server.create(&["--volume", "state:/data/state"])?;
    server.script(&id, "echo ended > /data/state/word")?.success()?;
    server
        .api("DELETE", &format!("/v1/sandboxes/{id}?failed=maybe"), None)?
        .refused(400, "invalid_request")?;
    server.run(["kill", &id])?.success()?;
    assert_eq!(server.run(["volume", "get", "state", "word"])?.success()?, "ended\n");
    Ok(())
}

/// If nothing limits a volume, only the owner of the host may write to one: others read.
fn a_volume_is_shared_with_another_tenant(caller: &Caller) -> Result<()> {
    let server = Server::start_with(caller, &["--listen", "127.0.0.1:0"])?;
    let url = server.url()?;
    let token = server.run(["token", "create", "--tenant", "team-b", "--role", "user"])?.success()?;
    let ask = |method: &str, target: &str, body: Option<&Value>| {
        with_token(&url, token.trim(), method, target, body)
    };
    let id = server.create(&["--volume", "state:/data/state"])?;
    server.script(&id, "echo shared > /data/state/word")?.success()?;
    server.run(["kill", &id])?.success()?;
    let wanted =
        |mode: &str| json!({ "volumes": [{ "name": "owner/state", "path": "/data/state", "mode": mode }] });
    // A volume that is not shared looks as if it were not there.
    ask("GET", "/v1/volumes/state?tenant=owner", None)?.refused(404, "volume_not_found")?;
    ask("POST", "/v1/sandboxes", Some(&wanted("ro")))?.refused(404, "volume_not_found")?;
    server.run(["volume", "share", "state", "team-b", "--mode", "ro"])?.success()?;
    let refused = ask("POST", "/v1/sandboxes", Some(&wanted("rw")))?;
    ensure!(refused.status == 403 || refused.status == 422, "{} {}", refused.status, refused.text());
    let made = ask("POST", "/v1/sandboxes", Some(&wanted("ro")))?.expect(201)?;
    let made = made["id"].as_str().context("an id")?.to_string();
    let command = json!({ "command": "cat /data/state/word; echo x > /data/state/word || echo refused" });
    let said = ask("POST", &format!("/v1/sandboxes/{made}/execs"), Some(&command))?.expect(200)?;
    assert_eq!(said["stdout"], "shared\nrefused\n", "{said}");
    ask("DELETE", &format!("/v1/sandboxes/{made}"), None)?.expect(200)?;
    let listed = ask("GET", "/v1/volumes", None)?.expect(200)?;
    assert_eq!(listed["volumes"], json!([]), "a list shows one's own");
    server.run(["volume", "share", "state", "team-b", "--stop"])?.success()?;
    ask("POST", "/v1/sandboxes", Some(&wanted("ro")))?.refused(404, "volume_not_found")?;
    Ok(())
}

fn quotas_hold(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    server.run(["quota", "owner", "--volumes", "2", "--volume-bytes", "8MiB"])?.success()?;
    let id = server.create(&["--volume", "one-1:/data/one", "--volume", "two-2:/data/two"])?;
    let third = server.run(["create", "--volume", "three:/data/three"])?;
    ensure!(third.exited(1)?.err().contains("2 are allowed"), "{}", third.err());
    server.script(&id, "head -c 3000000 /dev/urandom > /data/one/file")?.success()?;
    // A write that the kernel does not stop, the commit does.
    let _ = server.script(&id, "head -c 12000000 /dev/urandom > /data/two/file")?;
    let ended = server.api("DELETE", &format!("/v1/sandboxes/{id}"), None)?.expect(200)?;
    assert_eq!(ended["volumes"][0]["outcome"], "committed as version 1", "{ended}");
    let kept = server.api("GET", "/v1/volumes/two-2", None)?.expect(200)?;
    ensure!(kept["bytes"].as_u64().is_some_and(|bytes| bytes <= 8 << 20), "{kept}");
    let outcome = ended["volumes"][1]["outcome"].as_str().unwrap_or_default().to_string();
    ensure!(outcome.contains("committed") || outcome.contains("are allowed"), "{ended}");
    if outcome.contains("are allowed") {
        ensure!(outcome.contains("it is kept on this host"), "{outcome}");
        // With more room it is stored by itself.
        server.run(["quota", "owner", "--unlimited"])?.success()?;
        until(PATIENCE * 3, "what was kept on the host", || {
            let kept = server.api("GET", "/v1/volumes/two-2", None).ok()?.expect(200).ok()?;
            kept["bytes"].as_u64().is_some_and(|bytes| bytes > 0).then_some(())
        })?;
    }
    Ok(())
}

fn what_no_version_can_have_leaves_one_directory(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let deep = "cd /data/state && for i in $(seq 140); do mkdir d && cd d; done; echo $RUN > word";
    let unsynced = || -> Result<Vec<String>> {
        let names = std::fs::read_dir(caller.state().join("volumes/unsynced"))?;
        Ok(names.flatten().map(|name| name.file_name().to_string_lossy().into_owned()).collect())
    };
    let mut before = Vec::new();
    for run in 0..3 {
        let id = server.create(&["--volume", "state:/data/state"])?;
        server.script(&id, &deep.replace("$RUN", &run.to_string()))?.success()?;
        let ended = server.api("DELETE", &format!("/v1/sandboxes/{id}"), None)?.expect(200)?;
        let outcome = ended["volumes"][0]["outcome"].as_str().unwrap_or_default();
        ensure!(outcome.contains("128 directories deep"), "{ended}");
        let kept = unsynced()?;
        ensure!(kept.len() == 1 && kept != before, "run {run}: {kept:?} after {before:?}");
        before = kept;
    }
    // A later run that can be stored is stored.
    let id = server.create(&["--volume", "state:/data/state"])?;
    server.script(&id, "echo fine > /data/state/word")?.success()?;
    let ended = server.api("DELETE", &format!("/v1/sandboxes/{id}"), None)?.expect(200)?;
    assert_eq!(ended["volumes"][0]["outcome"], "committed as version 1", "{ended}");
    Ok(())
}
