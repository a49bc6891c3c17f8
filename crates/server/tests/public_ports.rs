//! Ports that answer without a token, and the host that programs there are asked as. As root.

#![allow(clippy::expect_used, clippy::panic, reason = "a test: whatever is missing shall fail it")]

mod harness;

use harness::{Answer, Server, parse};
use paddock_server::Options;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Answers on two ports with the headers that it was sent.
const WEB: &str = r#"
import http.server, threading
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        if self.headers.get('Upgrade') == 'echo':
            self.send_response(101); self.send_header('Upgrade', 'echo'); self.send_header('Connection', 'Upgrade'); self.end_headers()
            self.wfile.flush()
            for line in self.rfile:
                self.wfile.write(b'inside: ' + line); self.wfile.flush()
            return
        body = str(self.headers).encode()
        self.send_response(200); self.send_header('Content-Length', str(len(body))); self.end_headers(); self.wfile.write(body)
serve = lambda port: http.server.ThreadingHTTPServer(('127.0.0.1', port), Handler).serve_forever()
threading.Thread(target=serve, args=(8001,), daemon=True).start()
serve(8000)
"#;
const HANG: Duration = Duration::from_secs(60);
const DOMAIN: &str = "boxes.example";

struct Place {
    server: Server,
    user: String,
}

/// A request of the token `by`; an empty one is the owner's, over the socket.
impl Place {
    async fn start(public_ports: bool) -> Place {
        let options = Options { domain: Some(DOMAIN.into()), ..Options::default() };
        let server = Server::start_with(options, public_ports).await;
        let (user, _) = token(&server, "mine", "user").await;
        Place { server, user }
    }

    async fn by(&self, secret: &str, method: &str, target: &str, body: Value) -> Answer {
        let body = (!body.is_null()).then(|| body.to_string());
        self.server
            .ask_tcp(method, target, &format!("Authorization: Bearer {secret}\r\n"), body.as_deref())
            .await
    }

    async fn create(&self, secret: &str, body: Value) -> Value {
        let made = self.by(secret, "POST", "/v1/sandboxes", body).await;
        assert_eq!(made.status, 201, "{}", made.text());
        made.json()
    }

