//! Requests that no honest client sends. Each gets a clear refusal or a closed connection, never a 500 or a hang.

#![allow(clippy::expect_used, clippy::panic, reason = "a test: whatever is missing shall fail it")]

mod harness;

use harness::{Server, parse};
use paddock_server::Options;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn quick_server() -> Server {
    let mut options = Options::default();
    options.limits.head_timeout = Duration::from_millis(400);
    options.limits.body_timeout = Duration::from_millis(400);
    options.limits.shutdown_grace = Duration::from_millis(500);
    options.domain = Some("boxes.example".into());
    Server::start(options).await
}

#[tokio::test]
async fn a_client_that_says_nothing_or_half_is_let_go() {
    let server = quick_server().await;
    let beginnings: [&[u8]; 6] = [
        b"",
        b"P",
        b"PRI * HTTP/2.0\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: 1",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ];
    for bytes in beginnings {
        // With HTTP/2 the connection lives as long as it answers pings.
        let spoken = bytes.starts_with(b"PRI") && bytes.len() == 24;
        if spoken {
            continue;
        }
        let began = Instant::now();
        let mut stream = TcpStream::connect(server.address).await.expect("connects");
        stream.write_all(bytes).await.expect("writes");
        let mut rest = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut rest)).await;
        assert!(read.is_ok(), "{bytes:?} was left open");
        assert!(began.elapsed() >= Duration::from_millis(300), "{bytes:?}");
        assert!(rest.is_empty() || parse(&rest).status == 408, "{}", String::from_utf8_lossy(&rest));
    }
}

#[tokio::test]
async fn drops_that_come_slowly_do_not_hold_a_connection() {
    let server = quick_server().await;
    let mut stream = TcpStream::connect(server.address).await.expect("connects");
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n").await.expect("writes");
    let mut buffer = [0; 1024];
    let mut lines = 0;
    loop {
        lines += 1;
        assert!(lines < 600, "still open");
        if stream.write_all(b"X-Slow: 1\r\n").await.is_err() {
            break;
        }
        let read = tokio::time::timeout(Duration::from_millis(100), stream.read(&mut buffer)).await;
        if let Ok(Ok(0) | Err(_)) = read {
            break;
        }
    }
}

#[tokio::test]
async fn a_body_that_does_not_come_is_an_answer() {
    let server = quick_server().await;
    let head = b"POST /v1/signed/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n";
    assert_eq!(server.raw(head).await.status, 405);
    let bodies: [&[u8]; 2] = [b"Content-Length: 100\r\n\r\n{", b"Transfer-Encoding: chunked\r\n\r\n5\r\n{"];
    for body in bodies {
        let mut stream = tokio::net::UnixStream::connect(&server.socket).await.expect("connects");
        let head = b"POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";
        stream.write_all(&[head, body].concat()).await.expect("writes");
        let mut answer = vec![0; 4096];
        let read = tokio::time::timeout(Duration::from_secs(10), stream.read(&mut answer)).await;
        let size = read.expect("an answer in time").expect("an answer");
        assert_eq!(parse(&answer[..size]).status, 408, "{body:?}");
    }
}

#[tokio::test]
async fn who_is_refused_before_its_body_is_read_is_told_that_the_connection_ends() {
    let server = quick_server().await;
    // No token, and no body yet.
    let head = b"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n";
    let refused = server.raw(head).await;
    assert_eq!(
        (refused.status, refused.header("connection").as_deref()),
        (401, Some("close")),
        "{}",
        refused.head
    );

    // A refusal because of the body's content leaves the connection as it is, for the next request.
    let mut stream = tokio::net::UnixStream::connect(&server.socket).await.expect("connects");
    for _ in 0..2 {
        let request = "POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\n{...}";
        stream.write_all(request.as_bytes()).await.expect("writes");
        let mut answer = vec![0; 4096];
        let size = stream.read(&mut answer).await.expect("an answer");
        let refused = parse(&answer[..size]);
        assert_eq!((refused.status, refused.header("connection")), (400, None), "{}", refused.head);
    }
}

#[tokio::test]
async fn large_and_many_headers_are_refused() {
    let server = quick_server().await;
    let long = format!("X-Long: {}\r\n", "x".repeat(200_000));
    let many: String = (0..1000).map(|n| format!("X-{n}: 1\r\n")).collect();
    for headers in [long, many] {
        let answer = server.ask_tcp("GET", "/healthz", &headers, None).await;
        assert!([431, 400, 0].contains(&answer.status), "{}", answer.head);
    }
    let target = format!("/{}", "a".repeat(100_000));
    let answer = server.ask_tcp("GET", &target, "", None).await;
    assert!([414, 431, 400, 404].contains(&answer.status), "{}", answer.head);
    assert_eq!(server.ask_tcp("GET", "/healthz", "", None).await.status, 200);
}

