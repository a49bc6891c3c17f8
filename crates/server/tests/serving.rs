//! The server itself: both HTTPs, TLS, its end, its description.

#![allow(clippy::expect_used, clippy::panic, reason = "a test: whatever is missing shall fail it")]

mod harness;

use harness::Server;
use paddock_server::{Ended, Options};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Longer than anything here takes on a busy host: only what never ends is caught by it.
const HANG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn the_owner_needs_no_token_on_the_socket() {
    let server = Server::start(Options::default()).await;
    let answer = server.ask("GET", "/v1/whoami", None).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json(), serde_json::json!({"tenant": "owner", "role": "admin", "owner": true}));
}

#[tokio::test]
async fn it_describes_itself() {
    let server = Server::start(Options::default()).await;
    let document = server.ask_tcp("GET", "/openapi.json", "", None).await;
    assert_eq!(document.text(), paddock_server::openapi());
    let page = server.ask_tcp("GET", "/docs", "", None).await;
    assert!(
        page.header("content-security-policy").is_some_and(|policy| policy.contains("default-src 'none'"))
    );
    assert!(page.text().contains("/v1/sandboxes/{id}/fork"));
    assert_eq!(server.ask_tcp("GET", "/readyz", "", None).await.status, 200);
    assert_eq!(server.ask_tcp("HEAD", "/healthz", "", None).await.body, b"");
}

#[tokio::test]
async fn numbers_are_for_the_owner_and_name_only_our_own_routes() {
    let server = Server::start(Options::default()).await;
    server.ask("GET", "/made-up-by-a-stranger", None).await;
    server.ask("BREW", "/v1/whoami", None).await;
    assert_eq!(server.ask_tcp("GET", "/metrics", "", None).await.status, 401);
    let metrics = server.ask("GET", "/metrics", None).await;
    assert_eq!(metrics.status, 200);
    let text = metrics.text();
    for expected in [
        "paddock_http_requests_total{method=\"GET\",route=\"unknown\",status=\"404\"} 1",
        "method=\"other\"",
        "paddock_http_request_seconds_bucket",
        "paddock_sandboxes{state=\"running\"}",
        "paddock_execs_started_total",
        "paddock_output_bytes_total",
        "paddock_creates_waiting",
        "paddock_resident_memory_bytes",
    ] {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
    assert!(!text.contains("stranger") && !text.contains("BREW"));
}

#[tokio::test]
async fn streams_end_cleanly_when_the_server_ends() {
    let mut server = Server::start(Options::default()).await;
    let mut stream = tokio::net::UnixStream::connect(&server.socket).await.expect("connects");
    stream.write_all(b"GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("writes");
    let mut answer = vec![0; 4096];
    let size = stream.read(&mut answer).await.expect("a head");
    assert!(answer[..size].starts_with(b"HTTP/1.1 200"));
    server.stop();
    let mut rest = Vec::new();
    // The events go on for ever by themselves.
    tokio::time::timeout(HANG, stream.read_to_end(&mut rest)).await.expect("it ends").expect("reads");
    answer.truncate(size);
    answer.extend(rest);
    assert!(answer.ends_with(b"0\r\n\r\n"), "{}", String::from_utf8_lossy(&answer));
    let ended = tokio::time::timeout(HANG, &mut server.ended).await.expect("the server ends");
    assert_eq!(ended.expect("ended"), Ended::Asked);
    assert!(!server.socket.exists());
}

#[tokio::test]
async fn it_ends_when_nobody_needs_it() {
    let options = Options { idle_exit: Some(Duration::from_secs(3)), ..Options::default() };
    let mut server = Server::start(options).await;
    let began = Instant::now();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(server.ask("GET", "/healthz", None).await.status, 200);
    let ended = tokio::time::timeout(HANG, &mut server.ended).await;
    assert_eq!(ended.expect("in time").expect("ended"), Ended::Idle);
    assert!(began.elapsed() >= Duration::from_millis(3_500), "{:?}", began.elapsed());
}
