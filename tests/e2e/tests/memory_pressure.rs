//! A host that is short of memory: the server sheds load by policy before the kernel chooses.

use crate::pools::{filled, pool, set};
use anyhow::{Context, Result, ensure};
use paddock_e2e::{Answer, Caller, PATIENCE, Server, as_root, for_both_callers, skip, until};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

for_both_callers!(only_what_its_owner_allows_is_shed_and_then_creates_are_refused);

const MIB: u64 = 1 << 20;
const KEEP_FREE: &str = "200MiB";
const KEEP_FREE_BYTES: u64 = 200 * MIB;
/// The limit before the size of one sandbox is known.
const FIRST_LIMIT: u64 = 2048 * MIB;
/// More than any host has.
const MORE_THAN_THERE_IS: &str = "1000TiB";
const HELD_BY_EACH: u64 = 80 * MIB;

fn made(server: &Server, options: &Value) -> Result<String> {
    let sandbox = server.api("POST", "/v1/sandboxes", Some(options))?.expect(201)?;
    Ok(sandbox["id"].as_str().context("no id")?.to_string())
}

fn create(server: &Server) -> Result<Answer> {
    server.api("POST", "/v1/sandboxes", Some(&json!({})))
}

fn state(server: &Server, id: &str) -> Result<String> {
    let sandbox = server.api("GET", &format!("/v1/sandboxes/{id}"), None)?.expect(200)?;
    Ok(sandbox["state"].as_str().context("no state")?.to_string())
}

fn until_it_sleeps(server: &Server, id: &str) -> Result<()> {
    until(PATIENCE, "a sandbox that sleeps", || (state(server, id).ok()? == "hibernated").then_some(()))
}

/// Why it changed to this, as its timeline has it.
fn reason(server: &Server, id: &str, change: &str) -> Result<Value> {
    let lines = server.api("GET", &format!("/v1/sandboxes/{id}/audit"), None)?.lines()?;
    let is_it = |line: &&Value| line.to_string().contains(&format!("\"change\":\"{change}\""));
    lines.iter().find(is_it).cloned().with_context(|| format!("no entry for {change}: {lines:?}"))
}

fn metric(server: &Server, name: &str) -> Result<u64> {
    let text = server.api("GET", "/metrics", None)?.text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    Ok(line.with_context(|| format!("no {name}"))?.trim().parse::<f64>()? as u64)
}

/// Holds memory in an interpreter that waits, and something on the disk.
fn fill(server: &Server, id: &str) -> Result<()> {
    let code = format!(
        "held = bytearray(b'x') * {HELD_BY_EACH}\nopen('/workspace/data', 'w').write('{id}')\nlen(held)"
    );
    let path = format!("/v1/sandboxes/{id}/code");
    let answer = server.api("POST", &path, Some(&json!({ "code": code })))?.expect(200)?;
    ensure!(answer["exit_code"] == 0, "{answer}");
    Ok(())
}

fn read(server: &Server, id: &str) -> Result<String> {
    let path = format!("/v1/sandboxes/{id}/files/content?path=/workspace/data");
    let answer = server.api("GET", &path, None)?;
    Ok(answer.ok()?.text())
}

/// The server's log without the answered requests.
fn told(server: &Server) -> String {
    server.errors().lines().filter(|line| !line.contains("answered status=2")).collect::<Vec<_>>().join("\n")
}

/// The cgroup in which this caller's server and its sandboxes are, where there is one that can have a limit.
fn memory_group(caller: &Caller) -> Option<PathBuf> {
    caller.cgroups().iter().find(|group| group.join("memory.limit_in_bytes").exists()).cloned()
}

