//! A sandbox over HTTP, with everything in it real. As root.

#![allow(clippy::expect_used, clippy::panic, reason = "a test: whatever is missing shall fail it")]

mod harness;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use harness::{Answer, Server, parse};
use paddock_server::Options;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

async fn create(server: &Server) -> String {
    let made = server.ask("POST", "/v1/sandboxes", Some("{}")).await;
    assert_eq!(made.status, 201, "{}", made.text());
    format!("/v1/sandboxes/{}", made.json()["id"].as_str().expect("an id"))
}

async fn exec(server: &Server, sandbox: &str, request: Value) -> Answer {
    server.ask("POST", &format!("{sandbox}/execs"), Some(&request.to_string())).await
}

async fn kill(server: &Server, sandbox: &str) {
    let killed = server.ask("DELETE", sandbox, None).await;
    assert_eq!(killed.status, 200, "{}", killed.text());
    assert_eq!(killed.json()["state"], "ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_run_and_their_output_can_be_read_again() {
    let server = Server::start(Options::default()).await;
    let sandbox = create(&server).await;
    let ran = exec(&server, &sandbox, json!({"command": "echo out; echo err >&2; exit 3"})).await;
    assert_eq!(ran.status, 200, "{}", ran.text());
    let exec_number = ran.json()["exec"].as_u64().expect("a number");
    assert_eq!((&ran.json()["stdout"], &ran.json()["exit_code"]), (&json!("out\n"), &json!(3)));

    let raw = server.ask("GET", &format!("{sandbox}/execs/{exec_number}/stdout?offset=1"), None).await;
    assert_eq!((raw.text().as_str(), raw.header("x-paddock-offset").as_deref()), ("ut\n", Some("1")));
    let lines = server.ask("GET", &format!("{sandbox}/execs/{exec_number}/output?follow=true"), None).await;
    assert_eq!(lines.header("content-type").as_deref(), Some("application/x-ndjson"));
    let events: Vec<Value> =
        lines.text().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(events.last().expect("lines")["type"], "ended");
    let data: Vec<u8> = events
        .iter()
        .filter(|event| event["type"] == "output" && event["stream"] == "stderr")
        .flat_map(|event| {
            let data = event["data"].as_str().expect("data");
            base64::engine::general_purpose::STANDARD.decode(data).expect("base64")
        })
        .collect();
    assert_eq!(data, b"err\n");

    let background =
        exec(&server, &sandbox, json!({"command": "cat; echo done", "open_stdin": true, "background": true}))
            .await;
    assert_eq!(background.status, 201, "{}", background.text());
    let path = format!("{sandbox}/execs/{}", background.json()["exec"]);
    let fed = server.ask("POST", &format!("{path}/stdin?offset=0"), Some("hello ")).await;
    assert_eq!(fed.json(), json!({"offset": 6}), "{}", fed.text());
    // A retry of bytes that have arrived, with more behind them.
    let fed = server.ask("POST", &format!("{path}/stdin?offset=0&close=true"), Some("hello world\n")).await;
    assert_eq!(fed.json(), json!({"offset": 12}));
    let ended = server.ask("GET", &format!("{path}/wait?timeout_seconds=20"), None).await;
    assert_eq!(
        (&ended.json()["state"], &ended.json()["stdout"]),
        (&json!("ended"), &json!("hello world\ndone\n"))
    );

    let code = server.ask("POST", &format!("{sandbox}/code"), Some(r#"{"code": "print(6 * 7)"}"#)).await;
    assert_eq!(code.json()["stdout"], "42\n", "{}", code.text());
    let missing = server.ask("GET", &format!("{sandbox}/execs/999"), None).await;
    assert_eq!((missing.status, missing.code().as_str()), (404, "exec_not_found"));
    kill(&server, &sandbox).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_go_in_and_out() {
    let server = Server::start(Options::default()).await;
    let sandbox = create(&server).await;
    let put = server
        .ask(
            "PUT",
            &format!("{sandbox}/files/content?path=/tmp/a/b.txt&parents=true&mode=600"),
            Some("content"),
        )
        .await;
    assert_eq!(put.status, 200, "{}", put.text());
    assert_eq!((&put.json()["size"], &put.json()["mode"]), (&json!(7), &json!(0o600)));
    let part = server
        .ask("GET", &format!("{sandbox}/files/content?path=/tmp/a/b.txt&offset=3&length=2"), None)
        .await;
    assert_eq!(
        (part.text().as_str(), part.header("x-content-type-options").as_deref()),
        ("te", Some("nosniff"))
    );
    let exists = server.ask("GET", &format!("{sandbox}/files/exists?path=/nothing"), None).await;
    assert_eq!(exists.json(), json!({"exists": false}));
    for target in ["/nothing", "/tmp/%00", "/proc/self/mem", "/tmp/a"] {
        let answer = server.ask("GET", &format!("{sandbox}/files/content?path={target}"), None).await;
        assert!((400..500).contains(&answer.status), "{target}: {}", answer.text());
    }
    let listed = server.ask("GET", &format!("{sandbox}/files?path=/tmp/a"), None).await;
    assert_eq!(listed.json()["entries"][0]["path"], "/tmp/a/b.txt", "{}", listed.text());

    let signed = server
        .ask(
            "POST",
            &format!("{sandbox}/files/sign"),
            Some(r#"{"path": "/tmp/a/b.txt", "operation": "read", "expires_seconds": 60}"#),
        )
        .await;
    let url = signed.json()["url"].as_str().expect("a url").to_string();
    assert_eq!(server.ask_tcp("GET", &url, "", None).await.text(), "content");
    assert_eq!(server.ask_tcp("PUT", &url, "", Some("x")).await.status, 403);
    let forged = server.ask_tcp("GET", &format!("{}x", url), "", None).await;
    assert!((400..500).contains(&forged.status), "{}", forged.text());

    let tar = server.ask("GET", &format!("{sandbox}/files/archive?path=/tmp/a"), None).await;
    assert_eq!(tar.header("content-type").as_deref(), Some("application/x-tar"));
    assert!(tar.body.windows(7).any(|seven| seven == b"content"));
    assert_eq!(
        server.ask("DELETE", &format!("{sandbox}/files?path=/tmp/a&recursive=true"), None).await.status,
        204
    );
    kill(&server, &sandbox).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_breaks_off_changes_nothing() {
    let server = Server::start(Options::default()).await;
    let sandbox = create(&server).await;
    let mut stream = UnixStream::connect(&server.socket).await.expect("connects");
    let head = format!(
        "PUT {sandbox}/files/content?path=/tmp/half HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf"
    );
    stream.write_all(head.as_bytes()).await.expect("writes");
    tokio::time::sleep(Duration::from_millis(300)).await;
    drop(stream);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let exists = server.ask("GET", &format!("{sandbox}/files/exists?path=/tmp/half"), None).await;
    assert_eq!(exists.json(), json!({"exists": false}));
    kill(&server, &sandbox).await;
}

const WEB: &str = r#"
import http.server, base64, hashlib
seen = []
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def parse_request(self):
        parsed = super().parse_request()
        if parsed: seen.append(self.requestline + '\n' + str(self.headers))
        return parsed
    def do_GET(self):
        if self.path == '/seen':
            body = '\n'.join(seen).encode()
            self.send_response(200); self.send_header('Content-Length', str(len(body))); self.end_headers(); self.wfile.write(body)
            return
        if self.headers.get('Upgrade') == 'echo':
            self.send_response(101); self.send_header('Upgrade', 'echo'); self.send_header('Connection', 'Upgrade'); self.end_headers()
            self.wfile.flush()
            while True:
                line = self.rfile.readline()
                if not line: return
                self.wfile.write(b'inside: ' + line); self.wfile.flush()
        body = (self.path + '\n' + str(self.headers)).encode()
        self.send_response(200); self.send_header('Content-Length', str(len(body)))
        self.send_header('Set-Cookie', 'paddock_token=evil'); self.end_headers(); self.wfile.write(body)
    def do_POST(self):
        body = self.rfile.read(int(self.headers['Content-Length']))
        self.send_response(200); self.send_header('Content-Length', str(len(body))); self.end_headers(); self.wfile.write(body)
    def do_nothing(self):
        self.send_response(200); self.send_header('Content-Length', '0'); self.end_headers()
    do_OPTIONS = do_HEAD = do_DELETE = do_nothing
http.server.ThreadingHTTPServer(('127.0.0.1', 8000), Handler).serve_forever()
"#;

#[tokio::test(flavor = "multi_thread")]
async fn ports_inside_are_reached_by_path_by_name_and_by_upgrade() {
    let options = Options { domain: Some("boxes.example".into()), ..Options::default() };
    let server = Server::start(options).await;
    let sandbox = create(&server).await;
    let id = sandbox.rsplit('/').next().expect("an id").to_string();
    let made = server.ask("POST", "/v1/tokens", Some(r#"{"tenant": "owner", "role": "user"}"#)).await;
    let secret = made.json()["secret"].as_str().expect("a secret").to_string();

    let closed = server.ask("GET", &format!("{sandbox}/ports/8000/"), None).await;
    assert_eq!((closed.status, closed.code().as_str()), (502, "port_closed"), "{}", closed.text());
    let bearer = format!("Authorization: Bearer {secret}\r\n");
    let page = server
        .ask_tcp("GET", &format!("{sandbox}/ports/8000/"), &format!("{bearer}Accept: text/html\r\n"), None)
        .await;
    assert_eq!(
        (page.status, page.header("content-type").as_deref()),
        (502, Some("text/html; charset=utf-8"))
    );

    let started = exec(&server, &sandbox, json!({"argv": ["python3", "-c", WEB], "background": true})).await;
    assert_eq!(started.status, 201, "{}", started.text());
    let mut answer = server.ask("GET", &format!("{sandbox}/ports/8000/up"), None).await;
    for _ in 0..100 {
        if answer.status == 200 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        answer = server.ask("GET", &format!("{sandbox}/ports/8000/up"), None).await;
    }
    assert_eq!(answer.status, 200, "{}", answer.text());

    let headers = format!("{bearer}Cookie: a=1; paddock_token=x; b=2\r\n");
    let answer =
        server.ask_tcp("GET", &format!("{sandbox}/ports/8000/deep/%2e%2e/er?q=1"), &headers, None).await;
    let text = answer.text();
    assert!(text.starts_with("/deep/%2e%2e/er?q=1\n"), "{text}");
    assert!(!text.contains(&secret) && !text.to_lowercase().contains("authorization"), "{text}");
    assert!(text.contains("a=1; b=2") && !text.contains("paddock_token"), "{text}");
    assert_eq!(answer.header("set-cookie"), None);
    let echoed = server.ask_tcp("POST", &format!("{sandbox}/ports/8000/"), &bearer, Some("sent")).await;
    assert_eq!(echoed.text(), "sent");

    let host = format!("Host: 8000-{id}.boxes.example\r\n");
    assert_eq!(server.ask_tcp("GET", "/x", &host, None).await.status, 401);
    let first = server.ask_tcp("GET", &format!("/x?paddock_token={secret}&y=1"), &host, None).await;
    assert_eq!(first.status, 303);
    assert_eq!(first.header("location"), Some(format!("http://8000-{id}.boxes.example/x?y=1")));
    let cookie = first.header("set-cookie").expect("a cookie");
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let cookie = cookie.split(';').next().expect("a pair");
    let second = server.ask_tcp("GET", "/x?y=1", &format!("{host}Cookie: {cookie}\r\n"), None).await;
    assert!(second.text().starts_with("/x?y=1\n"), "{}", second.text());
    assert!(!second.text().contains(&secret));

    let mut stream = tokio::net::TcpStream::connect(server.address).await.expect("connects");
    let request = format!("GET /ws HTTP/1.1\r\n{host}{bearer}Connection: Upgrade\r\nUpgrade: echo\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("writes");
    let mut buffer = vec![0; 4096];
    let size = stream.read(&mut buffer).await.expect("a head");
    assert_eq!(parse(&buffer[..size]).status, 101, "{}", String::from_utf8_lossy(&buffer[..size]));
    stream.write_all(b"hello\n").await.expect("writes");
    let size = stream.read(&mut buffer).await.expect("an echo");
    assert_eq!(&buffer[..size], b"inside: hello\n");
    drop(stream);

    no_token_goes_inside(&server, &sandbox, &host, &secret).await;
    no_key_of_e2b_goes_inside(&server, &sandbox, &secret).await;
    kill(&server, &sandbox).await;
}

/// Tries every method, parameter and header.
async fn no_token_goes_inside(server: &Server, sandbox: &str, host: &str, secret: &str) {
    let port = format!("{sandbox}/ports/8000");
    let bearer = format!("Authorization: Bearer {secret}\r\n");
    let queries = [
        format!("paddock_token={secret}"),
        format!("a=1&paddock_token={secret}&paddock_token={secret}"),
        format!("paddock%5Ftoken={secret}&b=2"),
        format!("p%2561ddock_token={secret}"),
        format!("c=3;paddock_token={secret}"),
        format!("next=%2Fx%3Fpaddock_token%3D{secret}"),
        format!("copied={secret}&d=4"),
    ];
    let address = format!("http://boxes.example/x?e=5&paddock_token={secret}#f");
    let headers = format!(
        "{bearer}Referer: {address}\r\nX-Original-URL: /x?paddock_token={secret}\r\nX-Copy: {secret}\r\nX-Kept: 6\r\n"
    );
    for method in ["POST", "OPTIONS", "HEAD", "DELETE"] {
        for query in &queries {
            let body = (method == "POST").then_some("sent");
            let answer = server.ask_tcp(method, &format!("{port}/{method}?{query}"), &headers, body).await;
            assert_eq!(answer.status, 200, "{method} {query}: {}", answer.text());
            let by_name = format!("{host}{headers}");
            let answer = server.ask_tcp(method, &format!("/{method}?{query}"), &by_name, body).await;
            assert_eq!(answer.status, 200, "{method} {query}: {}", answer.text());
        }
        // The parameter alone admits no caller.
        let target = format!("{port}/alone?paddock_token={secret}");
        assert_eq!(server.ask_tcp(method, &target, "", None).await.status, 401, "{method}");
    }
    // With GET it is answered with the cookie; an upgrade is no exception.
    for query in &queries[..4] {
        let upgrade = format!("{headers}Connection: Upgrade\r\nUpgrade: echo\r\n");
        for headers in [&headers, &upgrade] {
            let answer = server.ask_tcp("GET", &format!("{port}/get?{query}"), headers, None).await;
            assert_eq!(answer.status, 303, "{query}: {}", answer.text());
            assert!(!answer.header("location").expect("a place").contains(secret), "{query}");
        }
    }
    let in_path =
        server.ask_tcp("POST", &format!("{port}/x;paddock_token={secret}"), &headers, Some("")).await;
    assert_eq!((in_path.status, in_path.code().as_str()), (400, "invalid_request"));

    let seen = server.ask_tcp("GET", &format!("{port}/seen"), &bearer, None).await.text();
    for kept in ["POST /POST?a=1 ", "HEAD /HEAD?b=2 ", "/DELETE?c=3 ", "?d=4 ", "x?e=5\n", "kept: 6"] {
        assert!(seen.to_lowercase().contains(&kept.to_lowercase()), "{kept}: {seen}");
    }
    assert!(!seen.contains(secret) && !seen.contains("alone") && !seen.contains("paddock_token"), "{seen}");
}

/// A key in the header of E2B's SDKs, and what it was given for a sandbox, at both addresses of a port.
async fn no_key_of_e2b_goes_inside(server: &Server, sandbox: &str, secret: &str) {
    let id = sandbox.rsplit('/').next().expect("an id");
    let digits: String = URL_SAFE_NO_PAD
        .decode(secret.trim_start_matches("pdk_"))
        .expect("base64")
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    for key in [secret.to_string(), format!("e2b_{digits}")] {
        let shown = format!("X-API-KEY: {key}\r\n");
        let kind = format!("{shown}Content-Type: application/json\r\n");
        let target = format!("/sandboxes/{id}/connect");
        let given = server.ask_tcp("POST", &target, &kind, Some(r#"{"timeout": 300}"#)).await;
        assert_eq!(given.status, 200, "{}", given.text());
        let given = given.json()["trafficAccessToken"].as_str().expect("a token").to_string();
        let headers = format!(
            "{shown}E2b-Sandbox-Id: {id}\r\nE2b-Sandbox-Port: 8000\r\nE2B-Traffic-Access-Token: {given}\r\n\
             Authorization: Bearer {key}\r\nReferer: http://x/?paddock_token={key}\r\nX-Copy: {given}\r\nX-Kept: 7\r\n"
        );
        let target = format!("/by-e2b?a=1&key={key}&copy={given}&paddock_token=x");
        let seen = server.ask_tcp("GET", &target, &headers, None).await.text();
        assert!(seen.starts_with("/by-e2b?a=1\n") && seen.to_lowercase().contains("kept: 7"), "{seen}");
        let own = format!("Authorization: Bearer {secret}\r\n{shown}X-Kept: 8\r\n");
        let target = format!("{sandbox}/ports/8000/by-v1?key={key}");
        let by_path = server.ask_tcp("GET", &target, &own, None).await.text();
        assert!(by_path.starts_with("/by-v1\n") && by_path.to_lowercase().contains("kept: 8"), "{by_path}");
        for text in [&key, &given, "paddock_token"] {
            assert!(!seen.contains(text) && !by_path.contains(text), "{text}: {seen} {by_path}");
        }
        let in_path = server.ask_tcp("GET", &format!("/x/{given}"), &headers, None).await;
        assert_eq!(in_path.status, 400, "{}", in_path.text());
    }
    // Keys of others are the program's own.
    let other = format!("Authorization: Bearer {secret}\r\nX-API-KEY: of-the-program\r\n");
    let seen = server.ask_tcp("GET", &format!("{sandbox}/ports/8000/"), &other, None).await.text();
    assert!(seen.contains("of-the-program"), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_living_sandbox_keeps_the_server() {
    let options = Options { idle_exit: Some(Duration::from_millis(500)), ..Options::default() };
    let mut server = Server::start(options).await;
    let sandbox = create(&server).await;
    assert!(tokio::time::timeout(Duration::from_secs(2), &mut server.ended).await.is_err());
    kill(&server, &sandbox).await;
    assert!(tokio::time::timeout(Duration::from_secs(10), &mut server.ended).await.is_ok());
}
