//! Creates with a client's own idempotency key: placed by load, and made once whatever happens to their node.

use anyhow::{Context, Result, ensure};
use paddock_e2e::{Answer, Caller, Cluster, Members, Server, as_root};
use serde_json::Value;

#[test]
fn a_create_with_a_key_goes_where_there_is_room() -> Result<()> {
    as_root("a_create_with_a_key_goes_where_there_is_room", placed_by_load)
}

#[test]
fn a_node_that_stops_in_a_create_makes_no_second_sandbox() -> Result<()> {
    as_root("a_node_that_stops_in_a_create_makes_no_second_sandbox", stopped_in_a_create)
}

#[test]
fn a_refusal_moves_the_key_to_the_next_node() -> Result<()> {
    as_root("a_refusal_moves_the_key_to_the_next_node", refused_by_one)
}

#[test]
fn a_node_keeps_its_number() -> Result<()> {
    as_root("a_node_keeps_its_number", keeps_its_number)
}

fn create(gateway: &Server, key: &str) -> Result<Answer> {
    let headers = format!("Content-Type: application/json\r\nIdempotency-Key: {key}\r\n");
    gateway.send("POST", "/v1/sandboxes", &headers, b"{}")
}

fn node_of(made: &Value) -> Result<u64> {
    made["node"].as_u64().with_context(|| made.to_string())
}

fn count(gateway: &Server) -> Result<usize> {
    let listed = gateway.api("GET", "/v1/sandboxes", None)?.expect(200)?;
    listed["sandboxes"].as_array().map(Vec::len).context("no list")
}

fn placed_by_load(_: &Caller) -> Result<()> {
    let members = Members::new(2)?;
    let cluster = Cluster::start_by_tcp(&members)?;
    cluster.gateway.run(["node", "cordon", "1"])?.success()?;
    let keys: Vec<String> = (0..8).map(|number| format!("key-{number}")).collect();
    for key in &keys {
        ensure!(node_of(&create(&cluster.gateway, key)?.expect(201)?)? == 2, "node 1 takes nothing new");
    }
    // The same key is the same sandbox, wherever a new one would go now.
    cluster.gateway.run(["node", "uncordon", "1"])?.success()?;
    cluster.gateway.run(["node", "cordon", "2"])?.success()?;
    for key in &keys {
        ensure!(node_of(&create(&cluster.gateway, key)?.expect(201)?)? == 2, "it is there already");
    }
    assert_eq!(count(&cluster.gateway)?, keys.len());
    drop(cluster);
    members.left_nothing()
}

fn stopped_in_a_create(_: &Caller) -> Result<()> {
    let members = Members::new(2)?;
    let mut cluster = Cluster::start_by_tcp(&members)?;
    let id = cluster.create_on(1)?;
    cluster.gateway.run(["node", "cordon", "2"])?.success()?;
    // Its kernel still takes connections. The gateway notices by its reports that nobody reads them.
    cluster.nodes[0].stands_still()?;
    create(&cluster.gateway, "mine")?.refused(503, "node_lost_during_create")?;
    // Other requests to it end as well.
    cluster.gateway.api("GET", &format!("/v1/sandboxes/{id}"), None)?.refused(503, "node_unreachable")?;
    cluster.gateway.run(["node", "uncordon", "2"])?.success()?;
    cluster.becomes(1, "away")?;
    create(&cluster.gateway, "mine")?.refused(503, "node_lost_during_create")?;
    // The home remembers the node when the gateway itself is gone meanwhile.
    cluster.gateway.kill()?;
    cluster.gateway.start_again()?;
    cluster.becomes(2, "ready")?;
    create(&cluster.gateway, "mine")?.refused(503, "node_lost_during_create")?;
    ensure!(node_of(&create(&cluster.gateway, "another")?.expect(201)?)? == 2, "another key goes elsewhere");
    cluster.nodes[0].goes_on()?;
    cluster.becomes(1, "ready")?;
    ensure!(node_of(&create(&cluster.gateway, "mine")?.expect(201)?)? == 1, "its node is back");
    assert_eq!(count(&cluster.gateway)?, 3);
    drop(cluster);
    members.left_nothing()
}

fn refused_by_one(_: &Caller) -> Result<()> {
    let members = Members::new(2)?;
    let cluster = Cluster::start_by_tcp(&members)?;
    let mut moved = 0;
    for round in 0..4 {
        // Asked itself, so that the gateway does not know of it until the next report.
        cluster.nodes[0].api("POST", "/v1/node/cordon", None)?.expect(200)?;
        let key = format!("key-{round}");
        let made = create(&cluster.gateway, &key)?.expect(201)?;
        cluster.nodes[0].api("POST", "/v1/node/uncordon", None)?.expect(200)?;
        cluster.becomes(1, "ready")?;
        let again = create(&cluster.gateway, &key)?.expect(201)?;
        assert_eq!(made["id"], again["id"]);
        moved += usize::from(node_of(&made)? == 2);
    }
    assert_eq!(moved, 4, "a cordoned node makes none");
    assert_eq!(count(&cluster.gateway)?, 4);
    drop(cluster);
    members.left_nothing()
}

fn keeps_its_number(_: &Caller) -> Result<()> {
    let members = Members::new(1)?;
    let mut cluster = Cluster::start(&members)?;
    let id = cluster.create_on(1)?;
    let (_, key) = cluster.named[0].rsplit_once('=').context("a key")?;
    let key = key.to_string();
    cluster.nodes[0].stop()?;
    // It may listen for a moment before it has read its records.
    let _ = cluster.nodes[0].start_again_with(&["--node", "2", "--gateway-key", &key]);
    let refused = cluster.nodes[0].fails_to_start()?;
    let (code, told) = (refused.code, refused.err());
    ensure!(code != 0 && told.contains(&id) && told.contains("node 2"), "{code}: {told}");
    cluster.nodes[0].start_again_with(&["--node", "1", "--gateway-key", &key])?;
    cluster.becomes(1, "ready")?;
    cluster.gateway.api("GET", &format!("/v1/sandboxes/{id}"), None)?.expect(200)?;
    drop(cluster);
    members.left_nothing()
}
