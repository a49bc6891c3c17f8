//! G: the API and the host's own tools as a way around the fence; with F7 and B14, which only the API makes possible.

use super::{CANARY, query, unharmed, with_token, write_canary};
use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, PATIENCE, Server, Tar, for_both_callers, until};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::Duration;

for_both_callers!(
    g1_paths_that_lead_out,
    g3_files_that_never_end,
    g4_writing_through_a_planted_link,
    g5_archives_that_reach_out,
    g9_ids_that_are_paths,
    g10_mounts_of_the_host,
    g11_escape_sequences,
    g12_a_forged_end,
    g14_what_is_anothers,
    g16_the_socket,
    g18_ports_of_the_host,
    g21_a_child_with_a_weaker_policy,
    g23_a_demand_that_cannot_be_met,
    f7_uniform_errors,
    b14_a_process_that_took_the_number,
);

fn g1_paths_that_lead_out(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let canary = caller.home().join("canary");
    write_canary(&canary)?;
    // The control: out here the same path leads to it.
    let up = format!("/tmp{}{}", "/..".repeat(40), canary.display());
    assert_eq!(std::fs::read_to_string(&up)?, CANARY);
    let id = server.create(&[])?;
    let of = format!("/v1/sandboxes/{id}/files");
    let host = canary.display().to_string();
    let linked = "/tmp/link-out";
    server.script(&id, &format!("ln -s {host} {linked}; ln -s / /tmp/root"))?.success()?;
    let long = format!("/tmp/{}", "x".repeat(5000));
    let encoded = up.replace("..", "%2e%2e");
    let through_root = format!("/tmp/root{host}");
    let paths = [
        up.as_str(),
        &host,
        linked,
        &through_root,
        "../../../../etc/shadow",
        "/proc/1/root/etc/shadow",
        "/tmp/a\0b",
        "",
        &long,
    ];
    for path in paths {
        let path = query(path);
        for (method, target, body) in [
            ("GET", format!("{of}/content?path={path}"), None),
            ("GET", format!("{of}/stat?path={path}/x"), None),
            ("GET", format!("{of}?path={path}/x"), None),
            ("DELETE", format!("{of}?path={path}/x"), None),
            ("GET", format!("{of}/archive?path={path}/x"), None),
            ("POST", format!("{of}/move"), Some(json!({"from": "/tmp/nothing", "to": path}))),
        ] {
            let answer = server.ask(method, &target, body.as_ref())?;
            answer.refused_somehow().with_context(|| format!("{method} {target}"))?;
            ensure!(!answer.text().contains(CANARY.trim()), "{method} {target} read the host");
        }
        let written = server.send("PUT", &format!("{of}/content?path={path}/evil"), "", b"evil")?;
        written.refused_somehow().with_context(|| format!("write {path}"))?;
    }
    // Percent signs of a path are not decoded a second time.
    server
        .ask("GET", &format!("{of}/content?path={}", query(&encoded)), None)?
        .refused(404, "file_not_found")?;
    server.ask("GET", &format!("/v1/sandboxes/{id}/%2e%2e/%2e%2e/tokens"), None)?.refused_somehow()?;
    assert_eq!(std::fs::read_to_string(&canary)?, CANARY);
    unharmed(&server)
}

fn g3_files_that_never_end(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    let of = format!("/v1/sandboxes/{id}/files");
    let made = "cd /tmp; mkfifo pipe; ln -s /dev/zero endless; ln -s pipe to-pipe; ln -s loop loop; \
                python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"/tmp/socket\")'; mkdir folder; \
                truncate -s 1T sparse";
    server.script(&id, made)?.success()?;
    // The control: such a pipe does hang a program that opens it.
    server.run(["exec", "--timeout", "500ms", &id, "--", "cat", "/tmp/pipe"])?.exited(124)?;
    for path in [
        "/tmp/pipe",
        "/tmp/to-pipe",
        "/dev/zero",
        "/dev/random",
        "/tmp/endless",
        "/dev/tty",
        "/tmp/socket",
        "/tmp/loop",
        "/tmp/folder",
        "/proc/kmsg",
        "/proc/1/mem",
        "/proc/self/mem",
    ] {
        let answer = server.ask("GET", &format!("{of}/content?path={path}"), None)?;
        answer.refused_somehow().with_context(|| path)?;
    }
    // A file without an end that one would wait for is read in parts.
    let part =
        server.ask("GET", &format!("{of}/content?path=/tmp/sparse&offset=1000000000000&length=10"), None)?;
    assert_eq!(part.ok()?.body, [0; 10]);
    let listed = server.ask("GET", &format!("{of}?path=/tmp"), None)?.ok()?.text();
    ensure!(listed.contains("pipe") && listed.contains("socket"), "{listed}");
    unharmed(&server)
}

