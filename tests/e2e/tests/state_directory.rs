//! A server whose state directory goes bad under it: full, read-only, damaged. Acknowledged data stays, failures are
//! told, sandboxes live on, and all is well when the directory is.

use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, PATIENCE, Server, for_both_callers, skip, until};
use serde_json::json;

for_both_callers!(
    a_full_disk_of_the_server,
    a_full_disk_inside,
    a_restart_on_a_full_disk,
    a_sandbox_can_be_ended_on_a_full_disk,
    read_only_at_the_start,
    read_only_while_it_serves,
    a_disk_that_fails_while_it_serves,
    a_damaged_database,
    a_start_that_fails_harms_no_sandbox,
    a_removed_one_loses_nothing_to_a_second_server,
);

/// The lock in it goes with it; the sandboxes of the server that still runs are no second server's to end. Root's second server is refused.
fn a_removed_one_loses_nothing_to_a_second_server(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    server.script(&id, "echo kept > /tmp/f")?.success()?;
    let (state, aside) = (caller.state(), caller.place().join("aside"));
    std::fs::rename(&state, &aside)?;
    let refused = server.ask("POST", "/v1/sandboxes", Some(&json!({})))?;
    refused.refused(503, "storage_failed")?;
    ensure!(refused.text().contains("was removed or replaced"), "{}", refused.text());
    ensure!(server.ask("GET", "/readyz", None)?.ok().is_err(), "a server without its state is ready");

    let socket = caller.home().join("second.sock").display().to_string();
    let second = caller.paddock(["serve", "--socket", &socket])?;
    if caller.is_root {
        let second = second.finish()?;
        let said = second.exited(1)?.err();
        ensure!(said.contains("still runs whose state directory"), "{said}");
        ensure!(said.contains(&format!("kill {}", server.process()?)), "{said}");
    } else {
        // Everything that names a sandbox of an ordinary user went with the directory: a server in a new one knows none to end.
        let second = second.start()?;
        until(PATIENCE, "the second server", || std::path::Path::new(&socket).exists().then_some(()))?;
        second.signal(rustix::process::Signal::TERM)?;
        second.finish()?.success()?;
    }
    // Files inside can be read.
    let found = server.ask("GET", &format!("/v1/sandboxes/{id}/files/content?path=/tmp/f"), None)?;
    assert_eq!(found.ok()?.text(), "kept\n");

    std::fs::remove_dir_all(&state)?;
    std::fs::rename(&aside, &state)?;
    assert_eq!(server.script(&id, "cat /tmp/f")?.success()?, "kept\n");
    Ok(())
}

/// Enough for root's storage of its own; ordinary users have none.
fn small(caller: &Caller) -> Result<Option<&paddock_e2e::FileSystem>> {
    if !rustix::process::geteuid().is_root() {
        skip("state_directory", "only root can mount a small disk");
        return Ok(None);
    }
    caller.put_state_on_a_small_disk(if caller.is_root { 2048 } else { 64 }).map(Some)
}

