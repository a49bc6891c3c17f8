//! A revoked token ends everything that it opened, and a token that only reads changes nothing.

use anyhow::{Context, Result, ensure};
use paddock_e2e::http::over_tcp;
use paddock_e2e::{Caller, PATIENCE, Server, as_root, until};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, SystemTime};

#[test]
fn everything_a_revoked_token_opened_ends() -> Result<()> {
    as_root("everything_a_revoked_token_opened_ends", everything_ends)
}

#[test]
fn whatever_takes_rights_away_ends_terminals_and_ports_within_a_second() -> Result<()> {
    as_root("whatever_takes_rights_away_ends_terminals_and_ports_within_a_second", within_a_second)
}

#[test]
fn who_only_reads_wakes_nobody() -> Result<()> {
    as_root("who_only_reads_wakes_nobody", wakes_nobody)
}

/// Only a stream that is never ended takes longer.
const ENDS: Duration = Duration::from_secs(20);

/// Answers an upgrade, and echoes lines from then on.
const WEB: &str = r#"
import socketserver
class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        while self.rfile.readline().strip(): pass
        self.wfile.write(b'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n')
        for line in self.rfile: self.wfile.write(b'inside: ' + line)
socketserver.ThreadingTCPServer.allow_reuse_address = True
server = socketserver.ThreadingTCPServer(('127.0.0.1', 8000), Handler)
print('listens', flush=True)
server.serve_forever()
"#;

/// Tells the time of the host without pause: on a terminal, and to whoever connects.
const CLOCK: &str = "import time\nwhile True: print(time.time(), flush=True); time.sleep(0.02)";
const CLOCK_BY_PORT: &str = r#"
import socketserver, time
class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        while self.rfile.readline().strip(): pass
        self.wfile.write(b'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: clock\r\n\r\n')
        while True: self.wfile.write(b'%f\n' % time.time()); time.sleep(0.02)
socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer.daemon_threads = True
server = socketserver.ThreadingTCPServer(('127.0.0.1', 8000), Handler)
print('listens', flush=True)
server.serve_forever()
"#;

struct Token {
    id: String,
    bearer: String,
}

fn token(server: &Server<'_>, role: &str) -> Result<Token> {
    let made =
        server.api("POST", "/v1/tokens", Some(&json!({ "tenant": "team", "role": role })))?.expect(201)?;
    let text = |field: &str| made[field].as_str().map(str::to_string).with_context(|| made.to_string());
    Ok(Token { id: text("id")?, bearer: format!("Authorization: Bearer {}\r\n", text("secret")?) })
}

/// A request whose answer is read later.
struct Stream(BufReader<TcpStream>);

impl Stream {
    fn open(url: &str, method: &str, target: &str, headers: &str) -> Result<Stream> {
        let mut stream = TcpStream::connect(url.trim_start_matches("http://"))?;
        stream.set_read_timeout(Some(ENDS))?;
        write!(stream, "{method} {target} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n")?;
        Ok(Stream(BufReader::new(stream)))
    }

    /// Up to a line that holds this.
    fn read_until(&mut self, text: &str) -> Result<()> {
        let mut line = Vec::new();
        loop {
            line.clear();
            ensure!(self.0.read_until(b'\n', &mut line)? > 0, "it ended before {text:?}");
            if String::from_utf8_lossy(&line).contains(text) {
                return Ok(());
            }
        }
    }

    /// Reads to the end of a clock's times. Fails where it tells one that is later than `limit`, and where it does not end.
    fn ends_by(mut self, limit: f64) -> Result<()> {
        let mut line = Vec::new();
        loop {
            line.clear();
            match self.0.read_until(b'\n', &mut line) {
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => anyhow::bail!("it goes on"),
                Ok(length) if length > 0 => {
                    let told = time_of(&line).unwrap_or(0.0);
                    ensure!(told <= limit, "told {} s after what ended its rights", told - limit + 1.0);
                }
                // Broken off, in one way or another.
                _ => return Ok(()),
            }
        }
    }

    /// All that still comes; fails where the connection stays open.
    fn rest(mut self) -> Result<String> {
        let mut rest = Vec::new();
        match self.0.read_to_end(&mut rest) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => anyhow::bail!("it goes on"),
            // Broken off, in one way or another.
            _ => Ok(String::from_utf8_lossy(&rest).into_owned()),
        }
    }
}

