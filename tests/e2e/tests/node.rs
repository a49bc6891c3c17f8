//! A server as one node behind a gateway: its number in ids, its report, and the word of its gateway.

use anyhow::{Context, Result, ensure};
use paddock_e2e::http::{Answer, over_tcp};
use paddock_e2e::{Caller, PATIENCE, Server, as_root, for_both_callers, until};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

for_both_callers!(
    ids_begin_with_the_number_of_the_node,
    a_cordoned_node_takes_nothing_new_also_after_a_restart,
    only_the_key_makes_a_gateway,
    callers_that_a_gateway_names_see_their_own,
    a_gateway_says_the_quota,
    a_key_that_others_read_is_refused,
);

#[test]
fn headers_of_a_gateway_stay_outside() -> Result<()> {
    as_root("headers_of_a_gateway_stay_outside", stay_outside)
}

const KEY: &str = "a-key-of-the-gateway-0123456789-abcdef";
const TOKEN: &str = "tk-00000000000000aa";

/// Answers with the head of the request that it got.
const WEB: &str = r#"
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        said = f'{self.path}\n{self.headers}'.encode()
        self.send_response(200); self.send_header('Content-Length', str(len(said))); self.end_headers(); self.wfile.write(said)
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(('127.0.0.1', 8000), Handler)
print('listens', flush=True)
server.serve_forever()
"#;

fn key_file(caller: &Caller, mode: u32) -> Result<PathBuf> {
    let path = caller.file("gateway.key", format!("{KEY}\n"))?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode))?;
    Ok(path)
}

struct Node<'a> {
    server: Server<'a>,
    url: String,
}

impl<'a> Node<'a> {
    fn start(caller: &'a Caller) -> Result<Node<'a>> {
        let key = key_file(caller, 0o600)?.display().to_string();
        let options = ["--listen", "127.0.0.1:0", "--node", "10", "--gateway-key", &key, "--label", "zone=a"];
        let server = Server::start_with(caller, &options)?;
        let url = server.url()?;
        Ok(Node { server, url })
    }

    /// A request with these headers besides.
    fn ask(&self, method: &str, target: &str, headers: &str, body: &Value) -> Result<Answer> {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let kind = if body.is_null() { "" } else { "Content-Type: application/json\r\n" };
        over_tcp(&self.url, method, target, &format!("{headers}{kind}"), text.as_bytes())
    }

    /// The gateway passes a request of this tenant on.
    fn of(&self, tenant: &str, method: &str, target: &str, body: &Value) -> Result<Answer> {
        let caller = json!({ "tenant": tenant, "role": "user", "token": TOKEN });
        self.ask(method, target, &passed_on(&caller), body)
    }
}

/// The three headers of a gateway.
fn passed_on(caller: &Value) -> String {
    format!("{}Paddock-Caller: {}\r\n", by_key(KEY), base64url(caller.to_string().as_bytes()))
}

/// The gateway's own questions.
fn by_itself() -> String {
    passed_on(&json!({ "tenant": "owner", "role": "admin", "owner": true, "token": "owner" }))
}

fn by_key(key: &str) -> String {
    format!("Paddock-Gateway: {key}\r\nPaddock-Gateway-Protocol: 1\r\n")
}

/// Without padding.
fn base64url(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let number = three.iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte))
            << (8 * (3 - three.len()));
        for place in 0..=three.len() {
            text.push(char::from(LETTERS[(number >> (18 - 6 * place)) as usize & 63]));
        }
    }
    text
}

fn id_of(made: &Value) -> Result<String> {
    made["id"].as_str().map(str::to_string).with_context(|| made.to_string())
}

