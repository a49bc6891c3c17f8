//! Tokens and their roles: the rights of each, and that no tenant learns of another's things.

#![allow(clippy::expect_used, clippy::panic, reason = "a test: whatever is missing shall fail it")]

mod harness;

use harness::{Answer, Server};
use paddock_server::Options;
use serde_json::json;

async fn token(server: &Server, tenant: &str, role: &str) -> String {
    let body = json!({"tenant": tenant, "role": role}).to_string();
    let made = server.ask("POST", "/v1/tokens", Some(&body)).await;
    assert_eq!(made.status, 201, "{}", made.text());
    made.json()["secret"].as_str().expect("a secret").to_string()
}

async fn with(server: &Server, secret: &str, method: &str, target: &str, body: Option<&str>) -> Answer {
    server.ask_tcp(method, target, &format!("Authorization: Bearer {secret}\r\n"), body).await
}

#[tokio::test]
async fn roles_do_what_they_say() {
    let server = Server::start(Options::default()).await;
    let (admin, user, reader) = (
        token(&server, "team", "admin").await,
        token(&server, "team", "user").await,
        token(&server, "team", "read-only").await,
    );
    for (secret, role) in [(&admin, "admin"), (&user, "user"), (&reader, "read-only")] {
        let answer = with(&server, secret, "GET", "/v1/whoami", None).await;
        assert_eq!(answer.json(), json!({"tenant": "team", "role": role, "owner": false}));
        assert_eq!(with(&server, secret, "GET", "/v1/sandboxes", None).await.status, 200, "{role}");
        let metrics = with(&server, secret, "GET", "/metrics", None).await;
        assert_eq!(metrics.status, 403, "{role}");
        let quota = with(&server, secret, "PUT", "/v1/tenants/team/quota", Some("{}")).await;
        assert_eq!(quota.status, 403, "{role}");
    }
    for (method, target) in [
        ("POST", "/v1/sandboxes"),
        ("DELETE", "/v1/sandboxes/x"),
        ("POST", "/v1/sandboxes/x/execs"),
        ("PUT", "/v1/sandboxes/x/files/content?path=/a"),
        ("POST", "/v1/sandboxes/x/files/sign"),
        ("GET", "/v1/sandboxes/x/ports/80/"),
    ] {
        let answer = with(&server, &reader, method, target, Some("{}")).await;
        assert_eq!((answer.status, answer.code().as_str()), (403, "forbidden"), "{method} {target}");
    }
    assert_eq!(with(&server, &user, "GET", "/v1/tokens", None).await.status, 403);
    assert_eq!(with(&server, &admin, "GET", "/v1/tokens", None).await.status, 200);
    let foreign = json!({"tenant": "others", "role": "admin"}).to_string();
    assert_eq!(with(&server, &admin, "POST", "/v1/tokens", Some(&foreign)).await.status, 403);
}

#[tokio::test]
async fn a_revoked_token_is_unknown() {
    let server = Server::start(Options::default()).await;
    let secret = token(&server, "team", "user").await;
    let tokens = server.ask("GET", "/v1/tokens", None).await;
    assert!(!tokens.text().contains(&secret), "only its hash is kept");
    let id = tokens.json()["tokens"][0]["id"].as_str().expect("an id").to_string();
    assert_eq!(server.ask("DELETE", &format!("/v1/tokens/{id}"), None).await.status, 200);
    assert_eq!(with(&server, &secret, "GET", "/v1/whoami", None).await.status, 401);
    assert_eq!(server.ask("DELETE", &format!("/v1/tokens/{id}"), None).await.code(), "token_not_found");
}

#[tokio::test]
async fn what_is_anothers_looks_like_what_is_not_there() {
    let server = Server::start(Options::default()).await;
    let (mine, theirs) = (token(&server, "mine", "user").await, token(&server, "theirs", "admin").await);
    let made = with(&server, &mine, "POST", "/v1/sandboxes", Some("{\"name\": \"box\"}")).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let id = made.json()["id"].as_str().expect("an id").to_string();
    let unknown = "sb-0000000000000000";
    for rest in [
        "",
        "/usage",
        "/execs",
        "/execs/1",
        "/execs/1/output",
        "/execs/1/stdout",
        "/files?path=/",
        "/files/content?path=/etc/passwd",
        "/files/stat?path=/",
        "/changes",
        "/audit",
        "/audit/outputs",
        "/ports/80/",
    ] {
        let ask = async |id: &str| {
            let answer = with(&server, &theirs, "GET", &format!("/v1/sandboxes/{id}{rest}"), None).await;
            let mut body = answer.json();
            body["request_id"] = json!("");
            (answer.status, body.to_string().replace(id, "ID"))
        };
        let (foreign, none) = (ask(&id).await, ask(unknown).await);
        assert_eq!(foreign.0, 404, "{rest}: {}", foreign.1);
        assert_eq!(foreign, none, "{rest}");
        assert_eq!(ask("box").await.0, 404, "{rest}");
    }
    let killed = with(&server, &theirs, "DELETE", &format!("/v1/sandboxes/{id}"), None).await;
    assert_eq!(killed.status, 404);
    let listed = with(&server, &theirs, "GET", "/v1/sandboxes", None).await;
    assert_eq!(listed.json()["sandboxes"], json!([]));
    // Its name is free for others.
    let same = with(&server, &theirs, "POST", "/v1/sandboxes", Some("{\"name\": \"box\"}")).await;
    assert_eq!(same.status, 201, "{}", same.text());
    for secret in [&mine, &theirs] {
        assert_eq!(with(&server, secret, "DELETE", "/v1/sandboxes/box", None).await.status, 200);
    }
}
