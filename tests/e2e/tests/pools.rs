//! Sandboxes that are ready before a request comes, against a real server.

use crate::contexts::{Place, text_of};
use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, PATIENCE, Server, for_both_callers, until};
use serde_json::{Value, json};

for_both_callers!(
    a_pool_is_filled_and_gives_its_sandboxes_away,
    a_sandbox_of_a_pool_is_as_any_other,
    a_sandbox_of_a_pool_outlives_its_server,
    a_changed_template_gets_new_sandboxes,
    modules_are_there_before_the_first_call,
    a_module_that_cannot_be_imported_is_told_of,
    a_pool_says_how_many_of_its_sandboxes_live,
    a_pool_goes_with_its_demand,
    a_pool_ends_with_its_server_and_comes_back_with_the_next,
    sizes_that_cannot_be_are_refused,
);

pub fn set(server: &Server, template: &str, min: u32, max: u32) -> Result<()> {
    let body = json!({ "min": min, "max": max });
    server.api("PUT", &format!("/v1/pools/{template}"), Some(&body))?.expect(200).map(drop)
}

pub fn pool(server: &Server, template: &str) -> Result<Value> {
    server.api("GET", &format!("/v1/pools/{template}"), None)?.expect(200)
}

/// Waits until so many are ready.
pub fn filled(server: &Server, template: &str, ready: u64) -> Result<Value> {
    let full = until(PATIENCE, "a full pool", || {
        let found = pool(server, template).ok()?;
        (found["ready"].as_u64()? >= ready && found["making"] == 0).then_some(found)
    });
    full.with_context(|| format!("{:?}", pool(server, template)))
}

pub fn in_pool<'a>(caller: &'a Caller, template: &str, options: &[&str]) -> Result<Place<'a>> {
    let server = Server::start(caller)?;
    set(&server, template, 1, 4)?;
    filled(&server, template, 1)?;
    let id = server.create(options)?;
    Ok(Place { server, id })
}

fn a_pool_is_filled_and_gives_its_sandboxes_away(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    set(&server, "code-interpreter", 2, 4)?;
    let full = filled(&server, "code-interpreter", 2)?;
    let forked = if caller.is_root { "ready" } else { "unavailable" };
    assert_eq!(full["zygote"], forked, "{full}");
    ensure!(server.api("GET", "/v1/sandboxes", None)?.expect(200)?["sandboxes"] == json!([]), "nobody's yet");
    let place = Place { id: server.create(&[])?, server };
    assert_eq!(place.value("6 * 7")?, "42");
    assert_eq!(pool(&place.server, "code-interpreter")?["hits"], 1);
    assert_eq!(
        place.value("import os; (os.getuid(), os.getcwd(), os.getppid())")?,
        "(1000, '/workspace', 1)"
    );
    filled(&place.server, "code-interpreter", 2)?;
    let listed = place.server.run(["pool", "ls"])?.success()?;
    ensure!(listed.contains("code-interpreter"), "{listed}");
    // Another spec is not the pool's.
    place.server.create(&["--memory", "100MiB"])?;
    assert_eq!(pool(&place.server, "code-interpreter")?["hits"], 1);
    place.server.run(["pool", "rm", "code-interpreter"])?.success()?;
    place.server.api("GET", "/v1/pools/code-interpreter", None)?.expect(404)?;
    assert_eq!(place.value("_ + 1 if isinstance(_, int) else 'kept'")?, "'kept'");
    Ok(())
}

fn a_pool_says_how_many_of_its_sandboxes_live(caller: &Caller) -> Result<()> {
    let mut server = Server::start(caller)?;
    let in_use = |server: &Server| pool(server, "code-interpreter").map(|pool| pool["in_use"].clone());
    set(&server, "code-interpreter", 1, 4)?;
    filled(&server, "code-interpreter", 1)?;
    assert_eq!(in_use(&server)?, 0);
    let (first, second) = (server.create(&[])?, server.create(&["--ttl", "1h"])?);
    assert_eq!(in_use(&server)?, 2);
    // Neither a sandbox that the pool does not make nor a fork is the pool's.
    server.create(&["--memory", "100MiB"])?;
    server.run(["fork", &first])?.success()?;
    assert_eq!(in_use(&server)?, 2);
    let listed = server.run(["pool", "ls"])?.success()?;
    ensure!(listed.contains("IN USE"), "{listed}");
    server.run(["hibernate", &second])?.success()?;
    server.run(["kill", &first])?.success()?;
    assert_eq!(in_use(&server)?, 1);
    // The next server knows it, and so does the same pool when it is set anew.
    server.kill()?;
    server.start_again()?;
    assert_eq!(in_use(&server)?, 1);
    server.run(["pool", "rm", "code-interpreter"])?.success()?;
    set(&server, "code-interpreter", 0, 1)?;
    assert_eq!(in_use(&server)?, 1);
    server.run(["kill", &second])?.success()?;
    assert_eq!(in_use(&server)?, 0);
    Ok(())
}

