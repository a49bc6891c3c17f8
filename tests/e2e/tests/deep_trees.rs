//! Trees that are deeper than the kernel takes a path: copied, shown, kept and woken with, and refused where they have to be.

use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, Server, for_both_callers};
use serde_json::json;

for_both_callers!(
    a_deep_tree_is_shown_and_copied,
    a_deep_tree_survives_sleep_and_snapshots,
    a_deep_merge_is_refused
);

/// Twice as many bytes as a path may have.
const LEVELS: usize = 4000;

fn with_deep_tree(server: &Server) -> Result<String> {
    let id = server.create(&[])?;
    let made = format!(
        "import os\nos.chdir('/tmp')\nfor level in range({LEVELS}):\n    os.mkdir('d'); os.chdir('d')\nopen('leaf', 'w').write('deep down')\n"
    );
    server.run(["exec", &id, "--", "python3", "-c", &made])?.success()?;
    Ok(id)
}

fn leaf(server: &Server, id: &str) -> Result<String> {
    let read = format!(
        "import os\nos.chdir('/tmp')\nfor level in range({LEVELS}): os.chdir('d')\nprint(open('leaf').read())"
    );
    server.run(["exec", id, "--", "python3", "-c", &read])?.success()
}

fn a_deep_tree_is_shown_and_copied(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = with_deep_tree(&server)?;
    let shown = server.run(["diff", &id])?.success()?;
    ensure!(shown.lines().any(|line| line.ends_with(&format!("[{}] leaf", LEVELS + 2))), "{}", shown.len());
    let out = caller.directory("out")?;
    server.run(["cp", &format!("{id}:/tmp/d"), &out.join("copy").display().to_string()])?.success()?;
    let walk = "import os, sys\nos.chdir(sys.argv[1])\nlevels = 1\nwhile os.path.isdir('d'):\n    os.chdir('d'); levels += 1\nprint(levels, open('leaf').read())";
    let found = std::process::Command::new("python3").args(["-c", walk]).arg(out.join("copy")).output()?;
    assert_eq!(String::from_utf8_lossy(&found.stdout).trim(), format!("{LEVELS} deep down"));
    ensure!(std::process::Command::new("rm").arg("-rf").arg(&out).status()?.success(), "not removed");
    Ok(())
}

fn a_deep_tree_survives_sleep_and_snapshots(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = with_deep_tree(&server)?;
    server.run(["hibernate", &id])?.success()?;
    assert_eq!(leaf(&server, &id)?, "deep down\n");
    let snapshot = server.run(["snapshot", "create", &id])?.success()?;
    let again = server.create(&["--snapshot", snapshot.trim()])?;
    assert_eq!(leaf(&server, &again)?, "deep down\n");
    Ok(())
}

fn a_deep_merge_is_refused(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    let forked = server.ask("POST", &format!("/v1/sandboxes/{id}/fork"), Some(&json!({})))?.json()?;
    let child = forked["sandboxes"][0]["id"].as_str().context("a fork")?.to_string();
    let made = format!(
        "import os\nopen('/tmp/other', 'w')\nos.chdir('/tmp')\nfor level in range({LEVELS}):\n    os.mkdir('d'); os.chdir('d')"
    );
    server.run(["exec", &child, "--", "python3", "-c", &made])?.success()?;
    let merge = format!("/v1/sandboxes/{id}/merge");
    let refused = server.ask("POST", &merge, Some(&json!({ "from": child })))?;
    refused.refused(413, "too_large")?;
    ensure!(
        refused.text().len() < 2000 && refused.json()?.to_string().contains("hint"),
        "{}",
        refused.text()
    );
    // A path that is not so deep can be merged by its name.
    server.ask("POST", &merge, Some(&json!({ "from": child, "paths": ["/tmp/other"] })))?.ok()?;
    server.script(&id, "test -e /tmp/other")?.success().map(drop)
}
