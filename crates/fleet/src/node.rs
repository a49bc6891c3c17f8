//! This server as one node of many behind a gateway: its number in every id, whether it takes new sandboxes, and the quotas that the
//! gateway tells.

use super::{Fleet, FleetError, Kind};
use paddock_model::api::Quota;
use paddock_model::{NodeNumber, SandboxId};
use paddock_records::store::{CreatePlaces, Store};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The setting in the store; present and not empty: cordoned.
const CORDONED: &str = "node_cordoned";
/// The most tenants whose told quota is remembered. Then it begins anew: each request tells its tenant's again.
const MOST_TOLD: usize = 65_536;

pub(super) struct Node {
    number: Option<NodeNumber>,
    cordoned: AtomicBool,
    /// One change at a time, so that the store and the memory agree.
    changing: Mutex<()>,
    told: Mutex<HashMap<String, Quota>>,
    could_give: OnceLock<BTreeMap<String, Vec<String>>>,
}

impl Node {
    pub(super) fn open(number: Option<NodeNumber>, store: &Store) -> Result<Node, FleetError> {
        if let Some(number) = number {
            refuse_other_ids(number, store)?;
        }
        let cordoned = store.setting(CORDONED)?.is_some_and(|value| !value.is_empty());
        Ok(Node {
            number,
            cordoned: cordoned.into(),
            changing: Mutex::default(),
            told: Mutex::default(),
            could_give: OnceLock::new(),
        })
    }

    pub(super) fn number(&self) -> Option<NodeNumber> {
        self.number
    }

    /// Returns true if it is another quota than before.
    fn tell(&self, tenant: &str, quota: &Quota) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.get(tenant) == Some(quota) {
            return false;
        }
        if told.len() >= MOST_TOLD && !told.contains_key(tenant) {
            told.clear();
        }
        told.insert(tenant.into(), quota.clone());
        true
    }

    fn told(&self, tenant: &str) -> Option<Quota> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).get(tenant).cloned()
    }
}

/// A gateway looks for an id on the node that the id names. What this server has already would be lost to it under another number.
fn refuse_other_ids(number: NodeNumber, store: &Store) -> Result<(), FleetError> {
    let Some(id) = store.id_of_another_node(&format!("{:03x}", number.get()))? else { return Ok(()) };
    let before = ["sb-", "sn-"].iter().find_map(|prefix| NodeNumber::of_id(prefix, &id));
    let before = before.map(|before| format!("--node {before}, if it had that number, ")).unwrap_or_default();
    let message = format!(
        "this state directory has {id}, which was not made by node {number}: no gateway would find it"
    );
    Err(FleetError::new(Kind::Conflict, "node_number_changed", message).hint(format!(
        "start the server with {before}or without --node, and end its sandboxes and delete its snapshots before it gets another number; \
         or give node {number} a state directory of its own (PADDOCK_STATE_DIR)"
    )))
}

impl Fleet {
    /// The number of this server among those behind one gateway, if it has one.
    pub fn node_number(&self) -> Option<NodeNumber> {
        self.0.node.number
    }

    /// An id of a sandbox, with the number of this node where it has one.
    pub(super) fn new_id(&self) -> Result<SandboxId, FleetError> {
        Ok(SandboxId::from_random(self.random_for_id()?))
    }

    /// Random bits for an id of 16 hexadecimal digits. The first three are the number of this node where it has one.
    pub fn random_for_id(&self) -> Result<u64, FleetError> {
        let random = paddock_engine::random()?;
        Ok(self.0.node.number.map_or(random, |node| node.mark(random)))
    }

    /// True if it takes no new sandbox.
    pub fn is_cordoned(&self) -> bool {
        self.0.node.cordoned.load(Ordering::Acquire)
    }

    /// From now on it takes no new sandbox, or takes them again; also after a restart.
    pub fn cordon(&self, cordoned: bool) -> Result<(), FleetError> {
        let node = &self.0.node;
        let _changing = node.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.store.set_setting(CORDONED, if cordoned { b"1" } else { b"" })?;
        if node.cordoned.swap(cordoned, Ordering::AcqRel) != cordoned {
            tracing::info!(cordoned, "the node was cordoned, or takes new sandboxes again");
        }
        Ok(())
    }

    pub(super) fn unless_cordoned(&self) -> Result<(), FleetError> {
        if !self.is_cordoned() {
            return Ok(());
        }
        let message = match self.0.node.number {
            Some(number) => format!("node {number} is cordoned: it takes no new sandboxes"),
            None => "this server is cordoned: it takes no new sandboxes".into(),
        };
        Err(FleetError::new(Kind::Unavailable, "node_cordoned", message)
            .hint("create it on another node, or have this one uncordoned: POST /v1/node/uncordon"))
    }