fn g4_writing_through_a_planted_link(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let workspace = caller.directory("workspace")?;
    let canary = caller.home().join("canary");
    write_canary(&canary)?;
    caller.own(&canary)?;
    // The control: out here a write through such a link arrives.
    let control = caller.home().join("control");
    write_canary(&control)?;
    let link = caller.home().join("link");
    std::os::unix::fs::symlink(&control, &link)?;
    std::fs::write(&link, "changed")?;
    assert_eq!(std::fs::read_to_string(&control)?, "changed");
    let id = server.create(&["--workspace", &workspace.display().to_string()])?;
    let host = canary.display();
    server
        .script(
            &id,
            &format!("ln -s {host} /workspace/planted; ln -s {host} /tmp/planted; ln -s / /tmp/root"),
        )?
        .success()?;
    let of = format!("/v1/sandboxes/{id}/files");
    for path in ["/workspace/planted", "/tmp/planted", &format!("/tmp/root{host}")] {
        // The link is replaced, or the path does not exist inside: either way nothing arrives outside.
        let written = server.send("PUT", &format!("{of}/content?path={}", query(path)), "", b"evil")?;
        ensure!(written.status < 500, "{path}: {} {}", written.status, written.text());
        let mode = json!({"path": path, "mode": 0o777});
        ensure!(server.ask("POST", &format!("{of}/mode"), Some(&mode))?.status < 500, "{path}");
    }
    assert_eq!(std::fs::read_to_string(&canary)?, CANARY);
    ensure!(canary.metadata()?.permissions().mode() & 0o777 != 0o777, "its mode was changed");
    // A copy out of the sandbox through the host's own tool follows nothing either.
    server.script(&id, &format!("rm -f /tmp/planted; ln -s {host} /tmp/planted"))?.success()?;
    let out = caller.home().join("out").display().to_string();
    let copied = server.run(["cp", &format!("{id}:/tmp/planted"), &out])?;
    ensure!(
        copied.code != 0 || !std::fs::read_to_string(&out)?.contains(CANARY.trim()),
        "the host's file came out"
    );
    Ok(())
}

fn g5_archives_that_reach_out(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    server
        .script(&id, "mkdir /tmp/in /tmp/out; echo safe > /tmp/out/victim; chmod 700 /tmp/out")?
        .success()?;
    let target = format!("/v1/sandboxes/{id}/files/archive?path=/tmp/in");
    // The control: an honest archive goes in.
    let honest = Tar::default().directory("d").file("d/f", 0o644, b"x").finish();
    server.send("PUT", &target, "Content-Type: application/x-tar\r\n", &honest)?.ok()?;
    let cut = Tar::default().file("long", 0o644, &[7; 4096]).finish()[..1024].to_vec();
    let hostile: Vec<(&str, Vec<u8>)> = vec![
        ("dots", Tar::default().file("../out/new", 0o644, b"x").finish()),
        ("absolute", Tar::default().file("/tmp/out/new", 0o644, b"x").finish()),
        ("through a link", Tar::default().link("door", "../out").file("door/new", 0o644, b"x").finish()),
        ("a directory over a link", Tar::default().link("over", "/tmp/out").directory("over").finish()),
        ("a device", Tar::default().device("null").finish()),
        ("cut short", cut),
        ("no archive", vec![b'x'; 4096]),
    ];
    for (what, archive) in hostile {
        let answer = server.send("PUT", &target, "Content-Type: application/x-tar\r\n", &archive)?;
        answer.refused_somehow().context(what)?;
    }
    let setuid = Tar::default().file("suid", 0o6755, b"#!/bin/sh\n").finish();
    ensure!(
        server.send("PUT", &target, "Content-Type: application/x-tar\r\n", &setuid)?.status < 500,
        "setuid"
    );
    let seen = "ls -A /tmp/out; cat /tmp/out/victim; stat -c %a /tmp/out; find /tmp/in -perm /6000";
    assert_eq!(server.script(&id, seen)?.success()?, "victim\nsafe\n700\n");
    unharmed(&server)
}