fn everything_ends(caller: &Caller) -> Result<()> {
    let server = Server::start_with(caller, &["--listen", "127.0.0.1:0"])?;
    let url = server.url()?;
    let (revoked, stays) = (token(&server, "user")?, token(&server, "user")?);
    let kind = "Content-Type: application/json\r\n";
    let ask = |token: &Token, method: &str, target: &str, body: Value| {
        // Unread bytes of a body may cut the answer off.
        let body = if body.is_null() { String::new() } else { body.to_string() };
        over_tcp(&url, method, target, &format!("{}{kind}", token.bearer), body.as_bytes())
    };
    let made = ask(&stays, "POST", "/v1/sandboxes", json!({}))?.expect(201)?;
    let id = made["id"].as_str().context("no id")?;
    let sandbox = format!("/v1/sandboxes/{id}");
    let start = |argv: Value| -> Result<String> {
        let request = json!({ "argv": argv, "background": true, "open_stdin": true });
        let started = ask(&stays, "POST", &format!("{sandbox}/execs"), request)?.expect(201)?;
        Ok(format!("{sandbox}/execs/{}", started["exec"]))
    };
    let web = start(json!(["python3", "-c", WEB]))?;
    until(PATIENCE, "a program that listens", || {
        let exec = ask(&stays, "GET", &web, Value::Null).ok()?.json().ok()?;
        (exec["stdout_bytes"] == 8).then_some(())
    })?;
    let quiet = start(json!(["sh", "-c", "echo first; echo second >&2; sleep 1000"]))?;
    let large = "head -c 67108864 /dev/zero > /tmp/large";
    ask(&stays, "POST", &format!("{sandbox}/execs"), json!({ "command": large }))?.expect(200)?;

    let closing = format!("{}Connection: close\r\n", revoked.bearer);
    let get = |target: &str| Stream::open(&url, "GET", target, &closing);
    let mut streams = Vec::new();
    for (target, seen) in [
        ("/v1/events".into(), "HTTP/1.1 200"),
        (format!("{sandbox}/files/watch?path=/tmp"), "watching"),
        (format!("{quiet}/output?follow=true"), "stdout"),
        (format!("{quiet}/stdout?follow=true"), "first"),
    ] {
        let mut stream = get(&target)?;
        stream.read_until(seen).with_context(|| target.clone())?;
        streams.push((target, stream));
    }
    // A request that waits for an answer, one that reads nothing of its own, and one that sends no more of its body.
    streams.push(("wait".into(), get(&format!("{quiet}/wait"))?));
    let mut download = get(&format!("{sandbox}/files/content?path=/tmp/large"))?;
    download.read_until("HTTP/1.1 200")?;
    streams.push(("download".into(), download));
    let half = format!("{closing}Content-Length: 1000\r\n");
    let mut upload = Stream::open(&url, "PUT", &format!("{sandbox}/files/content?path=/tmp/half"), &half)?;
    upload.0.get_mut().write_all(b"only a part")?;
    streams.push(("upload".into(), upload));
    let upgrade = format!("{}Connection: Upgrade\r\nUpgrade: echo\r\n", revoked.bearer);
    let mut port = Stream::open(&url, "GET", &format!("{sandbox}/ports/8000/"), &upgrade)?;
    port.0.get_mut().write_all(b"hello\n")?;
    port.read_until("inside: hello")?;
    streams.push(("port".into(), port));
    let session = mcp_session(&url, &revoked)?;
    let mut other = Stream::open(&url, "GET", "/v1/events", &stays.bearer)?;
    other.read_until("HTTP/1.1 200")?;

    server.api("DELETE", &format!("/v1/tokens/{}", revoked.id), None)?.expect(200)?;
    ask(&stays, "POST", &format!("{sandbox}/execs"), json!({ "command": "touch /tmp/after" }))?
        .expect(200)?;
    for (what, stream) in streams {
        let rest = stream.rest().with_context(|| what.clone())?;
        let told =
            |line: &str| line.contains("/tmp/after") || (line.contains(id) && line.contains("exec_started"));
        ensure!(!rest.lines().any(told), "{what} was told: {rest}");
    }
    other.read_until("exec_started")?;
    let exists = ask(&stays, "GET", &format!("{sandbox}/files/exists?path=/tmp/half"), Value::Null)?;
    assert_eq!(exists.expect(200)?["exists"], false);
    ensure!(ask(&stays, "GET", &quiet, Value::Null)?.expect(200)?["state"] == "running", "commands go on");
    until(PATIENCE, "the end of the session's sandbox", || {
        let sandbox = server.api("GET", &format!("/v1/sandboxes/{session}"), None).ok()?.json().ok()?;
        (sandbox["state"] == "ended").then_some(())
    })
}