    /// Starts the program in a sandbox, and waits until it listens.
    async fn serve(&self, id: &str) {
        let web = json!({"argv": ["python3", "-c", WEB], "background": true});
        assert_eq!(self.by(&self.user, "POST", &format!("/v1/sandboxes/{id}/execs"), web).await.status, 201);
        for port in [8000, 8001] {
            let up = format!("/v1/sandboxes/{id}/ports/{port}/");
            let asked = async {
                while self.by(&self.user, "GET", &up, Value::Null).await.status != 200 {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            };
            tokio::time::timeout(HANG, asked).await.expect("the program listens");
        }
    }

    async fn update(&self, secret: &str, id: &str, ports: Value) -> Answer {
        self.by(secret, "PATCH", &format!("/v1/sandboxes/{id}"), json!({ "ports": ports })).await
    }

    async fn ports(&self, id: &str) -> Value {
        let found = self.by(&self.user, "GET", &format!("/v1/sandboxes/{id}"), Value::Null).await;
        assert_eq!(found.status, 200, "{}", found.text());
        found.json()["ports"].clone()
    }

    async fn audit(&self, id: &str) -> String {
        let lines = self.by(&self.user, "GET", &format!("/v1/sandboxes/{id}/audit"), Value::Null).await;
        assert_eq!(lines.status, 200, "{}", lines.text());
        // The arguments of a call stand in them as text.
        lines.text().replace('\\', "")
    }

    /// At the name of the port, without any token.
    async fn visit(&self, id: &str, port: u16) -> Answer {
        self.server.ask_tcp("GET", "/", &format!("Host: {port}-{id}.{DOMAIN}\r\n"), None).await
    }

    /// A visitor's connection that has become something else than HTTP.
    async fn upgraded(&self, id: &str, port: u16) -> TcpStream {
        let mut stream = TcpStream::connect(self.server.address).await.expect("connects");
        let request = format!(
            "GET / HTTP/1.1\r\nHost: {port}-{id}.{DOMAIN}\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.expect("writes");
        let mut buffer = vec![0; 4096];
        let size = stream.read(&mut buffer).await.expect("a head");
        assert_eq!(parse(&buffer[..size]).status, 101, "{}", String::from_utf8_lossy(&buffer[..size]));
        echoes(&mut stream).await;
        stream
    }
}

async fn echoes(stream: &mut TcpStream) {
    let mut buffer = [0; 64];
    stream.write_all(b"hello\n").await.expect("writes");
    let size = stream.read(&mut buffer).await.expect("an echo");
    assert_eq!(&buffer[..size], b"inside: hello\n");
}

async fn has_ended(mut stream: TcpStream) {
    let mut rest = Vec::new();
    // Reset or closed: both are the end.
    let _ = tokio::time::timeout(HANG, stream.read_to_end(&mut rest)).await.expect("the connection ends");
}

/// The secret, and the id.
async fn token(server: &Server, tenant: &str, role: &str) -> (String, String) {
    let body = json!({"tenant": tenant, "role": role}).to_string();
    let made = server.ask("POST", "/v1/tokens", Some(&body)).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let text = |name: &str| made.json()[name].as_str().expect("a text").to_string();
    (text("secret"), text("id"))
}

fn id_of(sandbox: &Value) -> String {
    sandbox["id"].as_str().expect("an id").to_string()
}

fn told_host(answer: &Answer) -> String {
    let text = answer.text();
    let host = text.lines().find_map(|line| line.strip_prefix("host: ").or(line.strip_prefix("Host: ")));
    host.unwrap_or_else(|| panic!("{}: {text}", answer.status)).trim().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_is_public_where_the_owner_allows_it_and_a_caller_asks_for_it() {
    let closed = Place::start(false).await;
    let plain = id_of(&closed.create(&closed.user, json!({})).await);
    for asked in [json!("all"), json!([8000])] {
        let body = json!({ "ports": { "public": asked } });
        let refused = closed.by(&closed.user, "POST", "/v1/sandboxes", body.clone()).await;
        assert_eq!((refused.status, refused.code().as_str()), (403, "forbidden"), "{}", refused.text());
        assert!(refused.json()["hint"].as_str().expect("a hint").contains("--public-ports"));
        let refused = closed.update(&closed.user, &plain, json!({ "public": asked })).await;
        assert_eq!((refused.status, refused.code().as_str()), (403, "forbidden"), "{}", refused.text());
        let body = body.to_string();
        let by_owner = closed.server.ask("POST", "/v1/sandboxes", Some(&body)).await;
        assert_eq!(by_owner.status, 403, "{}", by_owner.text());
    }
    assert_eq!(closed.ports(&plain).await, Value::Null);
    // To close a port, and to name a host, nobody has to be asked.
    let named =
        closed.update(&closed.user, &plain, json!({ "public": [], "request_host": "app.example" })).await;
    assert_eq!(named.json()["ports"], json!({ "public": [], "request_host": "app.example" }));

    let place = Place::start(true).await;
    let plain = id_of(&place.create(&place.user, json!({})).await);
    place.serve(&plain).await;
    assert_eq!(place.visit(&plain, 8000).await.status, 401, "nobody asked for it");
    let sandbox = place.create(&place.user, json!({ "name": "box", "ports": { "public": [8000] } })).await;
    assert_eq!(sandbox["ports"], json!({ "public": [8000] }));
    let weaknesses = sandbox["guarantees"]["weaknesses"].to_string();
    assert!(weaknesses.contains("port 8000 answers everybody"), "{weaknesses}");
    let id = id_of(&sandbox);
    place.serve(&id).await;
    assert_eq!(told_host(&place.visit(&id, 8000).await), "localhost:8000");
    assert_eq!(place.visit(&id, 8001).await.status, 401, "another port");
    assert_eq!(place.visit("box", 8000).await.status, 401, "a name is another tenant's to choose");
    assert_eq!(place.visit("sb-0000000000000000", 8000).await.status, 401);
    // By path it would have the origin of the API.
    let by_path = format!("/v1/sandboxes/{id}/ports/8000/");
    assert_eq!(place.server.ask_tcp("GET", &by_path, "", None).await.status, 401);
    for target in ["/v1/whoami".to_string(), format!("/v1/sandboxes/{id}")] {
        let host = format!("Host: 8000-{id}.{DOMAIN}\r\n");
        let answer = place.server.ask_tcp("GET", &target, &host, None).await;
        assert_eq!(told_host(&answer), "localhost:8000", "{target} of a port's name is the program's");
        assert_eq!(place.server.ask_tcp("GET", &target, "", None).await.status, 401);
    }
    let audit = place.audit(&id).await;
    assert!(audit.contains(r#""ports":{"public":[8000]}"#), "{audit}");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_settings_are_refused_and_change_nothing() {
    let place = Place::start(true).await;
    let id = id_of(&place.create(&place.user, json!({ "ports": { "public": [8000] } })).await);
    for (wrong, word) in [
        (json!({ "public": [0] }), "port 0"),
        (json!({ "public": [65536] }), "65536"),
        (json!({ "public": "some" }), "`some`"),
        (json!({ "request_host": "" }), "request host"),
        (json!({ "request_host": "a b" }), "request host"),
        (json!({ "request_host": "a\r\nX-Evil: 1" }), "request host"),
        (json!({ "request_host": "http://a.example" }), "request host"),
        (json!({ "request_host": "user@a.example" }), "request host"),
        (json!({ "request_host": "a.example:0" }), "request host"),
    ] {
        let created = place.by(&place.user, "POST", "/v1/sandboxes", json!({ "ports": wrong.clone() })).await;
        for refused in [created, place.update(&place.user, &id, wrong.clone()).await] {
            assert_eq!((refused.status, refused.code().as_str()), (400, "invalid_request"), "{wrong}");
            let body = refused.json();
            assert!(body["message"].as_str().expect("a message").contains(word), "{wrong}: {body}");
            assert!(!body["hint"].as_str().expect("a hint").is_empty());
        }
    }
    for wrong in [json!({ "public": true }), json!({ "public": ["8000"] }), json!({ "open": [1] }), json!([])]
    {
        let refused = place.by(&place.user, "POST", "/v1/sandboxes", json!({ "ports": wrong.clone() })).await;
        assert_eq!(refused.status, 400, "{wrong}: {}", refused.text());
    }
    assert_eq!(place.ports(&id).await, json!({ "public": [8000] }));
    let (other, _) = token(&place.server, "other", "user").await;
    let (reader, _) = token(&place.server, "mine", "read-only").await;
    for (secret, status) in [(other, 404), (reader, 403)] {
        assert_eq!(place.update(&secret, &id, json!({ "public": "all" })).await.status, status);
    }
    assert_eq!(place.ports(&id).await, json!({ "public": [8000] }));
}

#[tokio::test(flavor = "multi_thread")]
async fn ports_open_and_close_at_once() {
    let place = Place::start(true).await;
    let id = id_of(&place.create(&place.user, json!({})).await);
    place.serve(&id).await;
    assert_eq!(place.visit(&id, 8000).await.status, 401);
    assert_eq!(place.update(&place.user, &id, json!({ "public": "all" })).await.status, 200);
    assert_eq!(place.visit(&id, 8000).await.status, 200);
    assert_eq!(place.visit(&id, 8001).await.status, 200);

    // The host alone: ports stay as they are, and so do those who use them.
    let mut open = place.upgraded(&id, 8000).await;
    let named =
        place.update(&place.user, &id, json!({ "request_host": "${PORT}.app.example:${PORT}" })).await;
    assert_eq!(
        named.json()["ports"],
        json!({ "public": "all", "request_host": "${PORT}.app.example:${PORT}" })
    );
    echoes(&mut open).await;
    assert_eq!(told_host(&place.visit(&id, 8000).await), "8000.app.example:8000");
    let by_path = format!("/v1/sandboxes/{id}/ports/8001/");
    let with_token = place.by(&place.user, "GET", &by_path, Value::Null).await;
    assert_eq!(told_host(&with_token), "8001.app.example:8001", "with a token as without");

    // One port less: whoever came without a token is sent off.
    assert_eq!(place.update(&place.user, &id, json!({ "public": [8001] })).await.status, 200);
    has_ended(open).await;
    assert_eq!(place.visit(&id, 8000).await.status, 401);
    let open = place.upgraded(&id, 8001).await;
    assert_eq!(place.update(&place.user, &id, json!({ "public": [] })).await.status, 200);
    has_ended(open).await;
    assert_eq!(place.visit(&id, 8001).await.status, 401);
    assert_eq!(place.by(&place.user, "GET", &by_path, Value::Null).await.status, 200);
    let audit = place.audit(&id).await;
    assert!(audit.contains(r#""ports":{"public":"all"}"#), "{audit}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ports_are_open_for_the_token_that_opened_them() {
    let place = Place::start(true).await;
    let (second, id_of_second) = token(&place.server, "mine", "user").await;
    let id = id_of(&place.create(&second, json!({ "ports": { "public": "all" } })).await);
    place.serve(&id).await;
    let open = place.upgraded(&id, 8000).await;
    let forked = place.by(&place.user, "POST", &format!("/v1/sandboxes/{id}/fork"), json!({})).await;
    assert_eq!(forked.status, 201, "{}", forked.text());
    let child = forked.json()["sandboxes"][0].clone();
    assert_eq!(child["ports"], json!({ "public": "all" }));
    let child = id_of(&child);
    place.serve(&child).await;
    assert_eq!(place.visit(&child, 8000).await.status, 200);

    let revoked = place.server.ask("DELETE", &format!("/v1/tokens/{id_of_second}"), None).await;
    assert_eq!(revoked.status, 200, "{}", revoked.text());
    has_ended(open).await;
    assert_eq!(place.visit(&id, 8000).await.status, 401);
    assert_eq!(place.visit(&child, 8000).await.status, 200, "open for the token that forked");
    let late = place.by(&place.user, "POST", &format!("/v1/sandboxes/{id}/fork"), json!({})).await;
    assert_eq!(late.json()["sandboxes"][0]["ports"], Value::Null, "the source's are not open any more");
    // Another caller opens them anew, the owner of the host among them.
    let target = format!("/v1/sandboxes/{id}");
    let anew = place.server.ask("PATCH", &target, Some(r#"{"ports": {"public": "all"}}"#)).await;
    assert_eq!(anew.status, 200, "{}", anew.text());
    assert_eq!(place.visit(&id, 8000).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_settings_stay_while_a_sandbox_sleeps_and_no_visitor_wakes_it() {
    let place = Place::start(true).await;
    let settings = json!({ "public": [8000], "request_host": "app.example" });
    let id = id_of(&place.create(&place.user, json!({ "ports": settings })).await);
    place.serve(&id).await;
    let at = |action: &str| format!("/v1/sandboxes/{id}/{action}");
    for (sleep, state, wake) in [("pause", "paused", "resume"), ("hibernate", "hibernated", "wake")] {
        assert_eq!(place.by(&place.user, "POST", &at(sleep), json!({})).await.status, 200);
        let refused = place.visit(&id, 8000).await;
        assert_eq!((refused.status, refused.code().as_str()), (409, "wrong_state"), "{}", refused.text());
        let found = place.by(&place.user, "GET", &format!("/v1/sandboxes/{id}"), Value::Null).await.json();
        assert_eq!((&found["state"], &found["ports"]), (&json!(state), &settings));
        assert_eq!(place.by(&place.user, "POST", &at(wake), json!({})).await.status, 200);
        if wake == "wake" {
            // Its processes ended.
            place.serve(&id).await;
        }
        assert_eq!(told_host(&place.visit(&id, 8000).await), "app.example");
        assert_eq!(place.visit(&id, 8001).await.status, 401);
    }

    // A snapshot keeps the host. To open a port is a right, which a create has to ask for.
    let taken = place.by(&place.user, "POST", &at("snapshots"), json!({ "name": "kept" })).await;
    assert_eq!(taken.status, 201, "{}", taken.text());
    let copy = place.create(&place.user, json!({ "snapshot": "kept" })).await;
    assert_eq!(copy["ports"], json!({ "request_host": "app.example" }));
    let body = json!({ "snapshot": "kept", "ports": { "public": [8001] } });
    let copy = place.create(&place.user, body).await;
    assert_eq!(copy["ports"], json!({ "public": [8001], "request_host": "app.example" }));

    let killed = place.by(&place.user, "DELETE", &format!("/v1/sandboxes/{id}"), Value::Null).await;
    assert_eq!(killed.status, 200, "{}", killed.text());
    let gone = place.visit(&id, 8000).await;
    assert_eq!(gone.code(), "sandbox_ended", "{}", gone.text());
}