fn g9_ids_that_are_paths(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&["--name", "used"])?;
    for name in [
        "../x",
        "a/b",
        "sb-1234567890abcdef",
        "\u{202e}gnp",
        "ａ",
        "é",
        "",
        " ",
        ".",
        "..",
        "A B",
        "a\nb",
        "a\0b",
    ] {
        let made = server.ask("POST", "/v1/sandboxes", Some(&json!({"name": name})))?;
        made.refused(400, "invalid_request").with_context(|| format!("{name:?}"))?;
        let snapshot =
            server.ask("POST", &format!("/v1/sandboxes/{id}/snapshots"), Some(&json!({"name": name})))?;
        snapshot.refused_somehow().with_context(|| format!("snapshot {name:?}"))?;
    }
    let long = "x".repeat(300);
    server.ask("POST", "/v1/sandboxes", Some(&json!({"name": long})))?.refused(400, "invalid_request")?;
    for segment in
        ["..%2fused", "%2e%2e", "%00", "%ff", "used%2f..%2fused", &long, "%F0%9F%90%8E", "used%0d%0aX:1"]
    {
        for rest in ["", "/execs", "/files?path=/", "/audit"] {
            let answer = server.ask("GET", &format!("/v1/sandboxes/{segment}{rest}"), None)?;
            answer.refused_somehow().with_context(|| format!("{segment}{rest}"))?;
        }
    }
    // A name and an id that were in use: taken while it lives, and the id is never given again.
    server.ask("POST", "/v1/sandboxes", Some(&json!({"name": "used"})))?.refused(409, "name_taken")?;
    server.run(["kill", "used"])?.success()?;
    let again = server.create(&["--name", "used"])?;
    ensure!(again != id, "an id was used twice");
    server
        .ask("POST", &format!("/v1/sandboxes/{id}/execs"), Some(&json!({"command": "true"})))?
        .refused(410, "sandbox_ended")?;
    Ok(())
}

fn g10_mounts_of_the_host(caller: &Caller) -> Result<()> {
    let server = Server::start_with(caller, &["--listen", "127.0.0.1:0"])?;
    let state = caller.state().display().to_string();
    for place in ["/", "/proc", "/sys", "/dev", state.as_str()] {
        let made = server.ask("POST", "/v1/sandboxes", Some(&json!({"workspace": place})))?;
        made.refused(400, "invalid_request").with_context(|| place.to_string())?;
    }
    // A link that is swapped after the check leads no further than it did.
    let (inside, link) = (caller.directory("real")?, caller.home().join("link"));
    std::os::unix::fs::symlink(&state, &link)?;
    let made =
        server.ask("POST", "/v1/sandboxes", Some(&json!({"workspace": link.display().to_string()})))?;
    made.refused(400, "invalid_request")?;
    std::fs::remove_file(&link)?;
    std::os::unix::fs::symlink(&inside, &link)?;
    let id = server.create(&["--workspace", &link.display().to_string()])?;
    std::fs::remove_file(&link)?;
    std::os::unix::fs::symlink(caller.home(), &link)?;
    server.script(&id, "echo x > /workspace/here")?.success()?;
    ensure!(
        inside.join("here").exists() && !caller.home().join("here").exists(),
        "it followed the swapped link"
    );
    // No tenant has anything of the host's at all.
    let token = server.run(["token", "create", "--tenant", "team"])?.success()?.trim().to_string();
    let url = server.url()?;
    for body in [
        json!({"workspace": "/srv"}),
        json!({"read": ["/etc"]}),
        json!({"write": ["/tmp"]}),
        json!({"image": "/"}),
    ] {
        let made = with_token(&url, &token, "POST", "/v1/sandboxes", Some(&body))?;
        made.refused(403, "forbidden").with_context(|| body.to_string())?;
    }
    Ok(())
}

