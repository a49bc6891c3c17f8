//! A gateway before three nodes: a client sees one server.

use anyhow::{Context, Result, ensure};
use paddock_e2e::{Answer, Caller, Cluster, Members, PATIENCE, Terminal, as_root, until};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

#[test]
fn sandboxes_live_on_all_nodes_and_are_used_as_on_one_server() -> Result<()> {
    as_root("sandboxes_live_on_all_nodes_and_are_used_as_on_one_server", used_as_on_one)
}

#[test]
fn lists_of_all_nodes_are_one_list_in_pages() -> Result<()> {
    as_root("lists_of_all_nodes_are_one_list_in_pages", lists_are_one)
}

#[test]
fn names_snapshots_and_keys_find_their_node() -> Result<()> {
    as_root("names_snapshots_and_keys_find_their_node", names_find_their_node)
}

#[test]
fn terminals_ports_and_events_pass_through() -> Result<()> {
    as_root("terminals_ports_and_events_pass_through", streams_pass)
}

#[test]
fn what_a_gateway_does_not_have_is_refused_by_name() -> Result<()> {
    as_root("what_a_gateway_does_not_have_is_refused_by_name", refused_by_name)
}

/// With three nodes.
fn with_cluster(test: impl FnOnce(&Cluster) -> Result<()>) -> Result<()> {
    let members = Members::new(3)?;
    let cluster = Cluster::start(&members)?;
    test(&cluster)?;
    drop(cluster);
    members.left_nothing()
}

fn text(value: &Value, field: &str) -> Result<String> {
    value[field].as_str().map(str::to_string).with_context(|| value.to_string())
}

fn used_as_on_one(_: &Caller) -> Result<()> {
    with_cluster(|cluster| {
        let gateway = &cluster.gateway;
        for number in 1..=3 {
            let id = cluster.create_on(number)?;
            ensure!(id.starts_with(&format!("sb-{number:03x}")), "{id}");
            assert_eq!(gateway.script(&id, "echo hello; exit 7")?.exited(7)?.out(), "hello\n");
            let content = format!("/v1/sandboxes/{id}/files/content?path=/tmp/large");
            let large = vec![b'x'; 3 << 20];
            gateway
                .send("PUT", &content, "Content-Type: application/octet-stream\r\n", &large)?
                .expect(200)?;
            ensure!(gateway.send("GET", &content, "", b"")?.ok()?.body == large, "the file is another");
            let seen =
                cluster.nodes[number - 1].api("GET", &format!("/v1/sandboxes/{id}"), None)?.expect(200)?;
            assert_eq!(seen["node"], number);
            gateway.api("DELETE", &format!("/v1/sandboxes/{id}"), None)?.expect(200)?;
            assert_eq!(
                gateway.api("GET", &format!("/v1/sandboxes/{id}"), None)?.expect(200)?["state"],
                "ended"
            );
        }
        let status = gateway.api("GET", "/v1/server", None)?.expect(200)?;
        assert_eq!(status["ready"], true);
        gateway.api("GET", "/readyz", None)?.expect(200)?;
        let listed = gateway.run(["node", "ls"])?.success()?;
        ensure!(listed.lines().filter(|line| line.contains(" ready ")).count() == 3, "{listed}");
        Ok(())
    })
}

fn pages(cluster: &Cluster, query: &str) -> Result<Vec<String>> {
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page =
            cluster.gateway.api("GET", &format!("/v1/sandboxes?{query}{cursor}"), None)?.expect(200)?;
        for sandbox in page["sandboxes"].as_array().context("no list")? {
            seen.push(text(sandbox, "id")?);
        }
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return Ok(seen),
        }
    }
}

