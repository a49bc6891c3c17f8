//! Rights to one port: all that they open, and all that they do not. As root.

#![allow(clippy::expect_used, clippy::panic, reason = "a test: whatever is missing shall fail it")]

mod harness;

use harness::{Answer, Server, parse};
use paddock_server::Options;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Answers on two ports with what it was asked, and with what it was asked before at /seen.
const WEB: &str = r#"
import http.server, threading
seen = []
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def answer(self):
        self.rfile.read(int(self.headers.get('Content-Length') or 0))
        if self.headers.get('Upgrade') == 'echo':
            self.send_response(101); self.send_header('Upgrade', 'echo'); self.send_header('Connection', 'Upgrade'); self.end_headers()
            self.wfile.flush()
            for line in self.rfile:
                self.wfile.write(b'inside: ' + line); self.wfile.flush()
            return
        said = f'{self.command} {self.path}\n{self.headers}'
        body = ('\n'.join(seen) if self.path == '/seen' else said).encode()
        seen.append(said)
        self.send_response(200); self.send_header('Content-Length', str(len(body))); self.end_headers(); self.wfile.write(body)
    do_GET = do_POST = do_DELETE = answer
serve = lambda port: http.server.ThreadingHTTPServer(('127.0.0.1', port), Handler).serve_forever()
threading.Thread(target=serve, args=(8001,), daemon=True).start()
serve(8000)
"#;
const HANG: Duration = Duration::from_secs(60);
const DOMAIN: &str = "boxes.example";

struct Place {
    server: Server,
    id: String,
    user: String,
    token: String,
}

impl Place {
    async fn start() -> Place {
        let options = Options { domain: Some(DOMAIN.into()), ..Options::default() };
        let server = Server::start(options).await;
        let (user, token) = token(&server, "mine", "user").await;
        let mut place = Place { server, id: String::new(), user, token };
        place.id = place.create("box").await;
        place
    }