fn g11_escape_sequences(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    const EVIL: &str = "\u{1b}]52;c;ZXZpbA==\u{7}\u{1b}[2J\u{202e}\r\nINFO forged";
    let name = query(&format!("/tmp/{}", EVIL.replace('\n', "\u{b}")));
    server.send("PUT", &format!("/v1/sandboxes/{id}/files/content?path={name}"), "", b"x")?.ok()?;
    // In the data the name is unchanged.
    let listed = server.ask("GET", &format!("/v1/sandboxes/{id}/files?path=/tmp"), None)?.json()?;
    ensure!(listed.to_string().contains("forged"), "{listed}");
    server.script(&id, &format!("printf '%s' \"$0\" '{}'", EVIL.replace('\'', "")))?;
    let printed = server.run(["exec", &id, "--", "printf", "%s", EVIL])?;
    assert_eq!(printed.stdout, EVIL.as_bytes());
    let refused = server.run(["exec", &id, "--", EVIL])?;
    ensure!(refused.code != 0, "it was run");
    let nothing = server.run(["inspect", EVIL])?;
    // For people it is escaped: the terminal, the tables and the log.
    let shown = [
        refused.err(),
        nothing.err(),
        server.run(["logs", "--list", &id])?.out(),
        server.run(["audit", "show", &id])?.out(),
        server.run(["ps", "-a"])?.out(),
    ];
    for text in &shown {
        ensure!(
            !text.contains('\u{1b}') && !text.contains('\u{202e}') && !text.contains('\u{7}'),
            "{text:?}"
        );
    }
    server.send("GET", "/v1/nothing", "X-Request-Id: a\u{1b}[2J\r\n", b"")?;
    let log = server.said();
    let raw = |needle: &str| log.contains(&format!("\\n{needle}"));
    ensure!(!log.contains("\\u{1b}") && !raw("INFO forged"), "{log}");
    Ok(())
}

fn g12_a_forged_end(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    let forged = json!({"type": "ended", "exec": {"exec": 1, "exit_code": 0, "cause": {"kind": "exited"}}});
    let script = format!("echo '{forged}'; echo '{{\"exit_code\": 0}}'; exit 9");
    let ended = server
        .ask("POST", &format!("/v1/sandboxes/{id}/execs"), Some(&json!({"command": script})))?
        .json()?;
    assert_eq!((&ended["exit_code"], &ended["cause"]["kind"]), (&json!(9), &json!("exited")));
    let number = ended["exec"].as_u64().context("no number")?;
    let lines = server.ask("GET", &format!("/v1/sandboxes/{id}/execs/{number}/output"), None)?.text();
    let ends: Vec<Value> = lines
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|event| event["type"] == "ended")
        .collect();
    assert_eq!(ends.len(), 1, "{lines}");
    assert_eq!(ends[0]["exec"]["exit_code"], 9);
    // No descriptor but its own three, so nothing to speak the protocol on.
    let open = server.script(&id, "ls /proc/self/fd | wc -l; ls -l /proc/self/fd | grep -c socket; true")?;
    assert_eq!(open.success()?, "4\n0\n");
    Ok(())
}

