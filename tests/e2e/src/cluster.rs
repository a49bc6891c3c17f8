//! Several servers behind a gateway, on one host: each with a state directory and a socket of its own.

use crate::leftovers;
use crate::wait::{PATIENCE, until};
use crate::{Caller, Server};
use anyhow::{Context, Result};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// The users of the nodes, and at last that of the gateway. They outlive the servers.
pub struct Members(Vec<Caller>);

impl Members {
    pub fn new(nodes: usize) -> Result<Members> {
        (0..=nodes).map(|_| Caller::root()).collect::<Result<_>>().map(Members)
    }

    fn split(&self) -> Result<(&Caller, &[Caller])> {
        self.0.split_last().context("a cluster has a gateway")
    }

    /// After its servers have ended.
    pub fn left_nothing(&self) -> Result<()> {
        self.0.iter().try_for_each(|caller| leftovers::none_of(caller).context("after the test"))
    }
}

pub struct Cluster<'a> {
    /// The numbers are 1, 2, 3 and so on.
    pub nodes: Vec<Server<'a>>,
    pub gateway: Server<'a>,
    /// As a gateway is told of them.
    pub named: Vec<String>,
}

impl<'a> Cluster<'a> {
    pub fn start(members: &'a Members) -> Result<Cluster<'a>> {
        Cluster::start_with(members, &[], &[])
    }

    /// Nodes that are reached by TCP, each with its number in the gateway's list. A node that starts again has another port.
    pub fn start_by_tcp(members: &'a Members) -> Result<Cluster<'a>> {
        Cluster::begun(members, &["--listen", "127.0.0.1:0"], &[], |number, node, key| {
            Ok(format!("{number}={}={key}", node.url()?))
        })
    }

    /// With more options for each node, and for the gateway.
    pub fn start_with(members: &'a Members, of_nodes: &[&str], of_gateway: &[&str]) -> Result<Cluster<'a>> {
        Cluster::begun(members, of_nodes, of_gateway, |_, node, key| {
            Ok(format!("unix:{}={key}", node.socket().display()))
        })
    }

    fn begun(
        members: &'a Members,
        of_nodes: &[&str],
        of_gateway: &[&str],
        name: impl Fn(&str, &Server, &str) -> Result<String>,
    ) -> Result<Cluster<'a>> {
        let (gateway, callers) = members.split()?;
        let (mut nodes, mut named) = (Vec::new(), Vec::new());
        for (place, caller) in callers.iter().enumerate() {
            let (number, key) = ((place + 1).to_string(), key(caller, "gateway.key")?.display().to_string());
            let options = ["--node", &number, "--gateway-key", &key];
            let node = Server::start_with(caller, &[&options[..], of_nodes].concat())?;
            named.push(name(&number, &node, &key)?);
            nodes.push(node);
        }
        let mut options: Vec<&str> = named.iter().flat_map(|node| ["--node", node.as_str()]).collect();
        options.extend(of_gateway);
        let gateway = Server::start_gateway(gateway, &options)?;
        let cluster = Cluster { nodes, gateway, named };
        cluster.all_are("ready")?;
        Ok(cluster)
    }

    /// The states of the nodes by their numbers, as the gateway sees them.
    pub fn states(&self) -> Result<Vec<(Value, String)>> {
        let listed = self.gateway.api("GET", "/v1/nodes", None)?.expect(200)?;
        let nodes = listed["nodes"].as_array().context("no nodes")?;
        Ok(nodes
            .iter()
            .map(|node| (node["node"].clone(), node["state"].as_str().unwrap_or_default().into()))
            .collect())
    }

    pub fn all_are(&self, state: &str) -> Result<()> {
        until(PATIENCE, state, || self.states().ok()?.iter().all(|(_, seen)| seen == state).then_some(()))
    }

    /// Waits until the gateway sees node `number` so.
    pub fn becomes(&self, number: usize, state: &str) -> Result<()> {
        until(PATIENCE, state, || {
            let states = self.states().ok()?;
            states.iter().any(|(node, seen)| *node == number && seen == state).then_some(())
        })
    }

    /// A sandbox on this node, by the owner.
    pub fn create_on(&self, number: usize) -> Result<String> {
        let headers = format!("Content-Type: application/json\r\nPaddock-Node: {number}\r\n");
        let made = self.gateway.send("POST", "/v1/sandboxes", &headers, b"{}")?.expect(201)?;
        anyhow::ensure!(made["node"] == number, "{made}");
        Ok(made["id"].as_str().context("no id")?.to_string())
    }
}

/// A key that only its owner reads.
pub fn key(caller: &Caller, name: &str) -> Result<PathBuf> {
    let path = caller.file(name, format!("{}{name:-<40}", std::process::id()))?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    Ok(path)
}