fn lists_are_one(_: &Caller) -> Result<()> {
    with_cluster(|cluster| {
        let mut made = Vec::new();
        for number in [1, 2, 3, 2, 1, 3, 3] {
            made.push(cluster.create_on(number)?);
        }
        let newest_first: Vec<String> = made.iter().rev().cloned().collect();
        for limit in [1, 2, 3, 100] {
            assert_eq!(pages(cluster, &format!("limit={limit}"))?, newest_first, "{limit}");
            assert_eq!(pages(cluster, &format!("limit={limit}&order=asc"))?, made, "{limit}");
        }
        cluster.gateway.api("DELETE", &format!("/v1/sandboxes/{}", made[0]), None)?.expect(200)?;
        assert_eq!(pages(cluster, "limit=2&state=ended")?, [made[0].clone()]);
        let refused = cluster.gateway.api("GET", "/v1/sandboxes?limit=0", None)?;
        refused.refused(400, "invalid_request")?;
        cluster.gateway.api("GET", "/v1/sandboxes?odd=1", None)?.refused(400, "unknown_field").map(drop)
    })
}

fn create(cluster: &Cluster, headers: &str, body: Value) -> Result<Answer> {
    let headers = format!("Content-Type: application/json\r\n{headers}");
    cluster.gateway.send("POST", "/v1/sandboxes", &headers, body.to_string().as_bytes())
}

fn names_find_their_node(_: &Caller) -> Result<()> {
    with_cluster(|cluster| {
        let gateway = &cluster.gateway;
        let made = create(cluster, "Paddock-Node: 2\r\n", json!({ "name": "mine" }))?.expect(201)?;
        let found = gateway.api("GET", "/v1/sandboxes/mine", None)?.expect(200)?;
        assert_eq!((&found["id"], &found["node"]), (&made["id"], &json!(2)));
        for _ in 0..4 {
            create(cluster, "", json!({ "name": "mine" }))?.refused(409, "name_taken")?;
        }
        gateway.api("GET", "/v1/sandboxes/nobodys", None)?.refused(404, "sandbox_not_found")?;
        // Of a node that does not exist.
        gateway.api("GET", "/v1/sandboxes/sb-fff0000000000000", None)?.refused(404, "sandbox_not_found")?;

        let key = "Idempotency-Key: once\r\n";
        let ids: BTreeSet<String> = (0..6)
            .map(|_| text(&create(cluster, key, json!({}))?.expect(201)?, "id"))
            .collect::<Result<_>>()?;
        assert_eq!(ids.len(), 1, "{ids:?}");

        let path = "/v1/sandboxes/mine/snapshots";
        let snapshot = gateway.api("POST", path, Some(&json!({ "name": "kept" })))?.expect(201)?;
        let id = text(&snapshot, "id")?;
        ensure!(id.starts_with("sn-002"), "{id}");
        for name in [id.as_str(), "kept"] {
            gateway.api("GET", &format!("/v1/snapshots/{name}"), None)?.expect(200)?;
            let begun = create(cluster, "", json!({ "snapshot": name }))?.expect(201)?;
            assert_eq!(begun["node"], 2);
        }
        let fork =
            gateway.api("POST", "/v1/sandboxes/mine/fork", Some(&json!({ "count": 2 })))?.expect(201)?;
        ensure!(
            fork["sandboxes"].as_array().is_some_and(|forks| forks.iter().all(|one| one["node"] == 2)),
            "{fork}"
        );
        let listed = gateway.api("GET", "/v1/snapshots", None)?.expect(200)?;
        assert_eq!(listed["snapshots"].as_array().map(Vec::len), Some(1));
        gateway.api("DELETE", &format!("/v1/snapshots/{id}"), None)?.expect(200).map(drop)
    })
}

/// Answers an upgrade, and echoes lines from then on.
const WEB: &str = r#"
import socketserver
class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        heads = iter(self.rfile.readline, b'\r\n')
        told = b''.join(head for head in heads if head.lower().startswith((b'paddock', b'authorization', b'cookie')))
        self.wfile.write(b'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n')
        self.wfile.write(b'heads: ' + repr(told).encode() + b'\n')
        for line in self.rfile: self.wfile.write(b'inside: ' + line)
