//! E: clients that want too much of the server. The suite in crates/verify tries the resources that a sandbox can take
//! of its host.

use super::{memory_of, unharmed};
use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, PATIENCE, Server, Tar, for_both_callers, until};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

for_both_callers!(
    e5_disk_and_its_end,
    e7_output_without_end,
    e8_a_command_that_does_not_end,
    e9_archives_of_too_much,
    e12_requests_of_too_much,
    e12_half_open_streams,
    e12_unknown_fields_and_wrong_types,
    e14_names_in_numbers_and_logs,
);

const MEGABYTE: u64 = 1 << 20;

fn e5_disk_and_its_end(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&["--disk", "32MiB"])?;
    let script = "cd /tmp; i=0; while [ $i -lt 2000 ]; do mkdir d && cd d || break; i=$((i+1)); done; cd /tmp; \
                  i=0; while echo x > f$i; do i=$((i+1)); [ $i -gt 20000 ] && break; done 2>/dev/null; \
                  truncate -s 1T sparse; head -c 64M /dev/zero > full; true";
    server.script(&id, script)?.success()?;
    // Control: another has its own room. And it ends as any other.
    let other = server.create(&[])?;
    server.script(&other, "head -c 1000000 /dev/zero > /tmp/f")?.success()?;
    server.run(["kill", &id])?.success()?;
    let seen = server.ask("GET", &format!("/v1/sandboxes/{id}"), None)?.json()?;
    assert_eq!(seen["end"]["cause"]["kind"], "killed");
    unharmed(&server)
}

fn e7_output_without_end(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    let of = format!("/v1/sandboxes/{id}/execs");
    unharmed(&server)?;
    let before = memory_of(server.process()?)?;
    // One line of 300 MB without an end, on both streams at once.
    let command = "head -c 300000000 /dev/zero & head -c 300000000 /dev/zero >&2; wait; echo end";
    let started = server.ask("POST", &of, Some(&json!({"command": command, "background": true})))?.json()?;
    let number = started["exec"].as_u64().context("no number")?;
    // A reader that stops after its first bytes.
    let mut stopped = UnixStream::connect(server.socket())?;
    stopped
        .write_all(format!("GET {of}/{number}/output?follow=true HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
    stopped.read_exact(&mut [0; 64])?;
    let mut most = before;
    until(PATIENCE * 4, "the end of the flood", || {
        most = most.max(memory_of(server.process().ok()?).ok()?);
        let seen = server.ask("GET", &format!("{of}/{number}"), None).ok()?.json().ok()?;
        (seen["state"] == "ended").then_some(())
    })?;
    ensure!(most < before + 64 * MEGABYTE, "the server grew from {before} to {most}");
    let ended = server.ask("GET", &format!("{of}/{number}/wait"), None)?.json()?;
    assert_eq!(ended["stdout_bytes"].as_u64(), Some(300_000_004));
    ensure!(ended["stdout_missing_bytes"].as_u64() > Some(0), "it does not say what is missing");
    let tail = ended["stdout"].as_str().unwrap_or_default();
    ensure!(tail.ends_with("end\n"), "its end is not kept");
    drop(stopped);
    unharmed(&server)
}

fn e8_a_command_that_does_not_end(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    let of = format!("/v1/sandboxes/{id}/execs");
    for command in [
        "trap '' TERM HUP INT; echo before; while :; do sleep 60; done",
        "echo before; kill -STOP $$",
        "echo before; (trap '' TERM; sleep 600) & setsid sleep 600 & sleep 600",
    ] {
        let ended =
            server.ask("POST", &of, Some(&json!({"command": command, "timeout_seconds": 0.5})))?.json()?;
        assert_eq!((&ended["timed_out"], &ended["stdout"]), (&json!(true), &json!("before\n")), "{ended}");
    }
    assert_eq!(server.script(&id, "echo alive")?.success()?, "alive\n");
    Ok(())
}

fn e9_archives_of_too_much(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&["--disk", "16MiB"])?;
    let target = format!("/v1/sandboxes/{id}/files/archive?path=/tmp");
    // More than the disk holds, and more entries than it has room for.
    let large = Tar::default().file("large", 0o644, &vec![1; 32 << 20]).finish();
    server.send("PUT", &target, "Content-Type: application/x-tar\r\n", &large)?.refused(507, "disk_full")?;
    let mut many = Tar::default();
    for number in 0..100_000 {
        many = many.file(&format!("n{number}"), 0o644, b"x");
    }
    let before = memory_of(server.process()?)?;
    let answer = server.send("PUT", &target, "Content-Type: application/x-tar\r\n", &many.finish())?;
    ensure!([204, 400, 413, 507].contains(&answer.status), "{} {}", answer.status, answer.text());
    let after = memory_of(server.process()?)?;
    ensure!(after < before + 64 * MEGABYTE, "the server grew from {before} to {after}");
    // A compressed archive is not one of ours: nothing unpacks it.
    let bomb = [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3][..], &[0; 4096]].concat();
    server.send("PUT", &target, "Content-Type: application/gzip\r\n", &bomb)?.refused_somehow()?;
    unharmed(&server)
}

