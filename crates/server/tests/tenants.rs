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

/// The same in the words of E2B, by its control plane and by the tokens that open one sandbox.
#[tokio::test]
async fn what_is_anothers_is_not_there_for_clients_of_e2b_either() {
    let server = Server::start(Options::default()).await;
    let (mine, theirs) = (token(&server, "mine", "user").await, token(&server, "theirs", "admin").await);
    let ask = async |key: &str, method: &str, target: &str, body: Option<&str>| {
        server.ask_tcp(method, target, &format!("X-API-KEY: {key}\r\n"), body).await
    };
    let make = async |key: &str| {
        let made = ask(key, "POST", "/v2/sandboxes", Some("{\"templateID\": \"base\"}")).await;
        assert_eq!(made.status, 201, "{}", made.text());
        made.json()
    };
    let (box_of_mine, box_of_theirs) = (make(&mine).await, make(&theirs).await);
    let id = box_of_mine["sandboxID"].as_str().expect("an id");
    let unknown = "sb-0000000000000000";
    for (method, rest, body) in [
        ("GET", "", None),
        ("DELETE", "", None),
        ("POST", "/timeout", Some("{\"timeout\": 1}")),
        ("POST", "/pause", Some("{}")),
        ("POST", "/connect", Some("{\"timeout\": 1}")),
        ("GET", "/metrics", None),
        ("PUT", "/network", Some("{}")),
        ("POST", "/snapshots", Some("{}")),
        ("POST", "/fork", Some("{}")),
    ] {
        let answered = async |id: &str| {
            let answer = ask(&theirs, method, &format!("/sandboxes/{id}{rest}"), body).await;
            (answer.status, answer.text().replace(id, "ID"))
        };
        let (foreign, none) = (answered(id).await, answered(unknown).await);
        assert_eq!(foreign.0, 404, "{method} {rest}: {}", foreign.1);
        assert_eq!(foreign, none, "{method} {rest}");
    }
    for (kind, body) in
        [("volumes", "{\"name\": \"own\"}"), ("secrets", "{\"name\": \"own\", \"value\": \"long-enough\"}")]
    {
        assert_eq!(ask(&mine, "POST", &format!("/{kind}"), Some(body)).await.status, 201, "{kind}");
        for method in ["GET", "DELETE"] {
            let answered = async |name: &str| {
                let answer = ask(&theirs, method, &format!("/{kind}/{name}"), None).await;
                (answer.status, answer.text().replace(name, "NAME"))
            };
            let (foreign, none) = (answered("own").await, answered("nil").await);
            assert_eq!((foreign.0, &foreign), (404, &none), "{method} {kind}");
        }
        assert_eq!(ask(&theirs, "GET", &format!("/{kind}"), None).await.json(), json!([]), "{kind}");
    }
    for list in ["/v2/sandboxes", "/snapshots"] {
        let listed = ask(&theirs, "GET", list, None).await.text();
        assert!(!listed.contains(id), "{list}: {listed}");
    }
    // Their token opens theirs, and says the same of mine as of none.
    let key = box_of_theirs["envdAccessToken"].as_str().expect("a token");
    let inside = async |id: &str, port: u16, path: &str| {
        let headers = format!(
            "E2b-Sandbox-Id: {id}\r\nE2b-Sandbox-Port: {port}\r\nX-Access-Token: {key}\r\nE2B-Traffic-Access-Token: {key}\r\n"
        );
        let answer = server.ask_tcp("GET", path, &headers, None).await;
        (answer.status, answer.text().replace(id, "ID"))
    };
    let own = box_of_theirs["sandboxID"].as_str().expect("an id");
    assert_eq!(inside(own, 49_983, "/health").await.0, 204);
    for (port, path) in
        [(49_983, "/health"), (49_983, "/files?path=/etc/passwd"), (49_999, "/contexts"), (80, "/")]
    {
        let (foreign, none) = (inside(id, port, path).await, inside(unknown, port, path).await);
        assert_eq!((foreign.0, &foreign), (401, &none), "{port} {path}");
    }
    for (key, sandbox) in [(&mine, id), (&theirs, own)] {
        assert_eq!(ask(key, "DELETE", &format!("/sandboxes/{sandbox}"), None).await.status, 204);
    }
}