fn a_full_disk_of_the_server(caller: &Caller) -> Result<()> {
    let Some(disk) = small(caller)? else { return Ok(()) };
    let server = Server::start(caller)?;
    let id = server.create(&["--name", "early"])?;
    server.script(&id, "echo kept > /tmp/f; echo before")?.success()?;
    // It prints while there is room, while there is none, and again when there is.
    let script = "i=0; while [ ! -e /tmp/stop ]; do echo line $i; i=$((i+1)); sleep 0.02; done; echo end";
    let number = server.run(["exec", "-d", &id, "--", "sh", "-c", script])?.success()?.trim().to_string();
    until(PATIENCE, "some output", || {
        server.run(["logs", &id, &number]).ok().filter(|logs| logs.out().contains("line 2\n"))
    })?;
    disk.fill()?;

    let of = format!("/v1/sandboxes/{id}");
    let created = server.ask("POST", "/v1/sandboxes", Some(&json!({})))?;
    let executed =
        server.ask("POST", &format!("{of}/execs"), Some(&json!({"command": "head -c 3000000 /dev/zero"})))?;
    let written = server.send("PUT", &format!("{of}/files/content?path=/tmp/w"), "", b"written")?;
    let kept = server.ask("POST", &format!("{of}/snapshots"), Some(&json!({})))?;
    let forked = server.ask("POST", &format!("{of}/fork"), Some(&json!({"count": 2})))?;
    for (what, answer) in [("create", &created), ("exec", &executed), ("snapshot", &kept), ("fork", &forked)]
    {
        answer.refused(507, "disk_full").context(what)?;
        ensure!(!answer.json()?["hint"].is_null(), "{what}: {}", answer.text());
    }
    // Its own disk has room, and its guest needs nothing of the server's.
    written.ok()?;
    for target in
        ["/v1/sandboxes", &of, "/healthz", &format!("{of}/execs"), &format!("{of}/files/content?path=/tmp/f")]
    {
        server.ask("GET", target, None)?.ok().context(target.to_string())?;
    }
    std::thread::sleep(std::time::Duration::from_millis(500));

    disk.free()?;
    server.script(&id, "touch /tmp/stop; cat /tmp/f /tmp/w")?.success()?;
    let waited = server.ask("GET", &format!("{of}/execs/{number}/wait?timeout_seconds=20"), None)?.json()?;
    ensure!(waited["state"] == "ended" && waited["exit_code"] == 0, "{waited}");
    let log = server.run(["logs", &id, &number])?.out();
    ensure!(log.starts_with("line 0\nline 1\nline 2\n") && log.ends_with("end\n"), "{log}");
    assert_eq!(server.script(&id, "echo after")?.success()?, "after\n");
    server.create(&["--name", "late"])?;
    server.ask("POST", &format!("{of}/snapshots"), Some(&json!({})))?.ok()?;
    server.ask("POST", &format!("{of}/fork"), Some(&json!({"count": 2})))?.ok()?;
    Ok(())
}

/// The sandbox's own limit, which touches no other disk.
fn a_full_disk_inside(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&["--disk", "16MiB"])?;
    let of = format!("/v1/sandboxes/{id}");
    let filled = server
        .script(&id, "head -c 8000000 /dev/urandom > /tmp/a; head -c 40000000 /dev/urandom > /tmp/b")?;
    ensure!(filled.code != 0, "40 MB fit into 16 MiB");
    let large = vec![7; 24 << 20];
    let refused = server.send("PUT", &format!("{of}/files/content?path=/tmp/large"), "", &large)?;
    refused.refused(507, "disk_full")?;
    let exists = server.ask("GET", &format!("{of}/files/exists?path=/tmp/large"), None)?.json()?;
    assert_eq!(exists, json!({"exists": false}));
    // Output is not on that disk.
    let printed = server.script(&id, "head -c 300000 /dev/zero | tr '\\0' x")?;
    assert_eq!(printed.success()?.len(), 300_000);
    let other = server.create(&[])?;
    server.script(&other, "echo fine > /tmp/f && cat /tmp/f")?.success()?;
    server.script(&id, "rm /tmp/a /tmp/b; echo again > /tmp/c; cat /tmp/c")?.success()?;
    Ok(())
}

