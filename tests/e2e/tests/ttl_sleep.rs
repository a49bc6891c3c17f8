//! Sandboxes that sleep when their time to live is over.

use anyhow::{Result, ensure};
use paddock_e2e::{Caller, PATIENCE, Server, for_both_callers, until};
use serde_json::{Value, json};

for_both_callers!(
    one_that_sleeps_at_its_end_is_woken_by_the_next_call,
    one_whose_time_ends_without_a_server_sleeps_when_there_is_one_again,
    an_action_without_a_time_to_live_is_refused,
    a_sleep_that_was_asked_for_has_a_time_of_its_own,
    lists_are_of_a_time_or_of_a_sandbox,
);

const KEPT_MS: u64 = 29 * 86_400_000;

fn described(server: &Server<'_>, id: &str) -> Result<Value> {
    server.api("GET", &format!("/v1/sandboxes/{id}"), None)?.expect(200)
}

fn until_in_state(server: &Server<'_>, id: &str, state: &str) -> Result<Value> {
    until(PATIENCE, state, || described(server, id).ok().filter(|told| told["state"] == state))
}

fn end_soon(server: &Server<'_>, id: &str) -> Result<()> {
    server
        .api("POST", &format!("/v1/sandboxes/{id}/extend"), Some(&json!({ "ttl_seconds": 1 })))?
        .expect(200)?;
    Ok(())
}

fn lives_for_ms(told: &Value) -> u64 {
    let expires = told["expires_at_ms"].as_u64().unwrap_or_default();
    expires.saturating_sub(told["created_at_ms"].as_u64().unwrap_or_default())
}

fn one_that_sleeps_at_its_end_is_woken_by_the_next_call(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    for (ttl, state) in [("600s:hibernate", "hibernated"), ("600s:pause", "paused")] {
        let id = server.create(&["--ttl", ttl])?;
        server.script(&id, "printf kept > /workspace/data")?.success()?;
        end_soon(&server, &id)?;
        let told = until_in_state(&server, &id, state)?;
        ensure!(lives_for_ms(&told) > KEPT_MS, "{told}");
        assert_eq!(server.script(&id, "cat /workspace/data")?.success()?, "kept");
        let told = described(&server, &id)?;
        ensure!(told["state"] == "running" && told["ttl_action"] == ttl[5..], "{told}");
        ensure!(lives_for_ms(&told) < KEPT_MS, "its time to live begins anew: {told}");
        server.run(["kill", &id])?.success()?;
    }
    Ok(())
}

fn one_whose_time_ends_without_a_server_sleeps_when_there_is_one_again(caller: &Caller) -> Result<()> {
    let mut server = Server::start(caller)?;
    let id = server.create(&["--ttl", "600s:hibernate"])?;
    server.script(&id, "printf kept > /workspace/data")?.success()?;
    end_soon(&server, &id)?;
    server.kill()?;
    std::thread::sleep(std::time::Duration::from_millis(1500));
    server.start_again()?;
    until_in_state(&server, &id, "hibernated")?;
    assert_eq!(server.script(&id, "cat /workspace/data")?.success()?, "kept");
    server.run(["kill", &id])?.success()?;
    Ok(())
}

fn an_action_without_a_time_to_live_is_refused(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let request = json!({ "persistent": true, "ttl_action": "pause" });
    let refused = server.api("POST", "/v1/sandboxes", Some(&request))?.expect(400)?;
    ensure!(refused.to_string().contains("ttl_action"), "{refused}");
    let wrong = server.run(["create", "--ttl", "5m:sleep"])?;
    ensure!(wrong.code == 2 && wrong.err().contains("kill, pause or hibernate"), "{}", wrong.err());
    Ok(())
}

fn a_sleep_that_was_asked_for_has_a_time_of_its_own(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&["--ttl", "600s"])?;
    server.run(["pause", "--ttl", "30d", "--auto-resume", &id])?.success()?;
    let told = described(&server, &id)?;
    ensure!(told["state"] == "paused" && lives_for_ms(&told) > KEPT_MS, "{told}");
    assert_eq!(server.script(&id, "echo by itself")?.success()?, "by itself\n");
    ensure!(lives_for_ms(&described(&server, &id)?) < KEPT_MS, "the time of the pause is over with it");
    server.run(["hibernate", "--ttl", "30d", &id])?.success()?;
    ensure!(lives_for_ms(&described(&server, &id)?) > KEPT_MS, "it is kept while it sleeps");
    server.run(["wake", "--ttl", "700s", &id])?.success()?;
    let told = described(&server, &id)?;
    ensure!((690_000..KEPT_MS).contains(&lives_for_ms(&told)), "{told}");
    server.run(["kill", &id])?.success()?;
    Ok(())
}

fn lists_are_of_a_time_or_of_a_sandbox(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let (id, other) = (server.create(&["--name", "listed"])?, server.create(&[])?);
    let ids = |newer_than: &str| server.run(["ps", "--quiet", "--newer-than", newer_than])?.success();
    ensure!(ids("1h")?.contains(&id) && ids("1h")?.contains(&other), "both are new");
    std::thread::sleep(std::time::Duration::from_millis(1100));
    ensure!(ids("1s")?.is_empty(), "none is as new as that: {}", ids("1s")?);
    let snapshot = |id: &str, name: &str| server.run(["snapshot", "create", id, "--name", name])?.success();
    let (one, two) = (snapshot(&id, "one")?, snapshot(&other, "two")?);
    for (flag, value) in [("--sandbox", "listed"), ("--sandbox", id.as_str()), ("--name", "one")] {
        let listed = server.run(["snapshot", "ls", flag, value])?.success()?;
        ensure!(listed.contains(one.trim()) && !listed.contains(two.trim()), "{flag} {value}: {listed}");
    }
    server.run(["snapshot", "rm", "one", "two"])?.success()?;
    server.run(["kill", &id, &other])?.success()?;
    Ok(())
}
