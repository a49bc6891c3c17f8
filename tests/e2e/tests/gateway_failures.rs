//! Nodes that go, lie, stay silent or have each other's number: typed errors, and the others are unharmed.

use anyhow::{Context, Result, ensure};
use paddock_e2e::{Answer, Caller, Cluster, Members, PATIENCE, Server, as_root, gateway_key, until};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

#[test]
fn a_node_that_dies_takes_nobody_with_it() -> Result<()> {
    as_root("a_node_that_dies_takes_nobody_with_it", a_node_dies)
}

#[test]
fn a_cordoned_node_gets_nothing_new() -> Result<()> {
    as_root("a_cordoned_node_gets_nothing_new", cordoned)
}

#[test]
fn nodes_that_cannot_be_used_are_named_and_left_out() -> Result<()> {
    as_root("nodes_that_cannot_be_used_are_named_and_left_out", unusable)
}

#[test]
fn two_nodes_with_one_number_get_nothing_new() -> Result<()> {
    as_root("two_nodes_with_one_number_get_nothing_new", one_number_twice)
}

#[test]
fn a_second_gateway_answers_for_the_same_sandboxes() -> Result<()> {
    as_root("a_second_gateway_answers_for_the_same_sandboxes", second_gateway)
}

#[test]
fn the_list_of_nodes_is_read_again() -> Result<()> {
    as_root("the_list_of_nodes_is_read_again", read_again)
}

fn create(gateway: &Server, headers: &str) -> Result<Answer> {
    let headers = format!("Content-Type: application/json\r\n{headers}");
    gateway.send("POST", "/v1/sandboxes", &headers, b"{}")
}

fn node_of(made: &Value) -> Result<u64> {
    made["node"].as_u64().with_context(|| made.to_string())
}

fn a_node_dies(_: &Caller) -> Result<()> {
    let members = Members::new(3)?;
    let mut cluster = Cluster::start(&members)?;
    let ids: Vec<String> = (1..=3).map(|number| cluster.create_on(number)).collect::<Result<_>>()?;
    cluster.nodes[1].kill()?;
    let of = |number: usize| format!("/v1/sandboxes/{}", ids[number - 1]);
    cluster.gateway.api("GET", &of(2), None)?.refused(503, "node_unreachable")?;
    cluster.gateway.api("GET", &of(1), None)?.expect(200)?;
    // Before the gateway has noticed and after, creates go elsewhere.
    for _ in 0..6 {
        ensure!(node_of(&create(&cluster.gateway, "")?.expect(201)?)? != 2, "it is dead");
    }
    cluster.becomes(2, "away")?;
    create(&cluster.gateway, "Paddock-Node: 2\r\n")?.refused(503, "no_node")?;
    let listed = cluster.gateway.api("GET", "/v1/sandboxes", None)?;
    ensure!(listed.head.to_ascii_lowercase().contains("paddock-nodes-missing: 2"), "{}", listed.head);
    assert_eq!(listed.expect(200)?["sandboxes"].as_array().map(Vec::len), Some(8));
    let shown = cluster.gateway.run(["ps", "--quiet"])?;
    ensure!(
        shown.err().contains("not all nodes answered") && shown.err().contains(": 2 ("),
        "{}",
        shown.err()
    );
    assert_eq!(shown.out().lines().count(), 8);
    // Without that node, the owner of the name cannot be known.
    cluster.gateway.api("GET", "/v1/sandboxes/a-name", None)?.refused(503, "node_unreachable")?;
    cluster.nodes[1].start_again()?;
    cluster.becomes(2, "ready")?;
    cluster.gateway.api("GET", &of(2), None)?.expect(200)?;
    let listed = cluster.gateway.api("GET", "/v1/sandboxes", None)?;
    ensure!(!listed.head.to_ascii_lowercase().contains("paddock-nodes-missing"), "{}", listed.head);
    cluster.nodes[1].kill()?;
    cluster.becomes(2, "away")?;
    let killed = cluster.gateway.run(["kill", "--all"])?;
    ensure!(killed.code == 1 && killed.err().contains("not all nodes answered"), "{}", killed.err());
    cluster.nodes[1].start_again()?;
    cluster.becomes(2, "ready")?;
    cluster.gateway.run(["kill", "--all"])?.success()?;
    drop(cluster);
    members.left_nothing()
}