fn ids_begin_with_the_number_of_the_node(caller: &Caller) -> Result<()> {
    let node = Node::start(caller)?;
    let made = node.of("a", "POST", "/v1/sandboxes", &json!({}))?.expect(201)?;
    let id = id_of(&made)?;
    ensure!(id.starts_with("sb-00a") && id.len() == 19 && made["node"] == 10, "{made}");
    let sandbox = format!("/v1/sandboxes/{id}");
    let snapshot = node.of("a", "POST", &format!("{sandbox}/snapshots"), &json!({}))?.expect(201)?;
    ensure!(id_of(&snapshot)?.starts_with("sn-00a"), "{snapshot}");
    let forked = node.of("a", "POST", &format!("{sandbox}/fork"), &json!({ "live": false }))?.expect(201)?;
    let fork = &forked["sandboxes"][0];
    ensure!(id_of(fork)?.starts_with("sb-00a") && fork["node"] == 10, "{forked}");
    let report = node.ask("GET", "/v1/node", &by_itself(), &Value::Null)?.expect(200)?;
    ensure!(report["node"] == 10 && report["protocol"] == 1 && report["state"] == "ready", "{report}");
    ensure!(report["tenants"]["a"] == 2 && report["live"]["running"].as_u64() >= Some(2), "{report}");
    ensure!(
        report["labels"] == json!({ "zone": "a" }) && report["processors"].as_u64() > Some(0),
        "{report}"
    );
    ensure!(report["backends"].as_array().is_some_and(|names| names.contains(&json!("process"))), "{report}");
    let templates = report["templates"].as_array().context("no templates")?;
    ensure!(templates.contains(&json!("code-interpreter")), "{report}");
    Ok(())
}

fn a_cordoned_node_takes_nothing_new_also_after_a_restart(caller: &Caller) -> Result<()> {
    let mut node = Node::start(caller)?;
    let id = id_of(&node.of("a", "POST", "/v1/sandboxes", &json!({}))?.expect(201)?)?;
    let cordon = |node: &Node<'_>, word: &str| {
        node.ask("POST", &format!("/v1/node/{word}"), &by_itself(), &Value::Null)?.expect(200)
    };
    // A tenant's caller may not, though its gateway passed the request on.
    node.of("a", "POST", "/v1/node/cordon", &Value::Null)?.refused(403, "forbidden")?;
    node.of("a", "GET", "/v1/node", &Value::Null)?.refused(403, "forbidden")?;
    node.ask("GET", "/v1/node", "", &Value::Null)?.refused(401, "unauthorized")?;
    // A stranger whose request a gateway passes on has no rights of the gateway's.
    node.ask("POST", "/v1/node/cordon", &by_key(KEY), &Value::Null)?.refused(401, "unauthorized")?;
    // A request for a port inside is for no route of the node's, whatever its path.
    let for_port = format!("{}Paddock-Port: 1\r\n", by_itself());
    node.ask("GET", "/v1/node", &for_port, &Value::Null)?.refused(421, "no_such_domain")?;
    node.ask("GET", "/v1/node", "Paddock-Port: 1\r\n", &Value::Null)?.refused(400, "invalid_request")?;
    ensure!(cordon(&node, "cordon")?["state"] == "cordoned", "not cordoned");
    node.server.kill()?;
    node.server.start_again()?;
    node.url = node.server.url()?;
    let report = node.server.api("GET", "/v1/node", None)?.expect(200)?;
    ensure!(report["state"] == "cordoned", "{report}");
    node.of("a", "POST", "/v1/sandboxes", &json!({}))?.refused(503, "node_cordoned")?;
    let exec = json!({ "command": "echo goes on" });
    let done = node.of("a", "POST", &format!("/v1/sandboxes/{id}/execs"), &exec)?.expect(200)?;
    ensure!(done["stdout"] == "goes on\n", "{done}");
    ensure!(cordon(&node, "uncordon")?["state"] == "ready", "still cordoned");
    node.of("a", "POST", "/v1/sandboxes", &json!({}))?.expect(201)?;
    Ok(())
}