/// Templates, their builds and tags, uploads for them, and the files of volumes.
#[tokio::test]
async fn what_others_built_and_kept_is_not_there_for_clients_of_e2b() {
    let server = Server::start(Options::default()).await;
    let (mine, theirs) = (token(&server, "mine", "user").await, token(&server, "theirs", "admin").await);
    let ask = async |key: &str, method: &str, target: &str, body: Option<&str>| {
        server.ask_tcp(method, target, &format!("X-API-KEY: {key}\r\n"), body).await
    };
    let made = ask(&mine, "POST", "/v3/templates", Some("{\"name\": \"zebrafish\"}")).await;
    assert_eq!(made.status, 202, "{}", made.text());
    let word = |answer: &Answer, field: &str| answer.json()[field].as_str().expect("a text").to_string();
    let (template, build) = (word(&made, "templateID"), word(&made, "buildID"));
    let hash = "0".repeat(64);
    let (no_template, no_build) = ("tp-0000000000000000", "00000000-0000-4000-8000-000000000000");
    for name in [template.as_str(), "zebrafish"] {
        for (method, target, body) in [
            ("DELETE", "/templates/T".to_string(), None),
            ("GET", "/templates/aliases/T".into(), None),
            ("GET", "/templates/T/tags".into(), None),
            ("POST", "/templates/tags".into(), Some("{\"target\": \"T:new\", \"tags\": [\"own\"]}")),
            ("DELETE", "/templates/tags".into(), Some("{\"name\": \"T\", \"tags\": [\"default\"]}")),
            ("GET", format!("/templates/T/files/{hash}"), None),
            ("POST", "/v2/templates/T/builds/B".into(), Some("{\"fromImage\": \"x\"}")),
            ("GET", "/templates/T/builds/B/status".into(), None),
            ("POST", "/v2/sandboxes".into(), Some("{\"templateID\": \"T\"}")),
        ] {
            let answered = async |template: &str, build: &str| {
                let with = |text: &str| {
                    text.replace("\"T", &format!("\"{template}"))
                        .replace("/T", &format!("/{template}"))
                        .replace("/B", &format!("/{build}"))
                };
                let answer = ask(&theirs, method, &with(&target), body.map(with).as_deref()).await;
                (answer.status, answer.text().replace(template, "NAME").replace(build, "BUILD"))
            };
            let (foreign, none) = (answered(name, &build).await, answered(no_template, no_build).await);
            assert_eq!((foreign.0, &foreign), (404, &none), "{method} {target} of {name}");
        }
    }
    // A build of theirs is none of the template's, whoever asks for it.
    let own = ask(&theirs, "POST", "/v3/templates", Some("{\"name\": \"own\"}")).await;
    let status = |template: &str, build: &str| format!("/templates/{template}/builds/{build}/status");
    let (own_template, own_build) = (word(&own, "templateID"), word(&own, "buildID"));
    assert_eq!(ask(&theirs, "GET", &status(&own_template, &own_build), None).await.status, 200);
    assert_eq!(ask(&theirs, "GET", &status(&own_template, &build), None).await.status, 404);
    assert_eq!(ask(&mine, "GET", &status(&template, &build), None).await.status, 200, "nothing was changed");

    let mut volumes = Vec::new();
    // The id of a volume is its name.
    for (key, body) in [(&mine, "{\"name\": \"mine\"}"), (&theirs, "{\"name\": \"theirs\"}")] {
        let made = ask(key, "POST", "/volumes", Some(body)).await;
        assert_eq!(made.status, 201, "{}", made.text());
        volumes.push((word(&made, "volumeID"), word(&made, "token")));
    }
    let (of_mine, of_theirs) = (&volumes[0], &volumes[1]);
    let content = async |token: &str, method: &str, id: &str, rest: &str, body: Option<&str>| {
        let header = format!("Authorization: Bearer {token}\r\n");
        let answer = server.ask_tcp(method, &format!("/volumecontent/{id}/{rest}"), &header, body).await;
        (answer.status, answer.text().replace(id, "ID"))
    };
    assert_eq!(content(&of_theirs.1, "POST", &of_theirs.0, "dir?path=/own", None).await.0, 201);
    for (method, rest, body) in [
        ("GET", "path?path=/", None),
        ("PATCH", "path?path=/", Some("{\"mode\": 493}")),
        ("DELETE", "path?path=/x", None),
        ("GET", "dir?path=/", None),
        ("POST", "dir?path=/x", None),
        ("GET", "file?path=/x", None),
        ("PUT", "file?path=/x", Some("x")),
    ] {
        for token in [&of_theirs.1, &theirs] {
            let (foreign, none) = (
                content(token, method, &of_mine.0, rest, body).await,
                content(token, method, "vol-0000000000000000", rest, body).await,
            );
            assert_eq!((foreign.0, &foreign), (401, &none), "{method} {rest}");
        }
    }
    // An address for uploads is of one tenant and one archive; what was altered in it opens nothing.
    let given = ask(&mine, "GET", &format!("/templates/{template}/files/{hash}"), None).await;
    let url = word(&given, "url");
    let grant = url.rsplit('/').next().expect("a grant");
    let altered = format!("{}{}", if grant.starts_with('A') { "B" } else { "A" }, &grant[1..]);
    for grant in [altered.as_str(), &theirs, "x"] {
        let answer = server.ask_tcp("PUT", &format!("/e2b/uploads/{grant}"), "", Some("x")).await;
        assert_eq!(answer.status, 403, "{}", answer.text());
    }
    for (key, template) in [(&mine, &template), (&theirs, &own_template)] {
        assert_eq!(ask(key, "DELETE", &format!("/templates/{template}"), None).await.status, 204);
    }
}
