//! Who may do what through a gateway: its home knows the tokens, and the nodes believe only the gateway.

use anyhow::{Context, Result, ensure};
use paddock_e2e::http::over_tcp;
use paddock_e2e::{Answer, Caller, Cluster, Members, as_root};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

#[test]
fn tenants_of_the_home_are_tenants_on_every_node() -> Result<()> {
    as_root("tenants_of_the_home_are_tenants_on_every_node", tenants)
}

#[test]
fn nobody_else_speaks_for_a_gateway() -> Result<()> {
    as_root("nobody_else_speaks_for_a_gateway", no_smuggling)
}

#[test]
fn rights_without_a_token_pass_and_end_with_their_token() -> Result<()> {
    as_root("rights_without_a_token_pass_and_end_with_their_token", derived_rights)
}

#[test]
fn e2bs_clients_meet_one_server() -> Result<()> {
    as_root("e2bs_clients_meet_one_server", e2b)
}

const KIND: &str = "Content-Type: application/json\r\n";
/// Only a stream that is never ended takes longer.
const ENDS: Duration = Duration::from_secs(20);

struct Token {
    id: String,
    secret: String,
}

impl Token {
    fn bearer(&self) -> String {
        format!("Authorization: Bearer {}\r\n", self.secret)
    }
}

fn token(cluster: &Cluster, tenant: &str, role: &str) -> Result<Token> {
    let wanted = json!({ "tenant": tenant, "role": role });
    let made = cluster.gateway.api("POST", "/v1/tokens", Some(&wanted))?.expect(201)?;
    let text = |field: &str| made[field].as_str().map(str::to_string).with_context(|| made.to_string());
    Ok(Token { id: text("id")?, secret: text("secret")? })
}

/// Two nodes, and a gateway that listens on an address.
fn with_cluster(test: impl FnOnce(&Cluster, &str) -> Result<()>) -> Result<()> {
    let members = Members::new(2)?;
    let cluster = {
        let of_nodes = ["--listen", "127.0.0.1:0", "--build-on-first-use", "none"];
        Cluster::start_with(&members, &of_nodes, &["--listen", "127.0.0.1:0"])?
    };
    let url = cluster.gateway.url()?;
    test(&cluster, &url)?;
    drop(cluster);
    members.left_nothing()
}

fn ask(url: &str, headers: &str, method: &str, target: &str, body: &Value) -> Result<Answer> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    over_tcp(url, method, target, &format!("{headers}{KIND}"), body.as_bytes())
}

fn tenants(_: &Caller) -> Result<()> {
    with_cluster(|cluster, url| {
        let (one, other) = (token(cluster, "one", "user")?, token(cluster, "other", "user")?);
        let reader = token(cluster, "one", "read-only")?;
        let made =
            ask(url, &one.bearer(), "POST", "/v1/sandboxes", &json!({ "name": "box" }))?.expect(201)?;
        assert_eq!(made["tenant"], "one");
        let path = format!("/v1/sandboxes/{}", made["id"].as_str().context("no id")?);
        for path in [path.as_str(), "/v1/sandboxes/box"] {
            ask(url, &one.bearer(), "GET", path, &Value::Null)?.expect(200)?;
            ask(url, &other.bearer(), "GET", path, &Value::Null)?.refused(404, "sandbox_not_found")?;
            ask(url, &reader.bearer(), "GET", path, &Value::Null)?.expect(200)?;
            ask(url, &reader.bearer(), "DELETE", path, &Value::Null)?.refused(403, "forbidden")?;
            ask(url, "", "GET", path, &Value::Null)?.refused(401, "unauthorized")?;
            ask(url, "Authorization: Bearer pdk_x\r\n", "GET", path, &Value::Null)?
                .refused(401, "unauthorized")?;
        }
        ask(url, &other.bearer(), "GET", "/v1/nodes", &Value::Null)?.refused(403, "forbidden")?;
        let quota = json!({ "live_sandboxes": 1 });
        cluster.gateway.api("PUT", "/v1/tenants/other/quota", Some(&quota))?.expect(200)?;
        let on_one = format!("{}Paddock-Node: 1\r\n", other.bearer());
        ask(url, &on_one, "POST", "/v1/sandboxes", &json!({}))?.expect(201)?;
        let full = ask(url, &on_one, "POST", "/v1/sandboxes", &json!({}))?;
        full.refused(429, "quota_exceeded")?;

        let mut follower = TcpStream::connect(url.trim_start_matches("http://"))?;
        follower.set_read_timeout(Some(ENDS))?;
        write!(follower, "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n{}\r\n", one.bearer())?;
        ensure!(follower.read(&mut [0; 1024])? > 0, "an answer");
        cluster.gateway.api("DELETE", &format!("/v1/tokens/{}", one.id), None)?.expect(200)?;
        let mut rest = Vec::new();
        match follower.read_to_end(&mut rest) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => anyhow::bail!("it goes on"),
            _ => {}
        }
        ask(url, &one.bearer(), "GET", &path, &Value::Null)?.refused(401, "unauthorized").map(drop)
    })
}