fn only_the_key_makes_a_gateway(caller: &Caller) -> Result<()> {
    let node = Node::start(caller)?;
    let owner = base64url(br#"{"tenant":"owner","role":"admin","owner":true,"token":"owner"}"#);
    let who = format!("Paddock-Caller: {owner}\r\n");
    let right = by_key(KEY);
    let ask = |headers: &str| node.ask("GET", "/v1/whoami", headers, &Value::Null);
    let told = ask(&format!("{right}{who}"))?.expect(200)?;
    ensure!(told["owner"] == true, "{told}");
    for key in ["wrong", &KEY[1..], &format!("{KEY}0")] {
        ask(&format!("{}{who}", by_key(key)))?.refused(401, "unauthorized")?;
    }
    for headers in [
        who.clone(),
        "Paddock-Gateway-Protocol: 1\r\n".into(),
        format!("Paddock-Gateway: {KEY}\r\n{who}"),
        format!("Paddock-Gateway: {KEY}\r\nPaddock-Gateway-Protocol: 3\r\n{who}"),
        format!("{right}{who}{who}"),
        format!("{right}{right}{who}"),
        format!("{right}Paddock-Caller: {}\r\n", "A".repeat(4096)),
        passed_on(&json!({ "tenant": "a", "role": "user", "token": TOKEN, "more": 1 })),
        passed_on(&json!({ "tenant": "../a", "role": "user", "token": TOKEN })),
        passed_on(&json!({ "tenant": "a", "role": "user", "token": "owner" })),
    ] {
        ask(&headers)?.refused(400, "invalid_request")?;
    }
    // The key alone makes nobody of a stranger, also over the owner's socket.
    ask(&right)?.refused(401, "unauthorized")?;
    node.server.send("GET", "/v1/whoami", &right, b"")?.refused(401, "unauthorized")?;
    node.server.send("GET", "/v1/whoami", &who, b"")?.refused(400, "invalid_request")?;
    // Nor does a caller for rights make one.
    let derived = json!({ "tenant": "a", "role": "user", "token": TOKEN, "derived": true });
    ask(&passed_on(&derived))?.refused(401, "unauthorized")?;
    ensure!(
        !node.server.errors().contains(KEY) && !node.server.errors().contains(&owner),
        "it is in the log"
    );
    let mut server = node.server;
    server.stop()?;
    server.start_again_with(&["--listen", "127.0.0.1:0"])?;
    let plain = Node { url: server.url()?, server };
    plain.ask("GET", "/v1/whoami", &format!("{right}{who}"), &Value::Null)?.refused(401, "unauthorized")?;
    Ok(())
}

fn callers_that_a_gateway_names_see_their_own(caller: &Caller) -> Result<()> {
    let node = Node::start(caller)?;
    let mine = id_of(&node.of("a", "POST", "/v1/sandboxes", &json!({ "name": "mine" }))?.expect(201)?)?;
    let theirs = id_of(&node.of("b", "POST", "/v1/sandboxes", &json!({}))?.expect(201)?)?;
    let listed = node.of("a", "GET", "/v1/sandboxes", &Value::Null)?.expect(200)?;
    let listed = listed["sandboxes"].as_array().context("no list")?;
    ensure!(listed.len() == 1 && listed[0]["id"] == mine.as_str(), "{listed:?}");
    let other = format!("/v1/sandboxes/{theirs}");
    node.of("a", "GET", &other, &Value::Null)?.refused(404, "sandbox_not_found")?;
    node.of("a", "DELETE", &other, &Value::Null)?.refused(404, "sandbox_not_found")?;
    let reads = passed_on(&json!({ "tenant": "a", "role": "read-only", "token": TOKEN }));
    node.ask("GET", &format!("/v1/sandboxes/{mine}"), &reads, &Value::Null)?.expect(200)?;
    node.ask("POST", "/v1/sandboxes", &reads, &json!({}))?.refused(403, "forbidden")?;
    // A signed URL of a token that only the gateway knows: by the gateway's word, and for nobody else's token.
    node.of("a", "PUT", &format!("/v1/sandboxes/{mine}/files/content?path=/workspace/x"), &json!(1))?.ok()?;
    let sign = json!({ "path": "/workspace/x", "operation": "read", "expires_seconds": 60 });
    let signed = node.of("a", "POST", &format!("/v1/sandboxes/{mine}/files/sign"), &sign)?.expect(200)?;
    let url = signed["url"].as_str().context("no url")?;
    let by = |token: &str| {
        let holder = json!({ "tenant": "a", "role": "user", "token": token, "derived": true });
        node.ask("GET", url, &passed_on(&holder), &Value::Null)
    };
    ensure!(by(TOKEN)?.ok()?.text() == "1", "another file");
    by("tk-00000000000000ab")?.refused(403, "forbidden")?;
    node.ask("GET", url, &by_key(KEY), &Value::Null)?.refused(403, "forbidden")?;
    node.ask("GET", url, "", &Value::Null)?.refused(403, "forbidden")?;
    Ok(())
}

fn a_gateway_says_the_quota(caller: &Caller) -> Result<()> {
    let node = Node::start(caller)?;
    let create = |quota: Value| {
        let caller = json!({ "tenant": "a", "role": "user", "token": TOKEN, "quota": quota });
        node.ask("POST", "/v1/sandboxes", &passed_on(&caller), &json!({}))
    };
    create(json!({ "live_sandboxes": 0 }))?.refused(403, "quota_exceeded")?;
    let own = json!({ "live_sandboxes": 0 });
    node.server.api("PUT", "/v1/tenants/a/quota", Some(&own))?.expect(200)?;
    create(json!({ "live_sandboxes": 2 }))?.expect(201)?;
    create(json!({}))?.expect(201)?;
    create(json!({ "live_sandboxes": -1 }))?.refused(400, "invalid_request")?;
    Ok(())
}

fn a_key_that_others_read_is_refused(caller: &Caller) -> Result<()> {
    let refused = |options: &[&str], words: &str| -> Result<()> {
        let socket = caller.home().join("node.sock").display().to_string();
        let finished = caller.paddock(["serve", "--socket", &socket])?.arguments(options).finish()?;
        ensure!(finished.exited(1)?.err().contains(words), "{}", finished.err());
        Ok(())
    };
    let key = key_file(caller, 0o644)?.display().to_string();
    refused(&["--node", "1", "--gateway-key", &key], "may be read by others")?;
    let key = key_file(caller, 0o600)?.display().to_string();
    refused(&["--gateway-key", &key], "needs the number of this node")?;
    std::fs::write(&key, "short")?;
    refused(&["--node", "1", "--gateway-key", &key], "is not one line of 32 to 1024")?;
    Ok(())
}

fn stay_outside(caller: &Caller) -> Result<()> {
    let node = Node::start(caller)?;
    let id = id_of(&node.of("a", "POST", "/v1/sandboxes", &json!({}))?.expect(201)?)?;
    let sandbox = format!("/v1/sandboxes/{id}");
    let web = json!({ "argv": ["python3", "-c", WEB], "background": true });
    let started = node.of("a", "POST", &format!("{sandbox}/execs"), &web)?.expect(201)?;
    ensure!(started["exec"].is_u64(), "{started}");
    let caller = json!({ "tenant": "a", "role": "user", "token": TOKEN });
    let page = format!("{sandbox}/ports/8000/page");
    let secret = format!("pdk_{}", "x".repeat(43));
    let with = |more: &str| node.ask("GET", &page, &format!("{}{more}", passed_on(&caller)), &Value::Null);
    until(PATIENCE, "a program that listens", || {
        with("").is_ok_and(|answer| answer.status == 200).then_some(())
    })?;
    // A token of the gateway's, which this server does not know, stays outside as well.
    let said = with(&format!("X-Mine: kept\r\nAuthorization: Bearer {secret}\r\n"))?;
    let said = said.ok()?.text();
    ensure!(said.contains("kept") && !said.to_ascii_lowercase().contains("paddock-"), "{said}");
    ensure!(!said.contains(KEY) && !said.contains(TOKEN) && !said.contains(&secret), "{said}");
    // What the program itself asks for goes inside.
    ensure!(with("Authorization: Basic eDp5\r\n")?.ok()?.text().contains("eDp5"), "its own Authorization");
    // A right to the port, of a token that only the gateway knows.
    let sign = json!({ "port": 8000, "expires_seconds": 60 });
    let signed = node.of("a", "POST", &format!("{sandbox}/ports/sign"), &sign)?.expect(200)?;
    let right = signed["token"].as_str().context("no token")?;
    let derived = json!({ "tenant": "a", "role": "user", "token": TOKEN, "derived": true });
    let bearer = format!("Authorization: Bearer {right}\r\n");
    let said = node.ask("GET", &page, &format!("{}{bearer}", passed_on(&derived)), &Value::Null)?;
    let said = said.ok()?.text();
    ensure!(!said.contains(right) && !said.to_ascii_lowercase().contains("paddock-"), "{said}");
    node.ask("GET", &page, &bearer, &Value::Null)?.refused(403, "forbidden")?;
    node.ask("GET", &page, &format!("{}{bearer}", by_key(KEY)), &Value::Null)?.refused(403, "forbidden")?;
    Ok(())
}
