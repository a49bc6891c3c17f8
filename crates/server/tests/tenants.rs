//! Tokens and their roles: the rights of each, and that no tenant learns of another's things.

#![allow(clippy::expect_used, clippy::panic, reason = "a test: whatever is missing shall fail it")]

mod e2b_tenants;
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
        ("POST", "/v1/sandboxes/x/ports/sign"),
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
async fn a_token_with_another_role_has_other_rights_from_then_on() {
    let server = Server::start(Options::default()).await;
    let (admin, user) = (token(&server, "team", "admin").await, token(&server, "team", "user").await);
    let listed = with(&server, &admin, "GET", "/v1/tokens", None).await.json();
    let id = listed["tokens"].as_array().expect("a list").iter().find(|one| one["role"] == "user");
    let id = id.and_then(|one| one["id"].as_str()).expect("an id").to_string();
    let made = with(&server, &user, "POST", "/v1/sandboxes", Some("{}")).await.json();
    let sandbox = format!("/v1/sandboxes/{}", made["id"].as_str().expect("an id"));
    with(&server, &user, "PUT", &format!("{sandbox}/files/content?path=/tmp/a"), Some("text")).await;
    let mut signed = Vec::new();
    for operation in ["read", "write"] {
        let body = json!({"path": "/tmp/a", "operation": operation, "expires_seconds": 600}).to_string();
        let made = with(&server, &user, "POST", &format!("{sandbox}/files/sign"), Some(&body)).await;
        signed.push(made.json()["url"].as_str().unwrap_or_else(|| panic!("{}", made.text())).to_string());
    }
    assert_eq!(server.ask_tcp("GET", &signed[0], "", None).await.text(), "text");

    let target = format!("/v1/tokens/{id}");
    let lower = Some("{\"role\": \"read-only\"}");
    let foreign = token(&server, "others", "admin").await;
    assert_eq!(with(&server, &foreign, "PATCH", &target, lower).await.code(), "token_not_found");
    assert_eq!(with(&server, &user, "PATCH", &target, lower).await.status, 403);
    assert_eq!(with(&server, &admin, "PATCH", &target, Some("{\"role\": \"owner\"}")).await.status, 400);
    let changed = with(&server, &admin, "PATCH", &target, lower).await;
    assert_eq!((changed.status, changed.json()["role"].as_str()), (200, Some("read-only")));
    assert!(!changed.text().contains("secret"));

    let told = with(&server, &user, "GET", "/v1/whoami", None).await.json();
    assert_eq!(told, json!({"tenant": "team", "role": "read-only", "owner": false}));
    assert_eq!(with(&server, &user, "DELETE", &sandbox, None).await.status, 403);
    for (method, url, body) in [("GET", &signed[0], None), ("PUT", &signed[1], Some("other"))] {
        assert_eq!(server.ask_tcp(method, url, "", body).await.status, 403, "{method}");
    }
    let listed = with(&server, &admin, "GET", "/v1/tokens", None).await.text();
    assert_eq!(listed.matches("read-only").count(), 1, "{listed}");
    assert_eq!(server.ask("DELETE", &sandbox, None).await.status, 200);
}

#[tokio::test]
async fn all_tokens_of_a_tenant_end_with_its_sign_in_codes() {
    let server = Server::start(Options::default()).await;
    let (one, two) = (token(&server, "team", "user").await, token(&server, "team", "admin").await);
    let stays = token(&server, "others", "admin").await;
    let code = json!({"tenant": "team", "role": "user"}).to_string();
    let code = server.ask("POST", "/v1/sign-in-codes", Some(&code)).await.json();
    let target = "/v1/tenants/team/tokens";
    assert_eq!(with(&server, &one, "DELETE", target, None).await.status, 403);
    assert_eq!(with(&server, &stays, "DELETE", target, None).await.status, 403);
    let ended = with(&server, &two, "DELETE", target, None).await;
    assert_eq!((ended.status, ended.json()["tokens"].as_array().map(Vec::len)), (200, Some(2)));
    for secret in [&one, &two] {
        assert_eq!(with(&server, secret, "GET", "/v1/whoami", None).await.status, 401);
    }
    assert_eq!(with(&server, &stays, "GET", "/v1/whoami", None).await.status, 200);
    let code = json!({"code": code["code"]}).to_string();
    assert_eq!(server.ask_tcp("POST", "/v1/sign-in", "", Some(&code)).await.status, 401);
    assert_eq!(server.ask("DELETE", target, None).await.json()["tokens"], json!([]));
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
