//! Sandboxes that are ready because others like them were asked for before, against a real server.

use crate::contexts::{Place, text_of};
use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, PATIENCE, Server, for_both_callers, until};
use serde_json::{Value, json};

for_both_callers!(
    the_third_create_finds_one_ready,
    a_sandbox_that_was_expected_is_as_any_other,
    nothing_waits_in_sandboxes_that_begin_with_commands,
    what_is_not_asked_for_any_more_goes,
    none_are_kept_where_they_are_turned_off,
    there_are_none_without_room_for_one,
    there_are_never_more_than_eight,
    each_tenant_has_its_own,
    a_changed_template_is_not_served_from_before,
    they_go_with_their_server_and_do_not_outlive_a_crash,
);

/// The pools that demand has made.
fn pools(server: &Server) -> Result<Vec<Value>> {
    let all = server.api("GET", "/v1/pools", None)?.expect(200)?;
    let all = all["pools"].as_array().context("no list of pools")?.clone();
    Ok(all.into_iter().filter(|pool| pool["made_by"] == "demand").collect())
}

/// Waits until demand has made one, and it is full.
fn full(server: &Server) -> Result<Value> {
    let filled = until(PATIENCE, "a pool by demand", || {
        let pool = pools(server).ok()?.into_iter().next()?;
        (pool["ready"].as_u64()? >= 1 && pool["making"] == 0).then_some(pool)
    });
    filled.with_context(|| format!("{:?}", pools(server)))
}

fn used(server: &Server, options: &[&str]) -> Result<String> {
    let id = server.create(options)?;
    let body = json!({ "code": "6 * 7" });
    let answer = server.api("POST", &format!("/v1/sandboxes/{id}/code"), Some(&body))?.expect(200)?;
    assert_eq!(text_of(&answer)?, "42");
    Ok(id)
}

/// Two that began with Python, and ended.
fn asked_twice(server: &Server, options: &[&str]) -> Result<()> {
    for _ in 0..2 {
        let id = used(server, options)?;
        server.run(["kill", &id])?.success()?;
    }
    Ok(())
}

fn the_third_create_finds_one_ready(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = used(&server, &[])?;
    server.run(["kill", &id])?.success()?;
    ensure!(pools(&server)?.is_empty(), "one create predicts nothing");
    let id = used(&server, &[])?;
    server.run(["kill", &id])?.success()?;
    let pool = full(&server)?;
    assert_eq!((&pool["template"], &pool["hits"]), (&json!("code-interpreter"), &json!(0)));
    let listed = server.api("GET", "/v1/sandboxes?state=running", None)?.expect(200)?;
    ensure!(listed["sandboxes"] == json!([]), "what is ready is nobody's yet: {listed}");
    let table = server.run(["pool", "ls"])?.success()?;
    ensure!(table.contains("demand"), "{table}");
    let metrics = server.ask("GET", "/metrics", None)?;
    ensure!(metrics.text().contains("made_by=\"demand\""), "{}", metrics.text());
    let place = Place { id: server.create(&[])?, server };
    assert_eq!(pools(&place.server)?[0]["hits"], 1);
    assert_eq!(place.value("6 * 7")?, "42");
    // Another kind of sandbox is not served by it.
    place.server.create(&["--memory", "100MiB"])?;
    assert_eq!(pools(&place.server)?[0]["hits"], 1);
    // Nor is it one that was set: it cannot be asked for by its template's name.
    place.server.api("GET", "/v1/pools/code-interpreter", None)?.expect(404)?;
    Ok(())
}

fn a_sandbox_that_was_expected_is_as_any_other(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    asked_twice(&server, &["--env", "SECRET=of-the-first"])?;
    full(&server)?;
    let id = server.create(&["--name", "mine", "--env", "WHO=me", "--cwd", "/tmp"])?;
    assert_eq!(pools(&server)?[0]["hits"], 1);
    let place = Place { id, server };
    let seen =
        place.value("import os; known = 1; (os.environ['WHO'], os.getcwd(), 'SECRET' in os.environ)")?;
    assert_eq!(seen, "('me', '/tmp', False)");
    let said = place.server.script("mine", "echo $WHO $SECRET; pwd")?.success()?;
    assert_eq!(said, "me\n/tmp\n");
    // Unlike one out of a zygote it can be forked as it stands.
    let forked = crate::forks::fork(&place, json!({}))?;
    let live = crate::forks::is_live(caller, &forked)?;
    let child = crate::forks::child(&forked, 0);
    let known = crate::forks::python(&place.server, &child, "'known' in globals()")?;
    assert_eq!(known, if live { "True" } else { "False" });
    Ok(())
}

