//! A pool for as long as there is much of the same work: no person set it, and it goes with its last user.

use super::Pools;
use crate::{Fleet, Inner};
use paddock_model::api::PoolSize;
use std::sync::{Arc, Weak};

/// When this is dropped, the pool goes, unless another user has it or its owner has set it.
pub struct LentPool {
    fleet: Weak<Inner>,
    template: String,
}

impl Fleet {
    /// If the template has a pool already, that one is used as it is.
    pub fn lend_pool(&self, template: &str, size: PoolSize) -> LentPool {
        let mut lent = self.0.pools.lent();
        let missing = self.0.pools.named(template).is_none();
        match lent.get_mut(template) {
            Some(users) => *users += 1,
            None if missing => {
                lent.insert(template.to_string(), 1);
                drop(self.put_pool(template, size));
            }
            None => {}
        }
        LentPool { fleet: Arc::downgrade(&self.0), template: template.to_string() }
    }
}

impl Drop for LentPool {
    fn drop(&mut self) {
        let Some(inner) = self.fleet.upgrade() else { return };
        let mut lent = inner.pools.lent();
        let Some(users) = lent.get_mut(&self.template) else { return };
        *users = users.saturating_sub(1);
        if *users == 0 {
            lent.remove(&self.template);
            if let Some(pool) = inner.pools.lock().remove(&self.template) {
                pool.stop();
            }
        }
    }
}

impl Pools {
    /// The owner has set or removed the pool: it is not lent any more.
    pub fn keep(&self, template: &str) {
        self.lent().remove(template);
    }

    pub fn is_lent(&self, template: &str) -> bool {
        self.lent().contains_key(template)
    }
}