fn a_sandbox_of_a_pool_is_as_any_other(caller: &Caller) -> Result<()> {
    let place = in_pool(caller, "code-interpreter", &["--name", "mine", "--env", "WHO=me", "--cwd", "/tmp"])?;
    assert_eq!(place.value("import os; (os.environ['WHO'], os.getcwd())")?, "('me', '/tmp')");
    assert_eq!(
        place.value("'PADDOCK_ZYGOTE' in os.environ, 'PADDOCK_CONTROL' in os.environ")?,
        "(False, False)"
    );
    let exec = place
        .server
        .run(["exec", "mine", "--", "sh", "-c", "echo $WHO; pwd; echo made > file"])?
        .success()?;
    assert_eq!(exec, "me\n/tmp\n");
    assert_eq!(place.value("open('file').read()")?, "'made\\n'");
    assert_eq!(place.value("import subprocess; subprocess.run(['sh', '-c', 'exit 3']).returncode")?, "3");
    place.act("/pause")?;
    place.act("/resume")?;
    assert_eq!(place.value("os.environ['WHO']")?, "'me'");
    // Interrupted, restarted, and a second one beside it.
    let answer = place.code(json!({ "code": "while True: pass", "timeout_seconds": 0.5 }))?;
    assert_eq!(answer["error"]["name"], "KeyboardInterrupt", "{answer}");
    place.post("/contexts", json!({ "id": "second" }), 201)?;
    let second = place.code(json!({ "code": "import os; os.getcwd()", "context": "second" }))?;
    assert_eq!(text_of(&second)?, "'/tmp'");
    place.act("/contexts/python/restart")?;
    assert_eq!(place.value("'os' in globals()")?, "False");
    let crashed = place.python("import os; os.kill(os.getpid(), 11)")?;
    ensure!(crashed["cause"].to_string().contains("11"), "{crashed}");
    assert_eq!(place.value("1 + 1")?, "2");
    place.act("/hibernate")?;
    assert_eq!(place.value("known = open('/tmp/file').read(); known")?, "'made\\n'");
    // Woken, it is no pool's any more, and can be forked as it stands.
    let forked = crate::forks::fork(&place, json!({}))?;
    let live = crate::forks::is_live(caller, &forked)?;
    let child = forked["sandboxes"][0]["id"].as_str().unwrap_or_default();
    let known = crate::forks::python(&place.server, child, "'known' in globals()")?;
    assert_eq!(known, if live { "True" } else { "False" });
    Ok(())
}

fn a_sandbox_of_a_pool_outlives_its_server(caller: &Caller) -> Result<()> {
    let mut place = in_pool(caller, "code-interpreter", &[])?;
    place.python("x = 'remembered'")?;
    let fresh = place.server.create(&[])?;
    place.server.kill()?;
    place.server.start_again()?;
    assert_eq!(place.value("x")?, "'remembered'");
    // A sandbox whose interpreter had not been called yet.
    let body = json!({ "code": "1 + 1" });
    let path = format!("/v1/sandboxes/{fresh}/code");
    assert_eq!(text_of(&place.server.api("POST", &path, Some(&body))?.expect(200)?)?, "2");
    place.server.run(["kill", &fresh])?.success()?;
    place.server.stop()?;
    place.server.start_again()?;
    assert_eq!(place.value("x")?, "'remembered'");
    Ok(())
}

fn a_changed_template_gets_new_sandboxes(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let policy = caller.file("policy.toml", "env = { COLOUR = 'red' }\n")?;
    let policy = policy.display().to_string();
    server.run(["template", "add", "painted", "--policy", &policy])?.success()?;
    set(&server, "painted", 1, 2)?;
    filled(&server, "painted", 1)?;
    std::fs::write(&policy, "env = { COLOUR = 'blue' }\n")?;
    server.run(["template", "add", "painted", "--policy", &policy, "--force"])?.success()?;
    let place = Place { id: server.create(&["--template", "painted"])?, server };
    assert_eq!(place.value("import os; os.environ['COLOUR']")?, "'blue'");
    // A variable that the template does not name any more is gone, however soon after.
    std::fs::write(caller.place().join("policy.toml"), "preload = ['colorsys']\n")?;
    place.server.run(["template", "add", "painted", "--policy", &policy, "--force"])?.success()?;
    let place = Place { id: place.server.create(&["--template", "painted"])?, server: place.server };
    assert_eq!(place.value("import os; 'COLOUR' in os.environ")?, "False");
    Ok(())
}