fn e12_requests_of_too_much(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    unharmed(&server)?;
    let before = memory_of(server.process()?)?;
    let of = format!("/v1/sandboxes/{id}/execs");
    let env: serde_json::Map<String, Value> =
        (0..150_000).map(|number| (format!("V{number}"), json!("x"))).collect();
    let argv: Vec<String> = (0..2).map(|_| "y".repeat(1 << 20)).collect();
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    let json_type = "Content-Type: application/json\r\n";
    server.ask("POST", &of, Some(&json!({"command": "true", "env": env})))?.refused_somehow()?;
    server.ask("POST", "/v1/sandboxes", Some(&json!({"env": env})))?.refused_somehow()?;
    let long = server.ask("POST", &of, Some(&json!({"argv": argv})))?;
    // Whichever bound it meets: ours, or the kernel's, which is the end of the command and not of the server.
    let kernel = long.ok().is_ok() && long.json()?["cause"]["kind"] == "not_started";
    ensure!(kernel || long.refused_somehow().is_ok(), "{} {}", long.status, long.text());
    server.send("POST", &of, json_type, deep.as_bytes())?.refused(400, "invalid_request")?;
    let huge = format!("{{\"command\": \"{}\"}}", "x".repeat(64 << 20));
    server.send("POST", &of, json_type, huge.as_bytes())?.refused(413, "too_large")?;
    let metadata = json!({"metadata": {"k": "x".repeat(1 << 20)}});
    server.ask("POST", "/v1/sandboxes", Some(&metadata))?.refused(400, "invalid_request")?;
    // The memory of the bodies goes back to the kernel, from all threads that read them.
    until(PATIENCE, "the memory to be given back", || {
        let after = memory_of(server.process().ok()?).ok()?;
        (after < before + 24 * MEGABYTE).then_some(())
    })?;
    assert_eq!(server.script(&id, "echo alive")?.success()?, "alive\n");
    unharmed(&server)
}

fn e12_half_open_streams(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    let of = format!("/v1/sandboxes/{id}");
    let quiet = server.ask(
        "POST",
        &format!("{of}/execs"),
        Some(&json!({"command": "sleep 600", "background": true})),
    )?;
    let number = quiet.json()?["exec"].as_u64().context("no number")?;
    let mut open = Vec::new();
    for turn in 0..200 {
        let mut stream = UnixStream::connect(server.socket())?;
        let request = match turn % 4 {
            0 => format!("GET {of}/execs/{number}/output?follow=true HTTP/1.1\r\nHost: x\r\n\r\n"),
            1 => format!("GET {of}/files/watch?path=/tmp HTTP/1.1\r\nHost: x\r\n\r\n"),
            2 => format!(
                "POST {of}/execs/{number}/stdin?offset=0 HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nx"
            ),
            _ => "GET /v1/events?follow=true HTTP/1.1\r\nHost".into(),
        };
        stream.write_all(request.as_bytes())?;
        open.push(stream);
    }
    // All other clients are served as before.
    assert_eq!(server.script(&id, "echo alive")?.success()?, "alive\n");
    unharmed(&server)?;
    drop(open);
    assert_eq!(server.script(&id, "echo alive")?.success()?, "alive\n");
    let descriptors =
        || Some(std::fs::read_dir(format!("/proc/{}/fd", server.process().ok()?)).ok()?.count());
    until(PATIENCE, "the streams to be let go", || descriptors().filter(|count| *count < 100))?;
    Ok(())
}