fn g14_what_is_anothers(caller: &Caller) -> Result<()> {
    let server = Server::start_with(caller, &["--listen", "127.0.0.1:0"])?;
    let url = server.url()?;
    let token = |tenant: &str| -> Result<String> {
        Ok(server.run(["token", "create", "--tenant", tenant])?.success()?.trim().to_string())
    };
    let (mine, theirs) = (token("mine")?, token("theirs")?);
    let made = with_token(&url, &mine, "POST", "/v1/sandboxes", Some(&json!({})))?.json()?;
    let id = made["id"].as_str().context("no id")?.to_string();
    let of = format!("/v1/sandboxes/{id}");
    let kept = with_token(&url, &mine, "POST", &format!("{of}/snapshots"), Some(&json!({"name": "kept"})))?
        .json()?;
    let snapshot = kept["id"].as_str().context("no snapshot")?.to_string();
    with_token(&url, &mine, "POST", &format!("{of}/execs"), Some(&json!({"command": "echo mine"})))?.ok()?;
    let requests: [(&str, &str, Option<Value>); 25] = [
        ("GET", "", None),
        ("PATCH", "", Some(json!({"metadata": {}}))),
        ("DELETE", "", None),
        ("GET", "/usage", None),
        ("POST", "/extend", Some(json!({"ttl_seconds": 1}))),
        ("POST", "/pause", None),
        ("POST", "/resume", None),
        ("POST", "/hibernate", None),
        ("POST", "/wake", None),
        ("POST", "/fork", Some(json!({"count": 1}))),
        ("POST", "/snapshots", Some(json!({}))),
        ("GET", "/execs", None),
        ("POST", "/execs", Some(json!({"command": "true"}))),
        ("GET", "/execs/1", None),
        ("DELETE", "/execs/1", None),
        ("GET", "/execs/1/output?follow=true", None),
        ("GET", "/execs/1/stdout", None),
        ("POST", "/code", Some(json!({"code": "1"}))),
        ("GET", "/files/content?path=/etc/passwd", None),
        ("GET", "/files/watch?path=/tmp", None),
        ("POST", "/files/sign", Some(json!({"path": "/tmp/x", "operation": "read", "expires_seconds": 60}))),
        ("POST", "/ports/sign", Some(json!({"port": 80, "expires_seconds": 60}))),
        ("GET", "/changes", None),
        ("GET", "/audit", None),
        ("GET", "/ports/80/", None),
    ];
    for (method, rest, body) in &requests {
        let ask = |id: &str| -> Result<(u16, String)> {
            let target = format!("/v1/sandboxes/{id}{rest}");
            let answer = with_token(&url, &theirs, method, &target, body.as_ref())?;
            let mut said = answer.json()?;
            said["request_id"] = json!("");
            Ok((answer.status, said.to_string().replace(id, "ID")))
        };
        let foreign = ask(&id)?;
        assert_eq!(foreign.0, 404, "{method} {rest}: {}", foreign.1);
        assert_eq!(foreign, ask("sb-0000000000000000")?, "{method} {rest}");
    }
    for (method, target) in
        [("GET", format!("/v1/snapshots/{snapshot}")), ("DELETE", "/v1/snapshots/kept".into())]
    {
        with_token(&url, &theirs, method, &target, None)?.refused(404, "snapshot_not_found")?;
    }
    let from = with_token(&url, &theirs, "POST", "/v1/sandboxes", Some(&json!({"snapshot": snapshot})))?;
    from.refused(404, "snapshot_not_found")?;
    for list in ["/v1/sandboxes", "/v1/snapshots"] {
        let listed = with_token(&url, &theirs, "GET", list, None)?;
        ensure!(
            !listed.ok()?.text().contains(&id) && !listed.text().contains(&snapshot),
            "{}",
            listed.text()
        );
    }
    // The control: for its own tenant all of it is there, and nothing of the above changed it.
    let seen = with_token(&url, &mine, "GET", &of, None)?.json()?;
    assert_eq!(seen["state"], "running", "{seen}");
    with_token(&url, &mine, "GET", &format!("/v1/snapshots/{snapshot}"), None)?.ok()?;
    Ok(())
}