fn a_restart_on_a_full_disk(caller: &Caller) -> Result<()> {
    let Some(disk) = small(caller)? else { return Ok(()) };
    let mut server = Server::start(caller)?;
    let id = server.create(&[])?;
    server.script(&id, "echo kept > /tmp/f")?.success()?;
    let script = "echo begin; while [ ! -e /tmp/stop ]; do sleep 0.05; done; echo end; exit 4";
    let number = server.run(["exec", "-d", &id, "--", "sh", "-c", script])?.success()?.trim().to_string();
    // Output that was shown is kept; output on a full disk is counted as missing.
    until(PATIENCE, "the first line", || {
        server.run(["logs", &id, &number]).ok().filter(|logs| logs.out() == "begin\n")
    })?;
    disk.fill()?;
    server.kill()?;
    // It either serves, or tells the reason; it never takes the sandbox with it.
    let mut said = None;
    if server.start_again().is_err() {
        said = Some(server.fails_to_start()?);
    }
    if let Some(said) = said {
        ensure!(said.exited(1)?.err().contains("no room left on the disk"), "{}", said.err());
        ensure!(said.err().contains("hint: "), "{}", said.err());
    } else {
        server.kill()?;
    }
    disk.free()?;
    server.start_again()?;
    assert_eq!(server.script(&id, "cat /tmp/f; touch /tmp/stop")?.success()?, "kept\n");
    let ended = server.run(["logs", "-f", &id, &number])?;
    assert_eq!(ended.out(), "begin\nend\n");
    Ok(())
}

/// Ending it may be what makes room.
fn a_sandbox_can_be_ended_on_a_full_disk(caller: &Caller) -> Result<()> {
    let Some(disk) = small(caller)? else { return Ok(()) };
    let mut server = Server::start(caller)?;
    let (killed, short) = (server.create(&[])?, server.create(&["--ttl", "2s"])?);
    let lives = server.create(&[])?;
    disk.fill()?;
    server.run(["kill", &killed])?.success()?;
    let shown = |server: &Server, id: &str| server.ask("GET", &format!("/v1/sandboxes/{id}"), None)?.json();
    until(PATIENCE, "the end of a time to live", || {
        shown(&server, &short).ok().filter(|seen| seen["end"]["cause"]["kind"] == "time_to_live")
    })?;
    assert_eq!(shown(&server, &killed)?["end"]["cause"]["kind"], "killed");
    assert_eq!(shown(&server, &lives)?["state"], "running");
    disk.free()?;
    // Ends that could not be stored then are stored now, and outlive the server.
    until(PATIENCE, "stored ends", || {
        let listed = server.ask("GET", "/v1/sandboxes?state=ended", None).ok()?.json().ok()?;
        (listed["sandboxes"].as_array()?.len() == 2).then_some(())
    })?;
    server.kill()?;
    server.start_again()?;
    assert_eq!(shown(&server, &killed)?["end"]["cause"]["kind"], "killed");
    assert_eq!(shown(&server, &short)?["end"]["cause"]["kind"], "time_to_live");
    assert_eq!(server.script(&lives, "echo alive")?.success()?, "alive\n");
    Ok(())
}

fn read_only_at_the_start(caller: &Caller) -> Result<()> {
    let Some(disk) = small(caller)? else { return Ok(()) };
    let mut server = Server::start(caller)?;
    let id = server.create(&[])?;
    server.kill()?;
    disk.make_read_only()?;
    let said = server.fails_to_start()?;
    ensure!(said.exited(1)?.err().contains("cannot be written"), "{}", said.err());
    ensure!(said.err().contains("hint: ") && said.err().contains("Read-only file system"), "{}", said.err());
    disk.make_writable()?;
    server.start_again()?;
    assert_eq!(server.script(&id, "echo alive")?.success()?, "alive\n");
    Ok(())
}

fn read_only_while_it_serves(caller: &Caller) -> Result<()> {
    let Some(disk) = small(caller)? else { return Ok(()) };
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    server.script(&id, "echo kept > /tmp/f")?.success()?;
    disk.make_read_only()?;
    let of = format!("/v1/sandboxes/{id}");
    for (target, body) in [
        ("/v1/sandboxes".to_string(), json!({})),
        (format!("{of}/execs"), json!({"command": "echo x"})),
        (format!("{of}/snapshots"), json!({})),
        (format!("{of}/fork"), json!({"count": 2})),
    ] {
        let answer = server.ask("POST", &target, Some(&body))?;
        let failed = answer.refused(503, "storage_failed").map(drop);
        // A request that needs no new file goes on.
        ensure!(failed.is_ok() || answer.ok().is_ok(), "{target}: {}", answer.text());
    }
    assert_eq!(server.ask("GET", &of, None)?.json()?["state"], "running");
    disk.make_writable()?;
    assert_eq!(server.script(&id, "cat /tmp/f")?.success()?, "kept\n");
    server.create(&[])?;
    server.ask("POST", &format!("{of}/snapshots"), Some(&json!({})))?.ok()?;
    Ok(())
}

