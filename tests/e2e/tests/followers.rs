//! Readers that stop reading do not hold a command up, however many they are.

use anyhow::{Context, Result, ensure};
use paddock_e2e::http::over_tcp;
use paddock_e2e::{Caller, Server, as_root};
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;

#[test]
fn many_that_stop_reading_cost_no_more_than_one() -> Result<()> {
    as_root("many_that_stop_reading_cost_no_more_than_one", |caller| stalled(caller, "user"))
}

#[test]
fn who_only_reads_holds_nothing_up() -> Result<()> {
    as_root("who_only_reads_holds_nothing_up", |caller| stalled(caller, "read-only"))
}

/// One after the other they would cost ten seconds each.
const STALLED: usize = 20;

fn stalled(caller: &Caller, role: &str) -> Result<()> {
    let server = Server::start_with(caller, &["--listen", "127.0.0.1:0"])?;
    let url = server.url()?;
    let made =
        server.api("POST", "/v1/tokens", Some(&json!({ "tenant": "owner", "role": role })))?.expect(201)?;
    let bearer = format!("Authorization: Bearer {}\r\n", made["secret"].as_str().context("no secret")?);
    let id = server.create(&[])?;
    let prints =
        json!({ "command": "read go; head -c 268435456 /dev/zero", "background": true, "open_stdin": true });
    let exec = server.api("POST", &format!("/v1/sandboxes/{id}/execs"), Some(&prints))?.expect(201)?;
    let exec = format!("/v1/sandboxes/{id}/execs/{}", exec["exec"]);
    let mut streams = Vec::new();
    for _ in 0..STALLED {
        let mut stream = TcpStream::connect(url.trim_start_matches("http://"))?;
        write!(stream, "GET {exec}/output?follow=true HTTP/1.1\r\nHost: localhost\r\n{bearer}\r\n")?;
        // It follows by the time that it is answered.
        stream.read_exact(&mut [0; 12])?;
        streams.push(stream);
    }
    server.send("POST", &format!("{exec}/stdin"), "", b"go\n")?.ok()?;
    // Twenty times ten seconds is more than a minute, even on a busy host.
    let ended = server.api("GET", &format!("{exec}/wait?timeout_seconds=60"), None)?.expect(200)?;
    ensure!(ended["state"] == "ended", "it is held up: {} bytes", ended["stdout_bytes"]);
    assert_eq!((ended["exit_code"].as_i64(), ended["stdout_bytes"].as_u64()), (Some(0), Some(268_435_456)));
    ensure!(over_tcp(&url, "GET", &exec, &bearer, b"")?.status == 200, "the token is good");
    drop(streams);
    Ok(())
}