    /// The quota of a tenant as a gateway tells it. It counts instead of the stored one, until another is told or the server ends.
    pub fn tell_quota(&self, tenant: &str, quota: &Quota) {
        if self.0.node.tell(tenant, quota) {
            self.0.admission.set_quota(tenant, quota);
        }
    }

    /// The quota that counts.
    pub fn quota_of(&self, tenant: &str) -> Result<Quota, FleetError> {
        match self.0.node.told(tenant) {
            Some(quota) => Ok(quota),
            None => Ok(self.0.store.quota(tenant)?),
        }
    }

    /// Of a gateway: the nodes that it chose for creates with a key.
    pub fn create_places(&self) -> CreatePlaces<'_> {
        self.0.store.create_places()
    }

    /// Sandboxes that hold room, of each tenant that has any.
    pub fn live_by_tenant(&self) -> BTreeMap<String, u32> {
        self.0.admission.live_by_tenant()
    }

    /// The names of the backends whose parts this host has.
    pub fn installed_backends(&self) -> Vec<String> {
        self.0.engine.installed()
    }

    /// For each of them, the guarantees that it could give. Looked at once, when it is asked for first: that blocks for a moment.
    pub fn could_give(&self) -> BTreeMap<String, Vec<String>> {
        self.0.node.could_give.get_or_init(|| self.0.engine.could_give()).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paddock_model::api::SandboxState;
    use paddock_records::store::SandboxRow;

    fn quota(live_sandboxes: u32) -> Quota {
        Quota { live_sandboxes: Some(live_sandboxes), ..Quota::default() }
    }

    #[test]
    fn a_told_quota_counts_until_the_next() {
        let state = tempfile::tempdir().unwrap();
        let store = Store::open(state.path()).unwrap();
        let node = Node::open(None, &store).unwrap();
        assert_eq!(node.told("a"), None);
        assert!(node.tell("a", &quota(1)) && !node.tell("a", &quota(1)) && node.tell("a", &quota(2)));
        assert_eq!((node.told("a"), node.told("b")), (Some(quota(2)), None));
    }

    #[test]
    fn told_quotas_take_bounded_memory() {
        let state = tempfile::tempdir().unwrap();
        let store = Store::open(state.path()).unwrap();
        let node = Node::open(None, &store).unwrap();
        for number in 0..=MOST_TOLD {
            node.tell(&format!("t{number}"), &quota(1));
        }
        assert_eq!(node.told("t0"), None);
        assert_eq!(node.told(&format!("t{MOST_TOLD}")), Some(quota(1)));
    }

    #[test]
    fn a_number_is_refused_where_ids_have_another() {
        let state = tempfile::tempdir().unwrap();
        let store = Store::open(state.path()).unwrap();
        let number = |number| NodeNumber::try_from(number).unwrap();
        let insert = |id: &str, state| {
            let row = SandboxRow {
                id: id.into(),
                tenant: "a".into(),
                name: None,
                state,
                created_ms: 1,
                ended_ms: None,
                body: "{}".into(),
            };
            store.insert_sandbox(&row).unwrap();
        };
        insert("sb-00b0000000000001", SandboxState::Ended);
        insert("sb-00a0000000000001", SandboxState::Running);
        Node::open(Some(number(10)), &store).unwrap();
        Node::open(None, &store).unwrap();
        let refused = Node::open(Some(number(11)), &store).err().unwrap();
        assert_eq!(refused.code, "node_number_changed");
        assert!(
            refused.message.contains("sb-00a0000000000001") && refused.hint.unwrap().contains("--node 10")
        );
        insert("sb-f000000000000001", SandboxState::Hibernated);
        Node::open(Some(number(10)), &store).err().unwrap();
    }

    #[test]
    fn a_cordon_is_kept() {
        let state = tempfile::tempdir().unwrap();
        let number = NodeNumber::try_from(10).unwrap();
        let store = Store::open(state.path()).unwrap();
        let node = Node::open(Some(number), &store).unwrap();
        assert!(!node.cordoned.load(Ordering::Acquire));
        assert_eq!(node.number(), Some(number));
        store.set_setting(CORDONED, b"1").unwrap();
        assert!(Node::open(None, &store).unwrap().cordoned.load(Ordering::Acquire));
        store.set_setting(CORDONED, b"").unwrap();
        assert!(!Node::open(None, &store).unwrap().cordoned.load(Ordering::Acquire));
    }
}