/// No write comes through any more, not even to files that are open. Reading goes on, and so do sandboxes.
fn a_disk_that_fails_while_it_serves(caller: &Caller) -> Result<()> {
    let Some(disk) = small(caller)? else { return Ok(()) };
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    disk.fail()?;
    let of = format!("/v1/sandboxes/{id}");
    for (target, body) in [
        ("/v1/sandboxes".to_string(), json!({})),
        (format!("{of}/execs"), json!({"command": "echo x"})),
        (format!("{of}/snapshots"), json!({})),
        (format!("{of}/extend"), json!({"ttl_seconds": 60})),
    ] {
        let answer = server.ask("POST", &target, Some(&body))?;
        answer.refused(503, "storage_failed").with_context(|| target)?;
    }
    assert_eq!(server.ask("GET", &of, None)?.json()?["state"], "running");
    server.ask("GET", "/healthz", None)?.ok()?;
    // It can still be ended.
    server.run(["kill", &id])?.success()?;
    assert_eq!(server.ask("GET", &of, None)?.json()?["state"], "ended");
    Ok(())
}

fn a_damaged_database(caller: &Caller) -> Result<()> {
    let mut server = Server::start(caller)?;
    let id = server.create(&["--name", "survivor"])?;
    server.script(&id, "echo kept > /tmp/f")?.success()?;
    server.kill()?;
    let database = caller.state().join("paddock.db");
    for name in ["paddock.db-wal", "paddock.db-shm"] {
        let _ = std::fs::remove_file(caller.state().join(name));
    }
    let size = std::fs::metadata(&database)?.len().max(65_536) as usize;
    std::fs::write(&database, vec![0x5a; size])?;
    let said = server.fails_to_start()?;
    ensure!(said.exited(1)?.err().contains("is damaged"), "{}", said.err());
    ensure!(said.err().contains("hint: move "), "{}", said.err());
    // As the hint says.
    std::fs::rename(&database, caller.state().join("aside.db"))?;
    server.start_again()?;
    assert_eq!(server.script("survivor", "cat /tmp/f")?.success()?, "kept\n");
    Ok(())
}

/// Any error that stops a server which had already taken its sandboxes over.
fn a_start_that_fails_harms_no_sandbox(caller: &Caller) -> Result<()> {
    let mut server = Server::start(caller)?;
    let id = server.create(&[])?;
    let number = server.run([
        "exec",
        "-d",
        &id,
        "--",
        "sh",
        "-c",
        "while [ ! -e /tmp/stop ]; do sleep 0.05; done; exit 3",
    ])?;
    let number = number.success()?.trim().to_string();
    server.kill()?;
    let said = caller.paddock(["serve", "--socket", "/proc/nowhere/api.sock"])?.finish()?;
    ensure!(said.exited(1)?.err().contains("error: cannot listen"), "{}", said.err());
    let taken = std::net::TcpListener::bind("127.0.0.1:0")?;
    let socket = server.socket().display().to_string();
    let address = taken.local_addr()?.to_string();
    caller.paddock(["serve", "--socket", &socket, "--listen", &address])?.finish()?.exited(1)?;
    server.start_again()?;
    server.script(&id, "touch /tmp/stop")?.success()?;
    let waited = server
        .ask("GET", &format!("/v1/sandboxes/{id}/execs/{number}/wait?timeout_seconds=20"), None)?
        .json()?;
    assert_eq!(waited["exit_code"], 3, "{waited}");
    Ok(())
}