fn kills(group: &Path) -> Result<u64> {
    let text = std::fs::read_to_string(group.join("memory.oom_control"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
    // Kernels before 4.13 do not count them; there the sandboxes themselves tell.
    Ok(line.map_or(Ok(0), str::parse)?)
}

#[test]
fn the_least_recently_used_sleep_before_the_kernel_kills() -> Result<()> {
    let name = "memory_pressure::the_least_recently_used_sleep_before_the_kernel_kills";
    as_root(name, |caller| {
        let Some(group) = memory_group(caller) else {
            skip(
                "memory_pressure::the_least_recently_used_sleep_before_the_kernel_kills",
                "no cgroup of version 1 around server and sandboxes can be given a limit (on version 2 root's sandboxes are at the top)",
            );
            return Ok(());
        };
        let limit = |bytes: u64| std::fs::write(group.join("memory.limit_in_bytes"), bytes.to_string());
        limit(FIRST_LIMIT)?;
        let server = Server::start_with(caller, &["--keep-free", KEEP_FREE, "--ready-memory", "0"])?;
        let available = || metric(&server, "paddock_memory_available_bytes");
        // Its interpreter would be lost, and its owner has set nothing: it stays, though it was used first.
        let silent = made(&server, &json!({}))?;
        let before = available()?;
        fill(&server, &silent)?;
        let after = available()?;
        let each = before.saturating_sub(after);
        ensure!(each >= HELD_BY_EACH, "{before} and then {after} bytes are left");
        // There is room for two and a half more above the memory that is kept free, and six come.
        limit(FIRST_LIMIT - after + KEEP_FREE_BYTES + each * 5 / 2)?;
        let mut used: Vec<String> = Vec::new();
        for number in 0..6 {
            let room = || available().ok().filter(|left| *left >= KEEP_FREE_BYTES);
            until(PATIENCE, "room for another", room).with_context(|| told(&server))?;
            let willing = json!({ "under_pressure": "hibernate" });
            let id = until(PATIENCE, "another sandbox", || made(&server, &willing).ok())?;
            fill(&server, &id)?;
            used.push(id);
            if number == 1 {
                // From now on the second is the least recently used.
                fill(&server, &used[0])?;
                used.swap(0, 1);
            }
        }
        let shown = || {
            let all = used.iter().map(|id| state(&server, id)).collect::<Result<Vec<_>>>().ok()?;
            let sleeping = all.iter().take_while(|state| *state == "hibernated").count();
            let others_run = all.iter().skip(sleeping).all(|state| state == "running");
            let enough = available().ok()? >= KEEP_FREE_BYTES;
            (sleeping > 0 && others_run && enough).then_some(sleeping)
        };
        let sleeping = until(PATIENCE, "enough memory, by those that were used longest ago", shown)
            .with_context(|| told(&server))?;
        ensure!(sleeping < used.len(), "the one that was used last sleeps too");
        ensure!(state(&server, &silent)? == "running", "nobody allowed that it sleeps");
        ensure!(metric(&server, "paddock_sandboxes_shed_total")? >= sleeping as u64);
        let why = reason(&server, &used[0], "hibernated")?.to_string();
        ensure!(why.contains("memory pressure"), "{why}");
        ensure!(kills(&group)? == 0, "the kernel has killed");
        // Everything that was on a disk is there. A wake may be refused until others sleep for it.
        for id in used.iter().chain([&silent]) {
            let data = until(PATIENCE, "an answer", || read(&server, id).ok())?;
            ensure!(data == *id, "{id}: {data}");
        }
        ensure!(kills(&group)? == 0, "the kernel has killed");
        Ok(())
    })
}

fn only_what_its_owner_allows_is_shed_and_then_creates_are_refused(caller: &Caller) -> Result<()> {
    let plenty = ["--keep-free", "0", "--ready-memory", "0"];
    let mut server = Server::start_with(caller, &plenty)?;
    let keep = made(&server, &json!({ "under_pressure": "keep" }))?;
    let busy = made(&server, &json!({ "under_pressure": "hibernate" }))?;
    let idle = made(&server, &json!({ "under_pressure": "hibernate" }))?;
    // Nothing runs in it, which only the kernel's count of processes tells: not every ordinary user has that.
    let silent = if caller.is_root { Some(made(&server, &json!({}))?) } else { None };
    let persistent = made(&server, &json!({ "persistent": true }))?;
    server.script(&idle, "printf kept > /workspace/data")?.success()?;
    let sleep = json!({ "command": "sleep 1000", "background": true });
    server.api("POST", &format!("/v1/sandboxes/{busy}/execs"), Some(&sleep))?.ok()?;
    set(&server, "code-interpreter", 1, 2)?;
    filled(&server, "code-interpreter", 1)?;

    server.stop()?;
    server.start_again_with(&["--keep-free", MORE_THAN_THERE_IS, "--ready-memory", "0"])?;
    until_it_sleeps(&server, &idle)?;
    if let Some(id) = &silent {
        until_it_sleeps(&server, id)?;
    }
    // There may have been room while they fell asleep. When they are counted that is over, or will be found out anew.
    let asleep = 1 + silent.iter().len() as u64;
    let counted = || metric(&server, "paddock_sandboxes_shed_total").ok().filter(|count| *count >= asleep);
    until(PATIENCE, "a count of those that sleep", counted)?;
    until(PATIENCE, "a server that is not ready", || {
        let answer = server.api("GET", "/readyz", None).ok()?;
        answer.refused(503, "host_out_of_memory").is_ok().then_some(())
    })?;
    let refused = create(&server)?;
    refused.refused(503, "host_out_of_memory")?;
    ensure!(refused.head.to_ascii_lowercase().contains("retry-after"), "{}", refused.head);
    ensure!(refused.json()?["hint"].as_str().is_some_and(|hint| hint.contains("--keep-free")));
    // A wake would need memory that is not there.
    let file = format!("/v1/sandboxes/{idle}/files/content?path=/workspace/data");
    server.api("GET", &file, None)?.refused(503, "host_out_of_memory")?;
    // Sandboxes that are awake go on.
    for id in [&keep, &busy, &persistent] {
        ensure!(state(&server, id)? == "running", "{id}");
        ensure!(server.script(id, "echo works")?.success()? == "works\n");
    }
    let empty = until(PATIENCE, "an empty pool", || {
        let pool = pool(&server, "code-interpreter").ok()?;
        (pool["ready"] == 0 && pool["making"] == 0).then_some(pool)
    })?;
    ensure!(empty["wanted"] == 0, "{empty}");
    let allow = json!({ "under_pressure": "hibernate" });
    server.api("PATCH", &format!("/v1/sandboxes/{keep}"), Some(&allow))?.expect(200)?;
    until_it_sleeps(&server, &keep)?;

    server.stop()?;
    server.start_again_with(&plenty)?;
    ensure!(read(&server, &idle)? == "kept");
    ensure!(server.script(&keep, "echo awake")?.success()? == "awake\n");
    filled(&server, "code-interpreter", 1)?;
    create(&server)?.expect(201).map(drop)
}