fn cordoned(_: &Caller) -> Result<()> {
    let members = Members::new(2)?;
    let mut cluster = Cluster::start(&members)?;
    let id = cluster.create_on(1)?;
    assert_eq!(cluster.gateway.run(["node", "cordon", "1"])?.success()?, "1\n");
    for _ in 0..6 {
        assert_eq!(node_of(&create(&cluster.gateway, "")?.expect(201)?)?, 2);
    }
    create(&cluster.gateway, "Paddock-Node: 1\r\n")?.refused(503, "no_node")?;
    assert_eq!(cluster.gateway.script(&id, "echo on")?.out(), "on\n");
    // Asked itself, it refuses too, and it remembers.
    create(&cluster.nodes[0], "")?.refused(503, "node_cordoned")?;
    cluster.nodes[0].stop()?;
    cluster.nodes[0].start_again()?;
    cluster.becomes(1, "cordoned")?;
    cluster.gateway.run(["node", "uncordon", "1"])?.success()?;
    cluster.create_on(1)?;
    cluster.gateway.api("POST", "/v1/nodes/9/cordon", None)?.refused(404, "node_not_found")?;
    cluster.gateway.api("POST", "/v1/nodes/x/cordon", None)?.refused(400, "invalid_request")?;
    drop(cluster);
    members.left_nothing()
}

/// A listener that answers every request so, or with nothing at all.
fn stub(answer: Option<&'static str>) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        let mut held: Vec<TcpStream> = Vec::new();
        for stream in listener.incoming().flatten() {
            let Some(answer) = answer else {
                held.push(stream);
                continue;
            };
            thread::spawn(move || {
                let mut stream = stream;
                let _ = stream.read(&mut [0; 8192]);
                let _ = stream.write_all(answer.as_bytes());
            });
        }
    });
    Ok(format!("http://{address}"))
}

fn unusable(_: &Caller) -> Result<()> {
    let members = Members::new(2)?;
    let (first, second) = (Caller::root()?, Caller::root()?);
    let wrong = gateway_key(&first, "wrong.key")?.display().to_string();
    let lies = "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{\"node\": \"x\"}";
    let stubs = [stub(None)?, stub(Some(lies))?, stub(Some("garbage\r\n\r\n"))?];
    let named: Vec<String> = stubs.iter().map(|url| format!("{url}={wrong}")).collect();
    let more: Vec<&str> = named.iter().flat_map(|node| ["--node", node.as_str()]).collect();
    let cluster = Cluster::start_with(&members, &[], &[]);
    let cluster = cluster?;
    // The second node's own socket, and a key that is not its own.
    let mistaken = format!("unix:{}={wrong}", cluster.nodes[1].socket().display());
    let right = cluster.named[0].clone();
    let options = [&["--node", right.as_str(), "--node", mistaken.as_str()][..], &more].concat();
    let gateway = Server::start_gateway(&second, &options)?;
    let nodes = until(PATIENCE, "a word about each node", || {
        let listed = gateway.api("GET", "/v1/nodes", None).ok()?.expect(200).ok()?;
        let nodes = listed["nodes"].as_array()?.clone();
        let told = |node: &Value| {
            node["state"] == "ready"
                || node["problem"].as_str().is_some_and(|text| !text.contains("not answered yet"))
        };
        (nodes.iter().filter(|node| node["state"] == "ready").count() == 1 && nodes.iter().all(told))
            .then_some(nodes)
    })?;
    let problems: Vec<&str> = nodes.iter().filter_map(|node| node["problem"].as_str()).collect();
    ensure!(problems.iter().any(|text| text.contains("refuses the key")), "{problems:?}");
    ensure!(problems.iter().any(|text| text.contains("makes no sense")), "{problems:?}");
    for _ in 0..6 {
        assert_eq!(node_of(&create(&gateway, "")?.expect(201)?)?, 1);
    }
    let listed = gateway.api("GET", "/v1/sandboxes", None)?;
    let missing =
        listed.head.lines().find(|line| line.to_ascii_lowercase().starts_with("paddock-nodes-missing"));
    assert_eq!(missing.map(|line| line.split(',').count()), Some(4), "{}", listed.head);
    assert_eq!(listed.expect(200)?["sandboxes"].as_array().map(Vec::len), Some(6));
    drop(gateway);
    drop(cluster);
    for caller in [&first, &second] {
        paddock_e2e::leftovers::none_of(caller)?;
    }
    members.left_nothing()
}