    async fn create(&self, name: &str) -> String {
        let body = json!({"name": name}).to_string();
        let made = self.by(&self.user, "POST", "/v1/sandboxes", Some(&body)).await;
        assert_eq!(made.status, 201, "{}", made.text());
        let id = made.json()["id"].as_str().expect("an id").to_string();
        let web = json!({"argv": ["python3", "-c", WEB], "background": true}).to_string();
        let execs = format!("/v1/sandboxes/{id}/execs");
        assert_eq!(self.by(&self.user, "POST", &execs, Some(&web)).await.status, 201);
        for port in [8000, 8001] {
            let up = format!("/v1/sandboxes/{id}/ports/{port}/up");
            let asked = async {
                while self.by(&self.user, "GET", &up, None).await.status != 200 {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            };
            tokio::time::timeout(HANG, asked).await.expect("the program listens");
        }
        id
    }

    async fn by(&self, secret: &str, method: &str, target: &str, body: Option<&str>) -> Answer {
        self.server.ask_tcp(method, target, &format!("Authorization: Bearer {secret}\r\n"), body).await
    }

    /// Without any token.
    async fn ask(&self, method: &str, target: &str, headers: &str) -> Answer {
        self.server.ask_tcp(method, target, headers, None).await
    }

    async fn signed(&self, port: u16, seconds: f64) -> Value {
        let body = json!({"port": port, "expires_seconds": seconds}).to_string();
        let target = format!("/v1/sandboxes/{}/ports/sign", self.id);
        let signed = self.by(&self.user, "POST", &target, Some(&body)).await;
        assert_eq!(signed.status, 200, "{}", signed.text());
        signed.json()
    }

    async fn right(&self, port: u16, seconds: f64) -> String {
        self.signed(port, seconds).await["token"].as_str().expect("a right").to_string()
    }

    fn port(&self, port: u16) -> String {
        format!("/v1/sandboxes/{}/ports/{port}", self.id)
    }

    /// A connection that has become something else than HTTP, by an address alone. `None`: the right ended before.
    async fn upgraded(&self, right: &str) -> Option<TcpStream> {
        let mut stream = TcpStream::connect(self.server.address).await.expect("connects");
        let (target, host) = (self.port(8000), self.server.address);
        let request = format!(
            "GET {target}/ws?paddock_token={right} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.expect("writes");
        let mut buffer = vec![0; 4096];
        let size = stream.read(&mut buffer).await.expect("a head");
        if parse(&buffer[..size]).status == 403 {
            return None;
        }
        assert_eq!(parse(&buffer[..size]).status, 101, "{}", String::from_utf8_lossy(&buffer[..size]));
        stream.write_all(b"hello\n").await.ok()?;
        let size = stream.read(&mut buffer).await.ok().filter(|size| *size > 0)?;
        assert_eq!(&buffer[..size], b"inside: hello\n");
        Some(stream)
    }
}

/// The secret, and the id.
async fn token(server: &Server, tenant: &str, role: &str) -> (String, String) {
    let body = json!({"tenant": tenant, "role": role}).to_string();
    let made = server.ask("POST", "/v1/tokens", Some(&body)).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let text = |name: &str| made.json()[name].as_str().expect("a text").to_string();
    (text("secret"), text("id"))
}

async fn has_ended(mut stream: TcpStream) {
    let mut rest = Vec::new();
    // Reset or closed: both are the end.
    let _ = tokio::time::timeout(HANG, stream.read_to_end(&mut rest)).await.expect("the connection ends");
}

fn refused(answer: &Answer, what: &str) {
    assert_eq!((answer.status, answer.code().as_str()), (403, "forbidden"), "{what}: {}", answer.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_right_opens_its_port_in_every_way_that_a_token_goes() {
    let place = Place::start().await;
    let signed = place.signed(8000, 600.0).await;
    let (url, right) = (signed["url"].as_str().expect("a url"), signed["token"].as_str().expect("a right"));
    assert!(signed["expires_at_ms"].as_u64().expect("a time") > 0);
    let (port, host) = (place.port(8000), format!("8000-{}.{DOMAIN}", place.id));
    assert_eq!(signed["host"], json!(host));
    assert_eq!(url, format!("{port}/?paddock_token={right}"));
    let (by_host, bearer) = (format!("Host: {host}\r\n"), format!("Authorization: Bearer {right}\r\n"));

    // A program takes the address as it is, with every method.
    assert!(place.ask("GET", url, "").await.text().starts_with("GET /\n"));
    for method in ["GET", "POST", "DELETE"] {
        for (target, headers) in [
            (format!("{port}/way?a=1&paddock_token={right}"), String::new()),
            (format!("/way?a=1&paddock_token={right}"), by_host.clone()),
            (format!("{port}/way?a=1"), bearer.clone()),
            ("/way?a=1".into(), format!("{by_host}{bearer}")),
            ("/way?a=1".into(), format!("{by_host}Cookie: paddock_token={right}\r\n")),
        ] {
            let answer = place.ask(method, &target, &headers).await;
            assert!(
                answer.text().starts_with(&format!("{method} /way?a=1\n")),
                "{target}: {}",
                answer.text()
            );
        }
    }
    // A page gets the cookie, for this port alone.
    let page = format!("{by_host}Accept: text/html\r\n");
    let first = place.ask("GET", &format!("/x?paddock_token={right}&y=1"), &page).await;
    assert_eq!((first.status, first.header("location")), (303, Some(format!("http://{host}/x?y=1"))));
    let cookie = first.header("set-cookie").expect("a cookie");
    assert!(cookie.contains("Path=/;") && cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
    let cookie = format!("{page}Cookie: {}\r\n", cookie.split(';').next().expect("a pair"));
    assert!(place.ask("GET", "/x?y=1", &cookie).await.text().starts_with("GET /x?y=1\n"));
    // The program's own Authorization goes on beside the right.
    let own = format!("{by_host}Authorization: Basic b3du\r\n");
    let answer = place.ask("GET", &format!("/own?paddock_token={right}"), &own).await;
    assert!(answer.text().contains("Basic b3du"), "{}", answer.text());
    assert!(place.upgraded(right).await.is_some());

    // Neither the right nor a token beside it goes inside.
    let user = &place.user;
    let copies = format!(
        "X-Copy: {right}\r\nX-Other: {user}\r\nReferer: http://x/?paddock_token={right}\r\nCookie: paddock_token={user}\r\n"
    );
    for headers in [copies.clone(), format!("Authorization: Bearer {right}\r\n{copies}")] {
        let answer =
            place.ask("GET", &format!("{port}/copied?b={right}&paddock_token={right}"), &headers).await;
        assert!(answer.text().starts_with("GET /copied\n"), "{}", answer.text());
    }
    let seen = place.ask("GET", &format!("{port}/seen"), &bearer).await.text();
    assert!(seen.contains("/copied") && !seen.contains("paddock_token"), "{seen}");
    assert!(!seen.contains(right) && !seen.contains(user.as_str()), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_right_opens_nothing_else() {
    let place = Place::start().await;
    let right = place.right(8000, 600.0).await;
    let other = place.create("other").await;
    let id = place.id.clone();

    for (what, target, headers) in [
        ("another port", format!("{}/", place.port(8001)), String::new()),
        ("another sandbox", format!("/v1/sandboxes/{other}/ports/8000/"), String::new()),
        ("its name", "/v1/sandboxes/box/ports/8000/".into(), String::new()),
        ("none", "/v1/sandboxes/sb-0000000000000000/ports/8000/".into(), String::new()),
        ("another port by host", "/".into(), format!("Host: 8001-{id}.{DOMAIN}\r\n")),
        ("another sandbox by host", "/".into(), format!("Host: 8000-{other}.{DOMAIN}\r\n")),
    ] {
        refused(&place.ask("GET", &format!("{target}?paddock_token={right}"), &headers).await, what);
        let page = format!("{headers}Accept: text/html\r\n");
        let page = place.ask("GET", &format!("{target}?paddock_token={right}"), &page).await;
        assert_eq!((page.status, page.header("set-cookie")), (403, None), "{what}");
        let bearer = format!("{headers}Authorization: Bearer {right}\r\n");
        refused(&place.ask("GET", &target, &bearer).await, what);
        let cookie = format!("{headers}Cookie: paddock_token={right}\r\n");
        assert_eq!(place.ask("GET", &target, &cookie).await.status, 401, "{what}");
    }
    // As a token of the API it is none.
    let sandbox = format!("/v1/sandboxes/{id}");
    let sign = json!({"port": 8001, "expires_seconds": 60}).to_string();
    for (method, target, body) in [
        ("GET", "/v1/whoami".to_string(), None),
        ("GET", sandbox.clone(), None),
        ("DELETE", sandbox.clone(), None),
        ("POST", format!("{sandbox}/execs"), Some("{\"command\": \"true\"}")),
        ("GET", format!("{sandbox}/files/content?path=/etc/passwd"), None),
        ("POST", format!("{sandbox}/ports/sign"), Some(sign.as_str())),
        ("POST", "/v1/tokens".into(), Some("{}")),
        ("POST", "/mcp".into(), Some("{}")),
        ("GET", "/metrics".into(), None),
    ] {
        assert_eq!(place.by(&right, method, &target, body).await.status, 401, "{method} {target}");
        let query = if target.contains('?') { "&" } else { "?" };
        // A parameter that a route does not have is refused before anybody is asked for.
        let status = if target == "/metrics" { 400 } else { 401 };
        let target = format!("{target}{query}paddock_token={right}");
        let answer = place.server.ask_tcp(method, &target, "", body).await;
        assert_eq!(answer.status, status, "{method} {target}");
    }
    refused(&place.ask("GET", &format!("/v1/signed/{right}"), "").await, "a signed URL");
    assert_eq!(place.ask("GET", "/v2/sandboxes", &format!("X-API-KEY: {right}\r\n")).await.status, 401);
    let of_e2b =
        format!("E2b-Sandbox-Id: {id}\r\nE2b-Sandbox-Port: 8000\r\nE2B-Traffic-Access-Token: {right}\r\n");
    assert_eq!(place.ask("GET", "/", &of_e2b).await.status, 401);

    // Altered in any of its parts it is unknown.
    for at in [0, 10, right.len() / 2, right.len() - 1] {
        let mut altered = right.clone().into_bytes();
        altered[at] = if altered[at] == b'A' { b'B' } else { b'A' };
        let altered = String::from_utf8(altered).expect("text");
        let answer = place.ask("GET", &format!("{}/?paddock_token={altered}", place.port(8000)), "").await;
        assert_eq!((answer.status, answer.code().as_str()), (401, "unauthorized"), "{at}");
    }
    let another = Place::start().await;
    let answer = another.ask("GET", &format!("{}/?paddock_token={right}", another.port(8000)), "").await;
    assert_eq!(answer.status, 401, "the key is each server's own");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_right_ends_with_its_time_its_token_and_its_sandbox() {
    let place = Place::start().await;
    let port = place.port(8000);
    let answers = async |right: &str| place.ask("GET", &format!("{port}/?paddock_token={right}"), "").await;

    // With its time, and so does all that it opened.
    let mut seconds = 1.0;
    let (short, open) = loop {
        let short = place.right(8000, seconds).await;
        match place.upgraded(&short).await {
            Some(open) => break (short, open),
            // The host was busy for as long.
            None => seconds *= 2.0,
        }
    };
    has_ended(open).await;
    refused(&answers(&short).await, "expired");

    // With the token that asked for it.
    let (second, id_of_second) = token(&place.server, "mine", "user").await;
    let body = json!({"port": 8000, "expires_seconds": 600}).to_string();
    let sign = port.replace("8000", "sign");
    let by_second = place.by(&second, "POST", &sign, Some(&body)).await.json();
    let by_second = by_second["token"].as_str().expect("a right").to_string();
    let by_first = place.right(8000, 600.0).await;
    let by_owner = place.server.ask("POST", &sign, Some(&body)).await.json();
    let by_owner = by_owner["token"].as_str().expect("a right").to_string();
    for right in [&by_first, &by_second, &by_owner] {
        assert_eq!(answers(right).await.status, 200);
    }
    let open = place.upgraded(&by_second).await.expect("it is good");
    let revoked = place.server.ask("DELETE", &format!("/v1/tokens/{id_of_second}"), None).await;
    assert_eq!(revoked.status, 200, "{}", revoked.text());
    has_ended(open).await;
    refused(&answers(&by_second).await, "revoked");
    let lower = format!("/v1/tokens/{}", place.token);
    let lowered = place.server.ask("PATCH", &lower, Some("{\"role\": \"read-only\"}")).await;
    assert_eq!(lowered.status, 200, "{}", lowered.text());
    refused(&answers(&by_first).await, "of a token that only reads");
    refused(&place.by(&place.user, "POST", &sign, Some(&body)).await, "signed by one that only reads");
    let raised = place.server.ask("PATCH", &lower, Some("{\"role\": \"user\"}")).await;
    assert_eq!(raised.status, 200, "{}", raised.text());
    assert_eq!(answers(&by_first).await.status, 200);

    // With its sandbox: another one of the same name is not reached.
    let open = place.upgraded(&by_owner).await.expect("it is good");
    let killed = place.by(&place.user, "DELETE", "/v1/sandboxes/box", None).await;
    assert_eq!(killed.status, 200, "{}", killed.text());
    has_ended(open).await;
    let next = place.create("box").await;
    for right in [&by_first, &by_owner] {
        refused(&answers(right).await, "of a sandbox that ended");
        for at in ["box", next.as_str()] {
            let target = format!("/v1/sandboxes/{at}/ports/8000/?paddock_token={right}");
            refused(&place.ask("GET", &target, "").await, at);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_who_may_use_a_port_signs_for_it() {
    let place = Place::start().await;
    let sign = format!("/v1/sandboxes/{}/ports/sign", place.id);
    let body = json!({"port": 8000, "expires_seconds": 60}).to_string();
    let (theirs, _) = token(&place.server, "theirs", "admin").await;
    let foreign = place.by(&theirs, "POST", &sign, Some(&body)).await;
    assert_eq!((foreign.status, foreign.code().as_str()), (404, "sandbox_not_found"));
    assert_eq!(place.server.ask_tcp("POST", &sign, "", Some(&body)).await.status, 401);
    assert_eq!(place.by(&place.user, "GET", &sign, None).await.status, 405);
    for (body, word) in [
        (json!({"port": 0, "expires_seconds": 60}), "port"),
        (json!({"port": 65536, "expires_seconds": 60}), "65536"),
        (json!({"port": -1, "expires_seconds": 60}), "-1"),
        (json!({"port": "80", "expires_seconds": 60}), "80"),
        (json!({"port": 80}), "expires_seconds"),
        (json!({"port": 80, "expires_seconds": 0}), "expires_seconds"),
        (json!({"port": 80, "expires_seconds": -1}), "expires_seconds"),
        (json!({"port": 80, "expires_seconds": 86401}), "more than a day"),
        (json!({"port": 80, "expires_seconds": 60, "path": "/"}), "path"),
    ] {
        let answer = place.by(&place.user, "POST", &sign, Some(&body.to_string())).await;
        assert_eq!(answer.status, 400, "{body}: {}", answer.text());
        assert!(answer.text().contains(word), "{body}: {}", answer.text());
    }
}