/// Of a line of a clock; the lengths of chunks stand between those.
fn time_of(line: &[u8]) -> Option<f64> {
    let text = String::from_utf8_lossy(line);
    text.contains('.').then(|| text.trim().parse().ok()).flatten()
}

/// Method, target and body.
type Call = (&'static str, String, Value);

/// How a token loses its rights: the name of the way, and the owner's call.
type Way = (&'static str, fn(&Token) -> Call);

fn now() -> Result<f64> {
    Ok(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs_f64())
}

/// Decided by the times that clocks inside told, and not by when the test read them: what is told later than a second after the
/// answer to the call that takes the rights away never leaves the server.
fn within_a_second(caller: &Caller) -> Result<()> {
    let server = Server::start_with(caller, &["--listen", "127.0.0.1:0"])?;
    let url = server.url()?;
    let ways: [Way; 3] = [
        ("revocation", |token| ("DELETE", format!("/v1/tokens/{}", token.id), Value::Null)),
        ("a lowered role", |token| {
            ("PATCH", format!("/v1/tokens/{}", token.id), json!({ "role": "read-only" }))
        }),
        ("a removed tenant", |_| ("DELETE", "/v1/tenants/team/tokens".into(), Value::Null)),
    ];
    for (way, call) in ways {
        let token = token(&server, "user")?;
        let headers = format!("{}Content-Type: application/json\r\n", token.bearer);
        let ask = |method: &str, target: &str, body: Value| {
            over_tcp(&url, method, target, &headers, body.to_string().as_bytes())
        };
        let made = ask("POST", "/v1/sandboxes", json!({}))?.expect(201)?;
        let sandbox = format!("/v1/sandboxes/{}", made["id"].as_str().context("no id")?);
        let start = |request: Value| -> Result<String> {
            let started = ask("POST", &format!("{sandbox}/execs"), request)?.expect(201)?;
            Ok(format!("{sandbox}/execs/{}", started["exec"]))
        };
        let terminal = json!({
            "argv": ["python3", "-c", CLOCK], "terminal": { "rows": 24, "columns": 80 }, "open_stdin": true, "background": true,
        });
        let clock = start(terminal)?;
        let web = start(json!({ "argv": ["python3", "-c", CLOCK_BY_PORT], "background": true }))?;
        let printed =
            |exec: &str| server.api("GET", &format!("{exec}/stdout"), None).ok().map(|told| told.text());
        until(PATIENCE, "a program that listens", || printed(&web)?.contains("listens").then_some(()))?;

        let mut output = Stream::open(&url, "GET", &format!("{clock}/stdout?follow=true"), &token.bearer)?;
        output.read_until("HTTP/1.1 200")?;
        let upgrade = format!("{}Connection: Upgrade\r\nUpgrade: clock\r\n", token.bearer);
        let mut port = Stream::open(&url, "GET", &format!("{sandbox}/ports/8000/"), &upgrade)?;
        port.read_until("HTTP/1.1 101")?;
        // The input that a person types: its body never ends.
        let chunked = format!("{}Connection: close\r\nTransfer-Encoding: chunked\r\n", token.bearer);
        let mut typed = Stream::open(&url, "POST", &format!("{clock}/stdin"), &chunked)?;
        typed.0.get_mut().write_all(b"6\r\nbefore\r\n")?;
        until(PATIENCE, "the echo of the terminal", || printed(&clock)?.contains("before").then_some(()))?;
        for stream in [&mut output, &mut port] {
            stream.read_until(".")?;
        }

        let (method, target, body) = call(&token);
        server.api(method, &target, (!body.is_null()).then_some(&body))?.expect(200).context(way)?;
        let limit = now()? + 1.0;
        // The commands go on: their clocks pass the limit.
        until(PATIENCE, "a later time on the terminal", || {
            let text = printed(&clock)?;
            let last = text.lines().filter_map(|line| time_of(line.as_bytes())).next_back()?;
            (last > limit + 0.5).then_some(())
        })?;
        // A connection that is gone may take this or not.
        let _ = typed.0.get_mut().write_all(b"5\r\nafter\r\n");
        for (what, stream) in [("terminal", output), ("port", port)] {
            // It told the time before, and may have ended before it told another.
            stream.ends_by(limit).with_context(|| format!("{way}: {what}"))?;
        }
        typed.rest().with_context(|| format!("{way}: input of the terminal"))?;
        ensure!(!printed(&clock).context("no output")?.contains("after"), "{way}: what is typed arrives");
        let after = over_tcp(&url, "DELETE", &sandbox, &token.bearer, b"")?;
        after.refused(
            if way == "a lowered role" { 403 } else { 401 },
            if way == "a lowered role" { "forbidden" } else { "unauthorized" },
        )?;
        server.api("DELETE", &sandbox, None)?.ok()?;
    }
    Ok(())
}

/// A session of the Model Context Protocol with a sandbox, whose id comes back.
fn mcp_session(url: &str, token: &Token) -> Result<String> {
    let kind = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n";
    let mut headers = format!("{}{kind}", token.bearer);
    let mut ask = |message: Value| -> Result<String> {
        // The answer may be a stream that stays open: only its first event counts.
        let body = message.to_string();
        let mut stream = TcpStream::connect(url.trim_start_matches("http://"))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let length = body.len();
        write!(
            stream,
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
        )?;
        let mut text = Vec::new();
        stream.read_to_end(&mut text)?;
        let text = String::from_utf8_lossy(&text).into_owned();
        if let Some(line) = text.lines().find(|line| line.to_ascii_lowercase().starts_with("mcp-session-id:"))
        {
            headers.push_str(&format!("{line}\r\n"));
        }
        Ok(text)
    };
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
    ask(json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}))?;
    ask(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
    let call = json!({"name": "run_code", "arguments": {"code": "print('from', 6 * 7)"}});
    let answer = ask(json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}))?;
    ensure!(answer.contains("from 42"), "{answer}");
    let listed = over_tcp(url, "GET", "/v1/sandboxes", &token.bearer, b"")?.expect(200)?;
    let newest = listed["sandboxes"][0]["id"].as_str().context("no sandbox")?.to_string();
    Ok(newest)
}

