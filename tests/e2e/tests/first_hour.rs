//! A newcomer's first hour: other tools' words, help, JSON from every command.

use anyhow::{Result, ensure};
use paddock_e2e::{Caller, PATIENCE, Server, for_both_callers, until};
use serde_json::Value;

for_both_callers!(
    help_and_other_tools_words_lead_somewhere,
    commands_that_change_a_sandbox_print_json,
    a_full_quota_says_that_it_waits
);

fn help_and_other_tools_words_lead_somewhere(caller: &Caller) -> Result<()> {
    let run = |words: &[&str]| caller.paddock(words)?.finish();
    ensure!(run(&["help"])?.success()?.contains("Usage: paddock"), "no help");
    ensure!(run(&["help", "create"])?.success()?.contains("--ttl"), "no help of a command");
    for (theirs, ours) in [("list", "ps"), ("delete", "kill"), ("ssh", "exec -it"), ("upload", "cp")] {
        let said = run(&[theirs])?;
        ensure!(said.exited(2)?.err().contains(&format!("did you mean `paddock {ours}")), "{}", said.err());
    }
    ensure!(run(&["creat"])?.err().contains("'create'"), "a slip of the finger is not understood");
    let groups = [
        "token", "pool", "volume", "job", "template", "snapshot", "audit", "script", "resource", "context",
        "secret", "server", "node",
    ];
    for group in groups {
        let help = run(&[group, "--help"])?.success()?;
        ensure!(help.contains("Example") && help.contains(&format!("paddock {group} ")), "{group}: {help}");
    }
    Ok(())
}

fn commands_that_change_a_sandbox_print_json(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&["--ttl", "1h30m"])?;
    let told =
        |words: &[&str]| -> Result<Value> { Ok(serde_json::from_str(&server.run(words)?.success()?)?) };
    let inspected = told(&["inspect", &id])?;
    let lives = inspected["expires_at_ms"].as_u64().zip(inspected["created_at_ms"].as_u64());
    ensure!(
        lives.is_some_and(|(end, begin)| (5_399_000..=5_401_000).contains(&(end - begin))),
        "{inspected}"
    );
    let file = caller.file("note.txt", "hello")?.display().to_string();
    let inside = format!("{id}:/tmp/note.txt");
    let copied = told(&["cp", "--json", &file, &inside])?;
    ensure!(
        copied["destination"] == inside.as_str() && copied["left_out"] == serde_json::json!([]),
        "{copied}"
    );
    let both = server.run(["cp", "--json", &inside, "-"])?;
    ensure!(both.exited(1)?.err().contains("--json"), "{}", both.err());
    for (command, state) in [("hibernate", "hibernated"), ("wake", "running"), ("kill", "ended")] {
        let sandbox = told(&[command, "--json", &id])?;
        ensure!(sandbox["id"] == id.as_str() && sandbox["state"] == state, "{command}: {sandbox}");
    }
    Ok(())
}

fn a_full_quota_says_that_it_waits(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    server.run(["quota", "owner", "--sandboxes", "1"])?.success()?;
    let first = server.create(&[])?;
    let mut waiting = server.paddock(["create"])?.start()?;
    until(PATIENCE, "word of the quota", || {
        waiting.errors().contains("is full (1 of 1 sandboxes): waiting for room").then_some(())
    })?;
    server.run(["kill", &first])?.success()?;
    waiting.close_input();
    let made = waiting.finish()?.success()?;
    ensure!(made.starts_with("sb-"), "{made}");
    Ok(())
}