fn no_smuggling(_: &Caller) -> Result<()> {
    with_cluster(|cluster, url| {
        let one = token(cluster, "one", "user")?;
        // {"tenant":"owner","role":"admin","owner":true,"token":"owner"}
        let caller = "eyJ0ZW5hbnQiOiJvd25lciIsInJvbGUiOiJhZG1pbiIsIm93bmVyIjp0cnVlLCJ0b2tlbiI6Im93bmVyIn0";
        let id = cluster.create_on(1)?;
        let path = format!("/v1/sandboxes/{id}");
        let smuggled =
            format!("Paddock-Caller: {caller}\r\nPaddock-Gateway-Protocol: 1\r\nPaddock-Gateway: wrong\r\n");
        let through = ask(url, &format!("{}{smuggled}", one.bearer()), "GET", &path, &Value::Null)?;
        ensure!([400, 404].contains(&through.status), "{} {}", through.status, through.text());
        let through = ask(url, &smuggled, "GET", &path, &Value::Null)?;
        ensure!([400, 401].contains(&through.status), "{} {}", through.status, through.text());
        let node = cluster.nodes[0].url()?;
        let direct = ask(&node, &smuggled, "GET", &path, &Value::Null)?;
        direct.refused(401, "unauthorized")?;
        let direct = ask(&node, &format!("Paddock-Caller: {caller}\r\n"), "GET", &path, &Value::Null)?;
        ensure!([400, 401].contains(&direct.status), "{} {}", direct.status, direct.text());
        // A token of the home is none of a node's.
        ask(&node, &one.bearer(), "GET", &path, &Value::Null)?.refused(401, "unauthorized").map(drop)
    })
}

fn derived_rights(_: &Caller) -> Result<()> {
    with_cluster(|cluster, url| {
        let one = token(cluster, "one", "user")?;
        let made = ask(url, &one.bearer(), "POST", "/v1/sandboxes", &json!({}))?.expect(201)?;
        let path = format!("/v1/sandboxes/{}", made["id"].as_str().context("no id")?);
        let content = format!("{path}/files/content?path=/tmp/told");
        over_tcp(url, "PUT", &content, &one.bearer(), b"told")?.expect(200)?;
        let wanted = json!({ "path": "/tmp/told", "operation": "read", "expires_seconds": 600 });
        let signed = ask(url, &one.bearer(), "POST", &format!("{path}/files/sign"), &wanted)?.expect(200)?;
        let address = signed["url"].as_str().context("no address")?.to_string();
        assert_eq!(ask(url, "", "GET", &address, &Value::Null)?.ok()?.text(), "told");
        let cut = &address[..address.len() - 4];
        ask(url, "", "GET", cut, &Value::Null)?.refused(403, "forbidden")?;
        // A right to a port counts beside a password that is for the program inside. Nothing listens there.
        let wanted = json!({ "port": 8000, "expires_seconds": 600 });
        let right = ask(url, &one.bearer(), "POST", &format!("{path}/ports/sign"), &wanted)?.expect(200)?;
        let right = right["token"].as_str().context("no right")?;
        let shown = format!("Cookie: paddock_token={right}\r\nAuthorization: Basic eDp5\r\n");
        ask(url, &shown, "GET", &format!("{path}/ports/8000/"), &Value::Null)?.refused(502, "port_closed")?;
        cluster.gateway.api("DELETE", &format!("/v1/tokens/{}", one.id), None)?.expect(200)?;
        ask(url, "", "GET", &address, &Value::Null)?.refused(403, "forbidden").map(drop)
    })
}

fn e2b(_: &Caller) -> Result<()> {
    with_cluster(|cluster, url| {
        let one = token(cluster, "one", "user")?;
        let key = format!("X-API-Key: {}\r\n", one.secret);
        let mut made = Vec::new();
        for number in [1, 2, 1] {
            let place = format!("{key}Paddock-Node: {number}\r\n");
            let wanted = json!({ "templateID": "base", "timeout": 300 });
            let sandbox = ask(url, &place, "POST", "/sandboxes", &wanted)?.expect(201)?;
            let text = |field: &str| {
                sandbox[field].as_str().map(str::to_string).with_context(|| sandbox.to_string())
            };
            made.push((text("sandboxID")?, text("envdAccessToken")?));
        }
        ensure!(made[1].0.starts_with("sb-002"), "{made:?}");
        let (mut seen, mut next) = (Vec::new(), String::new());
        loop {
            let page = ask(url, &key, "GET", &format!("/v2/sandboxes?limit=2{next}"), &Value::Null)?;
            let more =
                page.head.lines().find_map(|line| line.strip_prefix("x-next-token: ").map(str::to_string));
            for one in page.expect(200)?.as_array().context("no list")? {
                seen.push(one["sandboxID"].as_str().context("no id")?.to_string());
            }
            match more {
                Some(more) => next = format!("&nextToken={more}"),
                None => break,
            }
        }
        let expected: Vec<String> = made.iter().rev().map(|(id, _)| id.clone()).collect();
        assert_eq!(seen, expected);
        let (id, access) = &made[1];
        ask(url, &key, "GET", &format!("/sandboxes/{id}"), &Value::Null)?.expect(200)?;
        ask(url, &key, "POST", &format!("/sandboxes/{id}/timeout"), &json!({ "timeout": 600 }))?.ok()?;
        let inside = format!("E2b-Sandbox-Id: {id}\r\nX-Access-Token: {access}\r\n");
        ask(url, &inside, "GET", "/health", &Value::Null)?.ok()?;
        let wrong = format!("E2b-Sandbox-Id: {id}\r\nX-Access-Token: {}\r\n", made[0].1);
        assert_eq!(ask(url, &wrong, "GET", "/health", &Value::Null)?.status, 401);
        let unknown = ask(url, "X-API-Key: pdk_no\r\n", "GET", &format!("/sandboxes/{id}"), &Value::Null)?;
        assert_eq!(unknown.status, 401);
        let refused = ask(url, &key, "GET", "/volumes", &Value::Null)?.json()?;
        assert_eq!(refused["code"], 501, "{refused}");
        cluster.gateway.api("DELETE", &format!("/v1/tokens/{}", one.id), None)?.expect(200)?;
        assert_eq!(ask(url, &inside, "GET", "/health", &Value::Null)?.status, 401);
        Ok(())
    })
}