fn modules_are_there_before_the_first_call(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let policy = caller.file("policy.toml", "preload = ['colorsys', 'xml.dom.minidom']\n")?;
    server.run(["template", "add", "loaded", "--policy", &policy.display().to_string()])?.success()?;
    set(&server, "loaded", 1, 2)?;
    let found = filled(&server, "loaded", 1)?;
    assert_eq!(found["preload"], json!(["colorsys", "xml.dom.minidom"]));
    let place = Place { id: server.create(&["--template", "loaded"])?, server };
    let code =
        "import sys; 'colorsys' in sys.modules, 'xml.dom.minidom' in sys.modules, 'wave' in sys.modules";
    assert_eq!(place.value(code)?, "(True, True, False)");
    Ok(())
}

fn a_module_that_cannot_be_imported_is_told_of(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let policy = caller.file("policy.toml", "preload = ['no_such_module']\n")?;
    server.run(["template", "add", "broken", "--policy", &policy.display().to_string()])?.success()?;
    set(&server, "broken", 1, 2)?;
    if caller.is_root {
        // Still told when its sandboxes are ready without it.
        let told = filled(&server, "broken", 1)?;
        ensure!(told["error"].to_string().contains("no_such_module"), "{told}");
        assert_eq!(told["zygote"], "unavailable");
    }
    let place = Place { id: server.create(&["--template", "broken"])?, server };
    assert_eq!(place.value("1 + 1")?, "2");
    std::fs::write(&policy, "preload = ['not a name']\n")?;
    let policy = policy.display().to_string();
    let refused = place.server.run(["template", "add", "odd", "--policy", &policy])?;
    ensure!(
        refused.exited(1)?.err().contains("preload `not a name` is not a Python module"),
        "{}",
        refused.err()
    );
    Ok(())
}

fn a_pool_goes_with_its_demand(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    set(&server, "code-interpreter", 0, 3)?;
    assert_eq!(pool(&server, "code-interpreter")?["wanted"], 0);
    let first = until(PATIENCE, "demand", || {
        // The pool's own description of its sandboxes comes a moment after it was set.
        let id = server.create(&[]).ok()?;
        let found = pool(&server, "code-interpreter").ok()?;
        let asked = found["wanted"].as_u64()? > 0;
        if !asked {
            server.run(["kill", &id]).ok()?;
        }
        asked.then_some(id)
    });
    first?;
    until(PATIENCE, "an empty pool", || {
        let found = pool(&server, "code-interpreter").ok()?;
        (found["wanted"] == 0 && found["ready"] == 0 && found["making"] == 0).then_some(())
    })
}

fn a_pool_ends_with_its_server_and_comes_back_with_the_next(caller: &Caller) -> Result<()> {
    let mut server = Server::start(caller)?;
    set(&server, "code-interpreter", 2, 2)?;
    filled(&server, "code-interpreter", 2)?;
    server.stop()?;
    server.start_again()?;
    filled(&server, "code-interpreter", 2)?;
    // The next server finds and ends those of a killed one.
    server.kill()?;
    server.start_again()?;
    filled(&server, "code-interpreter", 2)?;
    let place = Place { id: server.create(&[])?, server };
    assert_eq!(place.value("1 + 1")?, "2");
    Ok(())
}

fn sizes_that_cannot_be_are_refused(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    for (body, status) in [
        (json!({ "min": 3, "max": 2 }), 400),
        (json!({ "min": 0, "max": 0 }), 400),
        (json!({ "min": 0, "max": 100_000 }), 400),
        (json!({ "min": -1, "max": 2 }), 400),
        (json!({ "min": 1, "max": 2, "most": 3 }), 400),
        (json!({}), 400),
    ] {
        server.api("PUT", "/v1/pools/code-interpreter", Some(&body))?.expect(status)?;
    }
    let body = json!({ "min": 1, "max": 2 });
    let missing = server.api("PUT", "/v1/pools/nowhere", Some(&body))?.expect(404)?;
    assert_eq!(missing["code"], "template_not_found", "{missing}");
    let none = server.api("DELETE", "/v1/pools/code-interpreter", None)?.expect(404)?;
    assert_eq!(none["code"], "pool_not_found", "{none}");
    Ok(())
}
