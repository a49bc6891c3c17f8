//! All nodes that the gateway knows.

use crate::node::Node;
use crate::sources::NodeSource;
use paddock_model::NodeNumber;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

pub struct Nodes {
    places: Mutex<Places>,
    table: RwLock<Arc<Table>>,
    /// Counts the changes of numbers, so that the table is made anew.
    changes: Arc<AtomicU64>,
    /// True if DNS names nodes, so that there may be more than are known at a moment.
    follows_name: bool,
}

/// Where nodes are named.
#[derive(Default)]
struct Places {
    listed: Vec<Arc<Node>>,
    /// Those that DNS names.
    resolved: Vec<Arc<Node>>,
}

/// All nodes as requests look for them.
#[derive(Default)]
struct Table {
    made_at: u64,
    all: Vec<Arc<Node>>,
    by_number: HashMap<NodeNumber, Vec<Arc<Node>>>,
    doubled: BTreeSet<NodeNumber>,
}

impl Nodes {
    pub fn new(sources: Vec<NodeSource>, follows_name: bool) -> Nodes {
        let nodes = Nodes {
            places: Mutex::default(),
            table: RwLock::default(),
            changes: Arc::default(),
            follows_name,
        };
        nodes.list(sources);
        nodes
    }

    /// The nodes of the command line and of the file. One that was there before stays as it is, with its connections.
    pub fn list(&self, sources: Vec<NodeSource>) {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.listed = self.kept_or_new(&places.listed, sources);
        self.make_table(&places);
    }

    /// The same for those that DNS names.
    pub fn resolve(&self, sources: Vec<NodeSource>) {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.resolved = self.kept_or_new(&places.resolved, sources);
        self.make_table(&places);
    }

    pub fn all(&self) -> Vec<Arc<Node>> {
        self.table().all.clone()
    }

    /// Usually one; two where two servers were given one number.
    pub fn numbered(&self, number: NodeNumber) -> Vec<Arc<Node>> {
        self.table().by_number.get(&number).cloned().unwrap_or_default()
    }

    /// Why a number that no known node has may still be a node's: nodes that were never heard of, or that DNS does not name at this moment.
    /// Empty: it is nobody's.
    pub fn unknown(&self) -> Vec<String> {
        let table = self.table();
        let unheard = table.all.iter().filter(|node| node.number().is_none()).map(|node| node.title());
        unheard.chain(self.follows_name.then(|| "a node that DNS does not name now".to_string())).collect()
    }

    /// True if not even one node is known yet, so that nothing can be said of any name.
    pub fn is_empty(&self) -> bool {
        self.table().all.is_empty()
    }

    /// Numbers that more than one node has. A node that has gone counts for as long as it is listed: its sandboxes may be there still.
    pub fn doubled(&self) -> BTreeSet<NodeNumber> {
        self.table().doubled.clone()
    }

    fn table(&self) -> Arc<Table> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner).clone();
        if table.made_at == self.changes.load(Ordering::Acquire) {
            return table;
        }
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        self.make_table(&places)
    }

    fn make_table(&self, places: &Places) -> Arc<Table> {
        // Read first: a change while the table is made has it made again.
        let made_at = self.changes.load(Ordering::Acquire);
        let mut all = places.listed.clone();
        for node in &places.resolved {
            if !all.iter().any(|known| known.source.address == node.source.address) {
                all.push(node.clone());
            }
        }
        let mut by_number: HashMap<NodeNumber, Vec<Arc<Node>>> = HashMap::new();
        for node in &all {
            if let Some(number) = node.number() {
                by_number.entry(number).or_default().push(node.clone());
            }
        }
        let doubled = by_number.iter().filter(|(_, nodes)| nodes.len() > 1).map(|(number, _)| *number);
        let table = Arc::new(Table { made_at, doubled: doubled.collect(), all, by_number });
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = table.clone();
        table
    }

    fn kept_or_new(&self, before: &[Arc<Node>], sources: Vec<NodeSource>) -> Vec<Arc<Node>> {
        let node = |source: NodeSource| {
            let same = before.iter().find(|node| node.source == source);
            same.cloned().unwrap_or_else(|| Arc::new(Node::counted(source, self.changes.clone())))
        };
        sources.into_iter().map(node).collect()
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use paddock_client::Address;
    use paddock_model::api::{GATEWAY_PROTOCOL, NodeReport};
    use std::collections::BTreeMap;

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
            number: None,
        }
    }

    #[test]
    fn a_node_that_stays_listed_keeps_what_is_known_of_it() {
        let nodes = Nodes::new(vec![source("http://a:1"), source("http://b:1")], false);
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
        let nodes = Nodes::new(vec![source("http://a:1"), source("http://b:1"), source("http://c:1")], false);
        for (node, number) in nodes.all().iter().zip([3, 3, 4]) {
            node.heard(Ok(report(number)));
        }
        assert_eq!(nodes.doubled().into_iter().map(NodeNumber::get).collect::<Vec<_>>(), [3]);
        let three = NodeNumber::try_from(3).expect("a number");
        assert_eq!(nodes.numbered(three).len(), 2);
        nodes.all()[0].heard(Err(crate::node::Trouble::Silent("gone".into())));
        assert_eq!(nodes.doubled().len(), 1);
    }
    #[test]
    fn a_number_that_changes_is_found_at_once() {
        let nodes = Nodes::new(vec![source("http://a:1"), source("http://b:1")], false);
        let number = |number| NodeNumber::try_from(number).expect("a number");
        nodes.all()[0].heard(Ok(report(3)));
        assert_eq!((nodes.numbered(number(3)).len(), nodes.unknown().len()), (1, 1));
        nodes.all()[1].heard(Ok(report(4)));
        nodes.all()[0].heard(Ok(report(5)));
        let count = |of| nodes.numbered(number(of)).len();
        assert_eq!((count(3), count(4), count(5)), (0, 1, 1));
        assert!(nodes.unknown().is_empty());
    }

    #[test]
    fn a_node_with_a_number_of_the_owners_has_no_other() {
        let three = NodeNumber::try_from(3).ok();
        let nodes = Nodes::new(vec![NodeSource { number: three, ..source("http://a:1") }], false);
        assert!(nodes.unknown().is_empty());
        nodes.all()[0].heard(Ok(report(4)));
        let seen = nodes.all()[0].seen();
        assert_eq!((seen.number, seen.fresh().is_some()), (three, false));
        assert!(seen.problem.expect("a problem").contains("node 4"));
        nodes.all()[0].heard(Ok(report(3)));
        assert!(nodes.all()[0].seen().fresh().is_some());
    }

    #[test]
    fn dns_may_name_more_nodes_later() {
        let nodes = Nodes::new(Vec::new(), true);
        assert!(nodes.is_empty());
        nodes.resolve(vec![source("http://a:1")]);
        nodes.all()[0].heard(Ok(report(3)));
        assert!(!nodes.unknown().is_empty() && !nodes.is_empty());
    }
}
