//! Ready sandboxes that no caller has asked for go before any that a caller has.

use super::Pool;
use super::member::Member;
use crate::Fleet;
use std::sync::Arc;

impl Fleet {
    fn all_pools(&self) -> Vec<Arc<Pool>> {
        let by_demand = self.0.pools.demand.pools();
        self.0.pools.all().into_iter().chain(by_demand).collect()
    }

    /// Takes down all ready sandboxes, and makes none until [`Fleet::fill_pools_again`]. Returns how many went.
    pub(crate) async fn give_back_ready(&self) -> usize {
        let ready = self.all_pools().into_iter().flat_map(|pool| pool.hold_back());
        let parts: Vec<_> = ready.filter_map(Member::take).collect();
        let count = parts.len() + self.give_back_parent_vms().await;
        let fleet = self.clone();
        let taken = tokio::task::spawn_blocking(move || {
            parts.iter().for_each(|parts| fleet.take_down_ready(parts));
        });
        if let Err(error) = taken.await {
            tracing::warn!(%error, "sandboxes that were ready may be left");
        }
        count
    }

    pub(crate) fn fill_pools_again(&self) {
        self.all_pools().iter().for_each(|pool| pool.fill_again());
    }
}