fn nothing_waits_in_sandboxes_that_begin_with_commands(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    for _ in 0..2 {
        let id = server.create(&[])?;
        server.script(&id, "true")?.success()?;
    }
    full(&server)?;
    let id = server.create(&[])?;
    assert_eq!(pools(&server)?[0]["hits"], 1);
    // It is the first exec, and no interpreter runs beside it.
    let body = json!({ "command": "cat /proc/[0-9]*/comm | grep -c python" });
    let ran = server.api("POST", &format!("/v1/sandboxes/{id}/execs"), Some(&body))?.expect(200)?;
    assert_eq!(ran["exec"], 1, "{ran}");
    assert_eq!(ran["stdout"], "0\n", "{ran}");
    Ok(())
}

fn what_is_not_asked_for_any_more_goes(caller: &Caller) -> Result<()> {
    let server = Server::start_with(caller, &["--ready-seconds", "2"])?;
    asked_twice(&server, &[])?;
    full(&server)?;
    until(PATIENCE, "no pool", || pools(&server).ok()?.is_empty().then_some(()))?;
    // With all sandboxes that were in it, while the server runs on.
    paddock_e2e::leftovers::no_guests_of(caller, PATIENCE)?;
    // Demand begins anew.
    server.create(&[])?;
    ensure!(pools(&server)?.is_empty(), "{:?}", pools(&server)?);
    Ok(())
}

fn none_are_kept_where_they_are_turned_off(caller: &Caller) -> Result<()> {
    let server = Server::start_with(caller, &["--ready-memory", "0"])?;
    asked_twice(&server, &[])?;
    used(&server, &[])?;
    ensure!(pools(&server)?.is_empty(), "{:?}", pools(&server)?);
    Ok(())
}

fn there_are_none_without_room_for_one(caller: &Caller) -> Result<()> {
    let server = Server::start_with(caller, &["--ready-memory", "1MiB"])?;
    asked_twice(&server, &[])?;
    let pool = until(PATIENCE, "a pool", || pools(&server).ok()?.pop())?;
    assert_eq!((&pool["wanted"], &pool["ready"]), (&json!(0), &json!(0)), "no room for one");
    Ok(())
}

fn there_are_never_more_than_eight(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    // Two kinds, of which each alone would want more.
    for number in 0..28 {
        server.create(if number % 2 == 0 { &[] } else { &["--memory", "100MiB"] })?;
        let ready: u64 = pools(&server)?.iter().filter_map(|pool| pool["ready"].as_u64()).sum();
        ensure!(ready <= 8, "{:?}", pools(&server)?);
    }
    assert_eq!(pools(&server)?.len(), 2);
    Ok(())
}

fn each_tenant_has_its_own(caller: &Caller) -> Result<()> {
    let server = Server::start_with(caller, &["--listen", "127.0.0.1:0"])?;
    asked_twice(&server, &[])?;
    full(&server)?;
    let made = server.api("POST", "/v1/tokens", Some(&json!({ "tenant": "other", "role": "user" })))?;
    let token = made.expect(201)?["secret"].as_str().context("no token")?.to_string();
    let url = server.url()?;
    let theirs =
        server.paddock(["create"])?.environment("PADDOCK_URL", &url).environment("PADDOCK_TOKEN", &token);
    theirs.finish()?.success()?;
    assert_eq!(pools(&server)?[0]["hits"], 0);
    server.create(&[])?;
    assert_eq!(pools(&server)?[0]["hits"], 1);
    Ok(())
}

fn a_changed_template_is_not_served_from_before(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let policy = caller.file("policy.toml", "env = { COLOUR = 'red' }\n")?;
    let policy = policy.display().to_string();
    server.run(["template", "add", "painted", "--policy", &policy])?.success()?;
    asked_twice(&server, &["--template", "painted"])?;
    full(&server)?;
    std::fs::write(&policy, "env = { SHAPE = 'round' }\n")?;
    server.run(["template", "add", "painted", "--policy", &policy, "--force"])?.success()?;
    let place = Place { id: server.create(&["--template", "painted"])?, server };
    assert_eq!(place.value("import os; 'COLOUR' in os.environ, os.environ['SHAPE']")?, "(False, 'round')");
    ensure!(pools(&place.server)?.is_empty(), "{:?}", pools(&place.server)?);
    Ok(())
}

fn they_go_with_their_server_and_do_not_outlive_a_crash(caller: &Caller) -> Result<()> {
    let mut server = Server::start(caller)?;
    asked_twice(&server, &[])?;
    full(&server)?;
    server.stop()?;
    paddock_e2e::leftovers::no_guests_of(caller, PATIENCE)?;
    server.start_again()?;
    asked_twice(&server, &[])?;
    full(&server)?;
    server.kill()?;
    server.start_again()?;
    ensure!(pools(&server)?.is_empty(), "nobody has asked this server");
    paddock_e2e::leftovers::no_guests_of(caller, PATIENCE)
}