fn wakes_nobody(caller: &Caller) -> Result<()> {
    let server = Server::start_with(caller, &["--listen", "127.0.0.1:0"])?;
    let url = server.url()?;
    let (user, reader) = (token(&server, "user")?, token(&server, "read-only")?);
    let kind = "Content-Type: application/json\r\n";
    let made =
        over_tcp(&url, "POST", "/v1/sandboxes", &format!("{}{kind}", user.bearer), b"{}")?.expect(201)?;
    let sandbox = format!("/v1/sandboxes/{}", made["id"].as_str().context("no id")?);
    let get =
        |token: &Token, rest: &str| over_tcp(&url, "GET", &format!("{sandbox}{rest}"), &token.bearer, b"");
    let reads = [
        "/files/content?path=/etc/passwd",
        "/files?path=/etc",
        "/files/stat?path=/etc/passwd",
        "/files/exists?path=/etc/passwd",
        "/files/archive?path=/etc",
        "/files/watch?path=/etc",
        "/changes",
        "/changes/archive",
        "/changes/patch",
    ];
    get(&reader, reads[0])?.ok()?;
    over_tcp(&url, "POST", &format!("{sandbox}/hibernate"), &user.bearer, b"")?.ok()?;
    for rest in reads {
        get(&reader, rest)?.refused(409, "wrong_state").context(rest)?;
        ensure!(get(&reader, "")?.json()?["state"] == "hibernated", "{rest} woke it");
    }
    get(&user, reads[0])?.ok()?;
    get(&reader, reads[0])?.ok()?;
    Ok(())
}