fn e12_unknown_fields_and_wrong_types(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    let of = format!("/v1/sandboxes/{id}");
    for (method, target, body) in [
        ("POST", "/v1/sandboxes".to_string(), json!({})),
        ("PATCH", of.clone(), json!({"metadata": {}})),
        ("POST", format!("{of}/extend"), json!({"ttl_seconds": 60})),
        ("POST", format!("{of}/execs"), json!({"command": "true"})),
        ("POST", format!("{of}/code"), json!({"code": "1"})),
        ("POST", format!("{of}/fork"), json!({"count": 1})),
        ("POST", format!("{of}/snapshots"), json!({})),
        ("POST", format!("{of}/files/directory"), json!({"path": "/tmp/d"})),
        ("POST", format!("{of}/files/move"), json!({"from": "/tmp/a", "to": "/tmp/b"})),
        ("POST", format!("{of}/files/mode"), json!({"path": "/tmp", "mode": 448})),
        (
            "POST",
            format!("{of}/files/sign"),
            json!({"path": "/tmp/x", "operation": "read", "expires_seconds": 60}),
        ),
        ("POST", format!("{of}/ports/sign"), json!({"port": 80, "expires_seconds": 60})),
        ("POST", "/v1/tokens".to_string(), json!({"tenant": "team", "role": "user"})),
        ("PUT", "/v1/tenants/team/quota".to_string(), json!({"live_sandboxes": 1})),
    ] {
        let mut strange = body.clone();
        strange["surprise_field"] = json!(1);
        let answer = server.ask(method, &target, Some(&strange))?;
        answer.refused(400, "unknown_field").with_context(|| format!("{method} {target}"))?;
        ensure!(answer.text().contains("surprise_field"), "{method} {target}: {}", answer.text());
        let strange = format!("{target}?surprise_parameter=1");
        let answer = server.ask(method, &strange, Some(&body))?;
        answer.refused(400, "unknown_field").with_context(|| strange.clone())?;
        ensure!(answer.text().contains("surprise_parameter"), "{strange}: {}", answer.text());
        for value in [json!({"a": [1]}), json!(-1), json!(1e300), json!("\u{0}"), json!([]), json!(true)] {
            for field in body.as_object().into_iter().flat_map(|fields| fields.keys()) {
                let mut wrong = body.clone();
                wrong[field] = value.clone();
                let answer = server.ask(method, &target, Some(&wrong))?;
                ensure!(
                    answer.status < 500,
                    "{method} {target} {wrong}: {} {}",
                    answer.status,
                    answer.text()
                );
            }
            let whole = server.ask(method, &target, Some(&value))?;
            ensure!(
                value.is_object() || whole.refused_somehow().is_ok(),
                "{target} {value}: {}",
                whole.text()
            );
        }
    }
    for limits in [
        json!({"memory_bytes": -1}),
        json!({"cpus": "many"}),
        json!({"pids": 1.5}),
        json!({"disk_bytes": 1e30}),
    ] {
        server
            .ask("POST", "/v1/sandboxes", Some(&json!({"limits": limits})))?
            .refused(400, "invalid_request")?;
    }
    unharmed(&server)
}

fn e14_names_in_numbers_and_logs(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let size = || -> Result<usize> { Ok(server.ask("GET", "/metrics", None)?.ok()?.body.len()) };
    let visit = |turn: u32| -> Result<()> {
        server.send(&format!("METHOD{turn}"), &format!("/invented/{turn}"), "", b"")?;
        server.send("GET", &format!("/v1/sandboxes/invented-{turn}"), "", b"")?;
        server.send(
            "GET",
            &format!("/v1/sandboxes/sb-{turn:016x}/ports/{}/invented{turn}", turn + 1),
            "",
            b"",
        )?;
        Ok(())
    };
    visit(0)?;
    size()?;
    let before = size()?;
    for turn in 1..300 {
        visit(turn)?;
    }
    let after = size()?;
    // Counts get longer; lines do not get more.
    ensure!(after < before + 512, "the numbers grew from {before} to {after} bytes");
    let text = server.ask("GET", "/metrics", None)?.text();
    ensure!(!text.contains("invented") && !text.contains("METHOD"), "{text}");
    ensure!(!server.said().contains("invented/7"), "a path that somebody made up is in the log");
    Ok(())
}