#[tokio::test]
async fn broken_framing_is_refused() {
    let server = quick_server().await;
    let requests: [&[u8]; 9] = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03hello tls hello tls hello",
        b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nBad Header: 1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n",
        b"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: identity, chunked, x\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n             ",
    ];
    for request in requests {
        let answer = server.raw(request).await;
        assert!([400, 0, 505, 501].contains(&answer.status), "{request:?}: {}", answer.head);
    }
    let chunks = b"POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
        Transfer-Encoding: chunked\r\nConnection: close\r\n\r\nFFFFFFFFFFFFFFFFF\r\n{}\r\n0\r\n\r\n";
    let mut stream = tokio::net::UnixStream::connect(&server.socket).await.expect("connects");
    stream.write_all(chunks).await.expect("writes");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert_eq!(parse(&answer).status, 400);
}

#[tokio::test]
async fn foreign_hosts_and_origins_are_refused_before_tokens() {
    let server = quick_server().await;
    for (headers, status) in [
        ("Host: evil.example\r\n", 403),
        ("Host: localhost.evil.example\r\n", 403),
        ("Host: localhost\r\nHost: localhost\r\n", 400),
        ("Host: localhost\r\nOrigin: https://evil.example\r\n", 403),
        ("Host: localhost\r\nOrigin: null\r\n", 403),
        ("Host: localhost\r\n", 401),
        ("Host: boxes.example\r\n", 401),
    ] {
        let answer = server.ask_tcp("GET", "/v1/whoami", headers, None).await;
        assert_eq!(answer.status, status, "{headers}: {}", answer.text());
        assert!(!answer.json()["request_id"].as_str().expect("an id").is_empty());
    }
    let absolute = "http://evil.example/v1/whoami";
    assert_eq!(server.ask_tcp("GET", absolute, "Host: localhost\r\n", None).await.status, 400);
}

#[tokio::test]
async fn over_tcp_everything_needs_a_token_but_what_is_said_to_be_open() {
    let server = quick_server().await;
    let document: serde_json::Value = serde_json::from_str(&paddock_server::openapi()).expect("JSON");
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("operations") {
            let path = path.replace("{port}", "80").replace("{exec}", "1").replace(['{', '}'], "");
            let body = operation["requestBody"].is_object().then_some("{}");
            let answer = server.ask_tcp(&method.to_uppercase(), &path, "", body).await;
            let open = operation["security"] == serde_json::json!([{}]);
            assert_eq!(answer.status != 401, open, "{method} {path}: {}", answer.head);
            if !open {
                assert_eq!(answer.header("www-authenticate").as_deref(), Some("Bearer"), "{path}");
            }
            let wrong =
                server.ask_tcp(&method.to_uppercase(), &path, "Authorization: Bearer nope\r\n", body).await;
            assert_eq!(wrong.status != 401, open, "{method} {path}: {}", wrong.head);
        }
    }
}

#[tokio::test]
async fn every_mistake_has_its_answer() {
    let server = quick_server().await;
    for (method, target, body, status, code) in [
        ("GET", "/nothing", None, 404, "invalid_request"),
        ("GET", "/v1/../v1/whoami", None, 404, "invalid_request"),
        ("GET", "/v1/%2e%2e/healthz", None, 404, "invalid_request"),
        ("TRACE", "/v1/whoami", None, 405, "invalid_request"),
        ("PUT", "/v1/sandboxes", Some("{}"), 405, "invalid_request"),
        ("GET", "/v1/whoami?evil=1", None, 400, "unknown_field"),
        ("GET", "/v1/sandboxes?limit=0", None, 400, "invalid_request"),
        ("GET", "/v1/sandboxes?state=dead", None, 400, "invalid_request"),
        ("GET", "/v1/sandboxes?metadata=novalue", None, 400, "invalid_request"),
        ("GET", "/v1/sandboxes?cursors=x", None, 400, "unknown_field"),
        ("POST", "/v1/sandboxes", Some("{"), 400, "invalid_request"),
        ("POST", "/v1/sandboxes", Some("[]"), 400, "invalid_request"),
        ("POST", "/v1/sandboxes", Some("{\"ttl\": 1}"), 400, "unknown_field"),
        ("POST", "/v1/sandboxes", Some("{\"limits\": {\"cpus\": \"many\"}}"), 400, "invalid_request"),
        ("POST", "/v1/sandboxes?x=1", Some("{}"), 400, "unknown_field"),
        ("GET", "/v1/sandboxes/a/execs/-1", None, 400, "invalid_request"),
        ("GET", "/v1/sandboxes/a/execs/4294967296", None, 400, "invalid_request"),
        ("GET", "/v1/sandboxes/%ff", None, 400, "invalid_request"),
        ("GET", "/v1/sandboxes/a/execs/1/wait?timeout_seconds=nan", None, 400, "invalid_request"),
        ("GET", "/v1/sandboxes/a/files/content", None, 400, "invalid_request"),
        ("PUT", "/v1/sandboxes/a/files/content?path=x&mode=rwx", Some("x"), 400, "invalid_request"),
        ("GET", "/v1/sandboxes/a/ports/0/", None, 400, "invalid_request"),
        ("GET", "/v1/sandboxes/a/ports/x/", None, 400, "invalid_request"),
    ] {
        let answer = server.ask(method, target, body).await;
        assert_eq!(answer.status, status, "{method} {target}: {}", answer.text());
        assert_eq!(answer.code(), code, "{method} {target}: {}", answer.text());
        assert_eq!(answer.header("content-type").as_deref(), Some("application/json"));
        assert_eq!(answer.header("x-request-id"), answer.json()["request_id"].as_str().map(str::to_string));
    }
    let allowed = server.ask("PUT", "/v1/sandboxes", Some("{}")).await.header("allow");
    assert!(allowed.is_some_and(|allowed| allowed.contains("GET") && allowed.contains("POST")));
}