fn g16_the_socket(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let found = server.socket().metadata()?;
    assert_eq!((found.mode() & 0o777, found.uid()), (0o600, caller.uid));
    drop(server);
    // A directory that others can write to, or that is a link, is no place for it; nor is a file that is there.
    let open = caller.directory("open")?;
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777))?;
    let link = caller.place().join("linked");
    std::os::unix::fs::symlink(&open, &link)?;
    let occupied = caller.file("occupied.sock", "somebody's file")?;
    for place in [open.join("api.sock"), link.join("api.sock"), occupied.clone()] {
        let said = caller.paddock(["serve", "--socket", &place.display().to_string()])?.finish()?;
        ensure!(said.exited(1)?.err().starts_with("error: "), "{}: {}", place.display(), said.err());
    }
    assert_eq!(std::fs::read_to_string(&occupied)?, "somebody's file");
    Ok(())
}

fn g18_ports_of_the_host(caller: &Caller) -> Result<()> {
    let server = Server::start_with(caller, &["--listen", "127.0.0.1:0", "--domain", "boxes.example"])?;
    let id = server.create(&[])?;
    // A service of the host's, and the server itself: the control is that they answer out here.
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    drop(std::net::TcpStream::connect(listener.local_addr()?)?);
    listener.accept()?;
    listener.set_nonblocking(true)?;
    let own = server.url()?.rsplit(':').next().unwrap_or_default().to_string();
    for number in [port.to_string(), own] {
        let answer = server.ask("GET", &format!("/v1/sandboxes/{id}/ports/{number}/"), None)?;
        answer.refused(502, "port_closed").with_context(|| number.clone())?;
    }
    ensure!(listener.accept().is_err(), "the host's service was reached");
    for number in ["0", "65536", "-1", "80@127.0.0.1", "169.254.169.254:80", "80%2f..", "x"] {
        server
            .ask("GET", &format!("/v1/sandboxes/{id}/ports/{number}/"), None)?
            .refused_somehow()
            .with_context(|| number)?;
    }
    // Every path goes inside.
    let closed =
        server.ask("GET", &format!("/v1/sandboxes/{id}/ports/{port}/http://169.254.169.254/"), None)?;
    closed.refused(502, "port_closed")?;
    Ok(())
}

fn g21_a_child_with_a_weaker_policy(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&["--pids", "32", "--memory", "128MiB"])?;
    let parent = server.ask("GET", &format!("/v1/sandboxes/{id}"), None)?.json()?;
    for field in ["network", "limits", "user", "write", "workspace", "image", "policy", "unprotect"] {
        let forked =
            server.ask("POST", &format!("/v1/sandboxes/{id}/fork"), Some(&json!({"count": 1, field: {}})))?;
        forked.refused(400, "unknown_field").with_context(|| field)?;
        ensure!(forked.text().contains(field), "the field is not named: {}", forked.text());
    }
    let forked =
        server.ask("POST", &format!("/v1/sandboxes/{id}/fork"), Some(&json!({"count": 1})))?.json()?;
    let child = &forked["sandboxes"][0];
    for field in ["limits", "guarantees"] {
        assert_eq!(child[field], parent[field], "{field}");
    }
    for field in ["network", "write", "require"] {
        let changed = server.ask("PATCH", &format!("/v1/sandboxes/{id}"), Some(&json!({field: {}})))?;
        changed.refused_somehow().with_context(|| field)?;
    }
    Ok(())
}

fn g23_a_demand_that_cannot_be_met(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let refused = server.ask("POST", "/v1/sandboxes", Some(&json!({"require": ["own-kernel"]})))?;
    refused.refused(422, "requirement_not_met")?;
    server.ask("POST", "/v1/sandboxes", Some(&json!({"require": ["no-such-thing"]})))?.refused_somehow()?;
    server
        .ask("POST", "/v1/sandboxes", Some(&json!({"backend": "imaginary"})))?
        .refused(400, "invalid_request")?;
    // Its missing guarantees are told.
    let made = server.ask("POST", "/v1/sandboxes", Some(&json!({})))?.json()?;
    let says = |field: &str| made["guarantees"][field].as_str().unwrap_or_default().to_string();
    for field in ["backend", "boundary", "memory_limit", "cpu_limit", "pids_limit", "seccomp"] {
        ensure!(!says(field).is_empty(), "{field} is not told: {made}");
    }
    Ok(())
}

