//! Idempotency keys that clients gave for creates: which are under way here, and the node of each, as the gateway's home keeps it.
//!
//! The node is written down before the create is first sent. A row that an earlier request wrote is never moved: that request may have made
//! the sandbox there, and only that node can tell.

use crate::failures;
use crate::node::Node;
use paddock_fleet::{CreatePlaces, FleetError};
use paddock_model::NodeNumber;
use paddock_server::front::Failure;
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Keys of creates that this gateway is sending, each with its tenant.
#[derive(Default)]
pub struct KeysUnderWay(Mutex<HashSet<(String, String)>>);

/// A key is under way for as long as this is kept.
pub struct Turn<'a> {
    keys: &'a KeysUnderWay,
    key: (String, String),
}

impl KeysUnderWay {
    /// `None`: the same create is being sent at this moment.
    pub fn begin(&self, tenant: &str, key: &str) -> Option<Turn<'_>> {
        let key = (tenant.to_string(), key.to_string());
        let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Lazily: a `Turn` that is dropped here would lock the keys again, and forget the one that is under way.
        keys.insert(key.clone()).then(|| Turn { keys: self, key })
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.keys.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}

/// Where the node of a key is kept. The tests have their own.
pub trait Rows: Send + Sync {
    fn choose(&self, tenant: &str, key: &str, node: u16) -> Result<bool, Failure>;
    fn change(&self, tenant: &str, key: &str, from: u16, to: u16) -> Result<bool, Failure>;
    fn forget(&self, tenant: &str, key: &str, node: u16) -> Result<(), Failure>;
}

impl Rows for CreatePlaces<'_> {
    fn choose(&self, tenant: &str, key: &str, node: u16) -> Result<bool, Failure> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        Ok(CreatePlaces::choose(self, tenant, key, node, now_ms).map_err(FleetError::from)?)
    }

    fn change(&self, tenant: &str, key: &str, from: u16, to: u16) -> Result<bool, Failure> {
        Ok(CreatePlaces::change(self, tenant, key, from, to).map_err(FleetError::from)?)
    }

    fn forget(&self, tenant: &str, key: &str, node: u16) -> Result<(), Failure> {
        Ok(CreatePlaces::forget(self, tenant, key, node).map_err(FleetError::from)?)
    }
}

/// The row of one key that this request wrote.
pub struct KeptPlace<'a> {
    rows: &'a dyn Rows,
    tenant: &'a str,
    key: &'a str,
    node: Option<NodeNumber>,
}

impl<'a> KeptPlace<'a> {
    pub fn new(rows: &'a dyn Rows, tenant: &'a str, key: &'a str) -> KeptPlace<'a> {
        KeptPlace { rows, tenant, key, node: None }
    }

    /// To be called before the create is sent to this node. Precondition: no node before has made anything.
    pub fn goes_to(&mut self, node: &Node) -> Result<(), Failure> {
        let Some(number) = node.number() else {
            return Err(failures::not_sent(node, "it has not reported yet"));
        };
        let written = match self.node {
            None => self.rows.choose(self.tenant, self.key, number.get())?,
            Some(before) => self.rows.change(self.tenant, self.key, before.get(), number.get())?,
        };
        if !written {
            return Err(failures::key_under_way());
        }
        self.node = Some(number);
        Ok(())
    }

    /// The next create with this key is a new one. Precondition: nothing was made.
    pub fn made_nothing(&self) {
        let Some(node) = self.node else { return };
        if let Err(failure) = self.rows.forget(self.tenant, self.key, node.get()) {
            tracing::warn!(message = failure.message, "the node of a key that made nothing stays");
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::collections::HashMap;

    /// Rows in memory.
    #[derive(Default)]
    pub struct MemoryRows(pub Mutex<HashMap<String, u16>>);

    impl Rows for MemoryRows {
        fn choose(&self, _: &str, key: &str, node: u16) -> Result<bool, Failure> {
            let mut rows = self.0.lock().expect("rows");
            let is_new = !rows.contains_key(key);
            rows.entry(key.into()).or_insert(node);
            Ok(is_new)
        }

        fn change(&self, _: &str, key: &str, from: u16, to: u16) -> Result<bool, Failure> {
            let mut rows = self.0.lock().expect("rows");
            let fits = rows.get(key) == Some(&from);
            if fits {
                rows.insert(key.into(), to);
            }
            Ok(fits)
        }

        fn forget(&self, _: &str, key: &str, node: u16) -> Result<(), Failure> {
            let mut rows = self.0.lock().expect("rows");
            if rows.get(key) == Some(&node) {
                rows.remove(key);
            }
            Ok(())
        }
    }

    #[test]
    fn a_key_is_under_way_once() {
        let keys = KeysUnderWay::default();
        let first = keys.begin("a", "k").expect("the first");
        assert!(keys.begin("a", "k").is_none());
        assert!(keys.begin("b", "k").is_some() && keys.begin("a", "l").is_some());
        drop(first);
        assert!(keys.begin("a", "k").is_some());
    }
}
