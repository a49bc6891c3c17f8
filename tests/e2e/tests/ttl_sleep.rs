//! Sandboxes that sleep when their time to live is over.

use anyhow::{Result, ensure};
use paddock_e2e::{Caller, PATIENCE, Server, for_both_callers, until};
use serde_json::{Value, json};

for_both_callers!(
    one_that_sleeps_at_its_end_is_woken_by_the_next_call,
    one_whose_time_ends_without_a_server_sleeps_when_there_is_one_again,
    an_action_without_a_time_to_live_is_refused,
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