fn f7_uniform_errors(caller: &Caller) -> Result<()> {
    let server = Server::start_with(caller, &["--listen", "127.0.0.1:0"])?;
    let (there, absent) = (caller.file("there", CANARY)?, caller.place().join("absent"));
    let (there, absent) = (there.display().to_string(), absent.display().to_string());
    let token = server.run(["token", "create", "--tenant", "team"])?.success()?.trim().to_string();
    let url = server.url()?;
    let made = with_token(&url, &token, "POST", "/v1/sandboxes", Some(&json!({})))?.json()?;
    let id = made["id"].as_str().context("no id")?.to_string();
    let of = format!("/v1/sandboxes/{id}");
    // Existing and missing paths look the same, for files inside and for demands for the host's.
    type Body = fn(&str) -> Value;
    let asks: [(&str, &str, Body); 4] = [
        ("POST", "/v1/sandboxes", |path| json!({"workspace": path})),
        ("POST", "/v1/sandboxes", |path| json!({"read": [path]})),
        ("POST", "/v1/sandboxes", |path| json!({"image": path})),
        ("POST", "/v1/sandboxes", |path| json!({"template": path})),
    ];
    let same =
        |method: &str, target: &dyn Fn(&str) -> String, body: &dyn Fn(&str) -> Option<Value>| -> Result<()> {
            let ask = |path: &str| -> Result<(u16, String)> {
                let answer = with_token(&url, &token, method, &target(path), body(path).as_ref())?;
                let mut said = answer.json()?;
                said["request_id"] = json!("");
                Ok((answer.status, said.to_string().replace(path, "PATH")))
            };
            assert_eq!(ask(&there)?, ask(&absent)?);
            Ok(())
        };
    for (method, target, body) in asks {
        same(method, &|_| target.into(), &|path| Some(body(path)))?;
    }
    for rest in ["content", "stat", "archive"] {
        same("GET", &|path| format!("{of}/files/{rest}?path={}", query(path)), &|_| None)?;
    }
    Ok(())
}

/// A command is named by a number that is never another's: a process that took its pid inside is safe.
fn b14_a_process_that_took_the_number(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    let of = format!("/v1/sandboxes/{id}/execs");
    let first = server.ask("POST", &of, Some(&json!({"command": "echo $$"})))?.json()?;
    let number = first["exec"].as_u64().context("no number")?;
    let process: u32 = first["stdout"].as_str().unwrap_or_default().trim().parse()?;
    // Pids are handed out in order, so another process gets this one before long.
    let victim = server
        .ask(
            "POST",
            &of,
            Some(&json!({"command": format!(
        "while :; do (exec sleep 0) & [ $! -ge {} ] && break; wait; done 2>/dev/null; echo ready; sleep 600",
        process + 3
    ), "background": true})),
        )?
        .json()?;
    let victim = victim["exec"].as_u64().context("no number")?;
    until(PATIENCE, "the victim", || {
        server
            .ask("GET", &format!("{of}/{victim}/stdout"), None)
            .ok()
            .filter(|answer| answer.text().contains("ready"))
    })?;
    for signal in ["KILL", "TERM"] {
        let sent = server.ask("POST", &format!("{of}/{number}/signal"), Some(&json!({"signal": signal})))?;
        ensure!(sent.status < 500, "{}", sent.text());
    }
    ensure!(server.ask("DELETE", &format!("{of}/{number}"), None)?.status < 500, "it failed");
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(server.ask("GET", &format!("{of}/{victim}"), None)?.json()?["state"], "running");
    // The control: its own number does reach it.
    server.ask("DELETE", &format!("{of}/{victim}"), None)?.ok()?;
    let ended = server.ask("GET", &format!("{of}/{victim}/wait?timeout_seconds=20"), None)?.json()?;
    assert_eq!(ended["exit_code"], 128 + Signal::KILL.as_raw(), "{ended}");
    Ok(())
}
