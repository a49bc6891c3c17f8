//! All nodes that the gateway knows.

use crate::node::Node;
use crate::sources::NodeSource;
use paddock_model::NodeNumber;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

#[derive(Default)]
pub struct Nodes {
    listed: RwLock<Vec<Arc<Node>>>,
    /// Those that DNS names.
    resolved: RwLock<Vec<Arc<Node>>>,
}

impl Nodes {
    pub fn new(sources: Vec<NodeSource>) -> Nodes {
        let nodes = Nodes::default();
        nodes.list(sources);
        nodes
    }

    /// The nodes of the command line and of the file. One that was there before stays as it is, with its connections.
    pub fn list(&self, sources: Vec<NodeSource>) {
        replace(&self.listed, sources);
    }

    /// The same for those that DNS names.
    pub fn resolve(&self, sources: Vec<NodeSource>) {
        replace(&self.resolved, sources);
    }

    pub fn all(&self) -> Vec<Arc<Node>> {
        let mut all = self.listed.read().unwrap_or_else(PoisonError::into_inner).clone();
        for node in self.resolved.read().unwrap_or_else(PoisonError::into_inner).iter() {
            if !all.iter().any(|known| known.source.address == node.source.address) {
                all.push(node.clone());
            }
        }
        all
    }

    /// Usually one; two where two servers were given one number.
    pub fn numbered(&self, number: NodeNumber) -> Vec<Arc<Node>> {
        self.all().into_iter().filter(|node| node.number() == Some(number)).collect()
    }

    /// Nodes that were never heard of, whose number nobody knows.
    pub fn unheard(&self) -> Vec<Arc<Node>> {
        self.all().into_iter().filter(|node| node.number().is_none()).collect()
    }

    /// Numbers that more than one node has. A node that has gone counts for as long as it is listed: its sandboxes may be there still.
    pub fn doubled(&self) -> BTreeSet<NodeNumber> {
        doubled(self.all().iter().filter_map(|node| node.number()))
    }
}

fn replace(place: &RwLock<Vec<Arc<Node>>>, sources: Vec<NodeSource>) {
    let mut place = place.write().unwrap_or_else(PoisonError::into_inner);
    let before = std::mem::take(&mut *place);
    *place = sources
        .into_iter()
        .map(|source| {
            let same = before.iter().find(|node| node.source == source);
            same.cloned().unwrap_or_else(|| Arc::new(Node::new(source)))
        })
        .collect();
}

fn doubled(numbers: impl Iterator<Item = NodeNumber>) -> BTreeSet<NodeNumber> {
    let mut counts: BTreeMap<NodeNumber, usize> = BTreeMap::new();
    for number in numbers {
        *counts.entry(number).or_default() += 1;
    }
    counts.into_iter().filter(|(_, count)| *count > 1).map(|(number, _)| number).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use paddock_client::Address;
    use paddock_model::api::{GATEWAY_PROTOCOL, NodeReport};

    pub fn report(number: u16) -> NodeReport {
        serde_json::from_value(serde_json::json!({
            "node": number, "name": "host", "protocol": GATEWAY_PROTOCOL, "version": "0.1.0", "state": "ready",
            "started_at_ms": 1, "at_ms": 2,
            "live": { "creating": 0, "running": 0, "paused": 0, "hibernated": 0 },
            "processors": 4, "memory_bytes": 1000, "memory_available_bytes": 500,
            "backends": ["process"], "pools": [], "templates": [], "labels": {}, "tenants": {}
        }))
        .expect("a report")
    }

    pub fn source(url: &str) -> NodeSource {
        NodeSource {
            address: Address::parse(url).expect("an address"),
            key: HeaderValue::from_static("key"),
            labels: BTreeMap::new(),
        }
    }

    #[test]
    fn a_node_that_stays_listed_keeps_what_is_known_of_it() {
        let nodes = Nodes::new(vec![source("http://a:1"), source("http://b:1")]);
        nodes.all()[0].heard(Ok(report(3)));
        nodes.list(vec![source("http://c:1"), source("http://a:1")]);
        let all = nodes.all();
        assert_eq!(
            all.iter().map(|node| node.number().map(NodeNumber::get)).collect::<Vec<_>>(),
            [None, Some(3)]
        );
        nodes.resolve(vec![source("http://a:1"), source("http://d:1")]);
        assert_eq!(nodes.all().len(), 3);
    }

    #[test]
    fn a_number_of_two_nodes_is_found() {
        let nodes = Nodes::new(vec![source("http://a:1"), source("http://b:1"), source("http://c:1")]);
        for (node, number) in nodes.all().iter().zip([3, 3, 4]) {
            node.heard(Ok(report(number)));
        }
        assert_eq!(nodes.doubled().into_iter().map(NodeNumber::get).collect::<Vec<_>>(), [3]);
        let three = NodeNumber::try_from(3).expect("a number");
        assert_eq!(nodes.numbered(three).len(), 2);
        nodes.all()[0].heard(Err(crate::node::Trouble::Silent("gone".into())));
        assert_eq!(nodes.doubled().len(), 1);
    }
}