#[tokio::test]
async fn a_large_body_is_refused_and_does_not_fill_memory() {
    let server = quick_server().await;
    let body = format!("{{\"name\": \"{}\"}}", "x".repeat(9 << 20));
    let answer = server.ask("POST", "/v1/sandboxes", Some(&body)).await;
    assert_eq!((answer.status, answer.code().as_str()), (413, "too_large"));
    let plain = server.raw(
        b"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
        Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}",
    );
    assert_eq!(plain.await.status, 401);
}

#[tokio::test]
async fn a_request_id_is_echoed_only_where_it_is_safe() {
    let server = quick_server().await;
    let mine = server.ask_tcp("GET", "/healthz", "X-Request-Id: mine-1\r\n", None).await;
    assert_eq!(mine.header("x-request-id").as_deref(), Some("mine-1"));
    let evil = server.ask_tcp("GET", "/healthz", "X-Request-Id: <b>\r\n", None).await;
    assert!(evil.header("x-request-id").is_some_and(|id| id.starts_with("rq-")));
}

#[tokio::test]
async fn idle_strangers_do_not_keep_others_out() {
    let mut options = Options::default();
    options.limits.connections = 24;
    options.limits.strangers = 16;
    options.limits.strangers_per_peer = 8;
    let server = Server::start(options).await;
    // Three times as many as there is room for; each waits for nothing, as an attacker would.
    let mut idle = Vec::new();
    for _ in 0..72 {
        idle.push(TcpStream::connect(server.address).await.expect("connects"));
    }
    for _ in 0..3 {
        assert_eq!(server.ask_tcp("GET", "/healthz", "", None).await.status, 200);
    }
    // The oldest were closed for it.
    let mut byte = [0; 1];
    let read = tokio::time::timeout(Duration::from_secs(10), idle[0].read(&mut byte)).await;
    assert!(matches!(read.expect("closed"), Ok(0) | Err(_)));
}

#[tokio::test]
async fn whoever_has_shown_a_token_stays() {
    let mut options = Options::default();
    options.limits.connections = 16;
    options.limits.strangers = 8;
    options.limits.strangers_per_peer = 4;
    options.limits.stranger_time = Duration::from_secs(2);
    let server = Server::start(options).await;
    let made = server.ask("POST", "/v1/tokens", Some(r#"{"tenant": "team", "role": "user"}"#)).await.json();
    let secret = made["secret"].as_str().expect("a secret");
    let request = format!(
        "GET /v1/whoami HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {secret}\r\n\r\n",
        server.address
    );
    let mut known = TcpStream::connect(server.address).await.expect("connects");
    let ask = async |stream: &mut TcpStream| {
        stream.write_all(request.as_bytes()).await.expect("writes");
        let mut answer = vec![0; 4096];
        let size = stream.read(&mut answer).await.expect("an answer");
        parse(&answer[..size]).status
    };
    assert_eq!(ask(&mut known).await, 200);
    let mut stranger = TcpStream::connect(server.address).await.expect("connects");
    // A stranger who asks nothing is let go after its time; by then the other has been idle for as long.
    let mut byte = [0; 1];
    let read = tokio::time::timeout(Duration::from_secs(10), stranger.read(&mut byte)).await;
    assert!(matches!(read.expect("closed"), Ok(0) | Err(_)));
    let mut flood = Vec::new();
    for _ in 0..12 {
        flood.push(TcpStream::connect(server.address).await.expect("connects"));
    }
    assert_eq!(server.ask_tcp("GET", "/healthz", "", None).await.status, 200);
    assert_eq!(ask(&mut known).await, 200);
}

#[tokio::test]
async fn a_body_of_too_many_values_is_refused() {
    let server = Server::start(Options::default()).await;
    for body in [
        format!("{{\"env\": [{}]}}", vec!["[]"; 400_000].join(",")),
        format!("{{\"metadata\": {{{}}}}}", vec!["\"a\":\"\""; 400_000].join(",")),
    ] {
        let answer = server.ask("POST", "/v1/sandboxes", Some(&body)).await;
        assert!(matches!(answer.status, 400 | 413), "{}", answer.text());
    }
    let many = format!("{{\"argv\": [{}]}}", vec!["\"\""; 400_000].join(","));
    let answer = server.ask("POST", "/v1/sandboxes/x/execs", Some(&many)).await;
    assert_eq!((answer.status, answer.code().as_str()), (413, "too_large"), "{}", answer.text());
}