fn one_number_twice(_: &Caller) -> Result<()> {
    let members = Members::new(2)?;
    let cluster = Cluster::start(&members)?;
    let id = cluster.create_on(1)?;
    let (other, home) = (Caller::root()?, Caller::root()?);
    let key = gateway_key(&other, "gateway.key")?.display().to_string();
    let twin = Server::start_with(&other, &["--node", "1", "--gateway-key", &key])?;
    let named = format!("unix:{}={key}", twin.socket().display());
    let nodes: Vec<&str> =
        cluster.named.iter().chain([&named]).flat_map(|node| ["--node", node.as_str()]).collect();
    let gateway = Server::start_gateway(&home, &nodes)?;
    until(PATIENCE, "two nodes with one number", || {
        let listed = gateway.api("GET", "/v1/nodes", None).ok()?.expect(200).ok()?;
        let twice = listed["nodes"].as_array()?.iter().filter(|node| node["state"] == "number_twice").count();
        (twice == 2).then_some(())
    })?;
    for _ in 0..6 {
        assert_eq!(node_of(&create(&gateway, "")?.expect(201)?)?, 2);
    }
    create(&gateway, "Paddock-Node: 1\r\n")?.refused(503, "no_node")?;
    gateway.api("POST", "/v1/nodes/1/cordon", None)?.refused(409, "node_number_twice")?;
    // The sandbox that is there already is found, and /readyz names the mistake.
    gateway.api("GET", &format!("/v1/sandboxes/{id}"), None)?.expect(200)?;
    assert_eq!(gateway.api("GET", "/readyz", None)?.expect(200)?["node_numbers_twice"], json!([1]));
    drop((gateway, twin, cluster));
    for caller in [&other, &home] {
        paddock_e2e::leftovers::none_of(caller)?;
    }
    members.left_nothing()
}

fn second_gateway(_: &Caller) -> Result<()> {
    let members = Members::new(2)?;
    let mut cluster = Cluster::start(&members)?;
    let home = Caller::root()?;
    let nodes: Vec<&str> = cluster.named.iter().flat_map(|node| ["--node", node.as_str()]).collect();
    let second = Server::start_gateway(&home, &nodes)?;
    until(PATIENCE, "two nodes", || (second.api("GET", "/readyz", None).ok()?.status == 200).then_some(()))?;
    let id = cluster.create_on(2)?;
    assert_eq!(second.script(&id, "echo same")?.out(), "same\n");
    cluster.gateway.kill()?;
    assert_eq!(second.script(&id, "echo still")?.out(), "still\n");
    cluster.gateway.start_again()?;
    until(PATIENCE, "its nodes again", || {
        (cluster.gateway.api("GET", &format!("/v1/sandboxes/{id}"), None).ok()?.status == 200).then_some(())
    })?;
    drop((second, cluster));
    paddock_e2e::leftovers::none_of(&home)?;
    members.left_nothing()
}

fn read_again(_: &Caller) -> Result<()> {
    let members = Members::new(2)?;
    let cluster = Cluster::start(&members)?;
    let home = Caller::root()?;
    let entry = |place: usize| -> Result<String> {
        let (url, key) = cluster.named[place].rsplit_once('=').context("a node")?;
        Ok(format!("[[node]]\nurl = \"{url}\"\nkey_file = \"{key}\"\nlabels = {{ place = \"{place}\" }}\n"))
    };
    let file = home.file("nodes.toml", entry(0)?)?;
    let name = file.display().to_string();
    let gateway = Server::start_gateway(&home, &["--nodes", &name])?;
    let count = || -> Option<usize> {
        let listed = gateway.api("GET", "/v1/nodes", None).ok()?.expect(200).ok()?;
        Some(listed["nodes"].as_array()?.iter().filter(|node| node["state"] == "ready").count())
    };
    until(PATIENCE, "one node", || (count()? == 1).then_some(()))?;
    std::fs::write(&file, entry(0)? + &entry(1)?)?;
    let process = rustix::process::Pid::from_raw(gateway.process()? as i32).context("a process")?;
    rustix::process::kill_process(process, rustix::process::Signal::HUP)?;
    until(PATIENCE, "two nodes", || (count()? == 2).then_some(()))?;
    let made = create(&gateway, "Paddock-Node-Label: place=1\r\n")?.expect(201)?;
    assert_eq!(node_of(&made)?, 2);
    // A file that makes no sense changes nothing.
    std::fs::write(&file, "[[node]]\nurl = 1\n")?;
    rustix::process::kill_process(process, rustix::process::Signal::HUP)?;
    until(PATIENCE, "a word about it", || {
        gateway.errors().contains("could not reload the nodes").then_some(())
    })?;
    assert_eq!(count(), Some(2));
    drop((gateway, cluster));
    paddock_e2e::leftovers::none_of(&home)?;
    members.left_nothing()
}