socketserver.ThreadingTCPServer.allow_reuse_address = True
server = socketserver.ThreadingTCPServer(('127.0.0.1', 8000), Handler)
print('listens', flush=True)
server.serve_forever()
"#;

fn streams_pass(_: &Caller) -> Result<()> {
    with_cluster(|cluster| {
        let gateway = &cluster.gateway;
        let id = cluster.create_on(3)?;
        let mut events = UnixStream::connect(gateway.socket())?;
        events.set_read_timeout(Some(PATIENCE))?;
        write!(events, "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        let mut events = BufReader::new(events);
        let mut told = |wanted: &str| -> Result<()> {
            let mut line = String::new();
            while !line.contains(wanted) {
                line.clear();
                ensure!(events.read_line(&mut line)? > 0, "the events ended before {wanted}");
            }
            Ok(())
        };
        told("200")?;

        let mut terminal = Terminal::open(41, 123)?;
        let exec = gateway.paddock(["exec", "-it", &id, "sh"])?.environment("TERM", "xterm");
        let mut exec = exec;
        terminal.start(exec.command())?;
        terminal.type_keys(b"stty size; echo done-$((1+1))\r")?;
        terminal.wait_for("done-2")?;
        ensure!(terminal.screen().contains("41 123"), "{:?}", terminal.screen());
        terminal.type_keys(b"exit 9\r")?;
        assert_eq!(terminal.exit_code()?, 9);

        let start = json!({ "argv": ["python3", "-c", WEB], "background": true });
        let started = gateway.api("POST", &format!("/v1/sandboxes/{id}/execs"), Some(&start))?.expect(201)?;
        let exec = format!("/v1/sandboxes/{id}/execs/{}", started["exec"]);
        until(PATIENCE, "a program that listens", || {
            let exec = gateway.api("GET", &exec, None).ok()?.json().ok()?;
            (exec["stdout_bytes"] == 8).then_some(())
        })?;
        let mut port = UnixStream::connect(gateway.socket())?;
        port.set_read_timeout(Some(PATIENCE))?;
        write!(
            port,
            "GET /v1/sandboxes/{id}/ports/8000/ HTTP/1.1\r\nHost: localhost\r\nPaddock-Gateway: x\r\nPaddock-Caller: y\r\n\
             Connection: Upgrade\r\nUpgrade: echo\r\n\r\nhello\n"
        )?;
        let mut seen = Vec::new();
        let mut piece = [0; 4096];
        while !String::from_utf8_lossy(&seen).contains("inside: hello") {
            let read = port.read(&mut piece)?;
            ensure!(read > 0, "{}", String::from_utf8_lossy(&seen));
            seen.extend_from_slice(&piece[..read]);
        }
        let seen = String::from_utf8_lossy(&seen).into_owned();
        ensure!(seen.contains("heads: b''"), "nothing between gateway and node goes inside: {seen}");

        let elsewhere = cluster.create_on(1)?;
        told(&elsewhere)?;
        let last = cluster.create_on(2)?;
        told(&last)
    })
}

fn refused_by_name(_: &Caller) -> Result<()> {
    with_cluster(|cluster| {
        for path in
            ["/v1/volumes", "/v1/jobs", "/v1/pools", "/v1/templates", "/v1/secrets", "/v1/node", "/mcp"]
        {
            let answer = cluster.gateway.api("GET", path, None)?;
            answer.refused(501, "not_in_cluster").with_context(|| path.to_string())?;
        }
        let volume = json!({ "volumes": [{ "name": "data", "path": "/data" }] });
        create(cluster, "", volume)?.refused(501, "not_in_cluster")?;
        create(cluster, "Paddock-Node: x\r\n", json!({}))?.refused(400, "invalid_request")?;
        create(cluster, "Paddock-Node: 9\r\n", json!({}))?.refused(503, "no_node")?;
        create(cluster, "Paddock-Node-Label: zone=b\r\n", json!({}))?.refused(503, "no_node")?;
        Ok(())
    })
}
