//! Sandboxes that are ready before a request comes, per template.
//!
//! - [`pool`]: one template's: the ready ones, and the wanted number
//! - [`filler`]: the task that fills it, and the interpreter that its sandboxes are forked from
//! - [`member`]: a ready sandbox; [`waiting_interpreter`]: the interpreter in it
//! - [`baked`]: memory that they begin with, if nothing can be forked
//! - [`parent_vms`]: VMs that they are copied from, if the backend can copy VMs
//! - [`first_use`]: the first use of sandboxes, which decides if an interpreter waits in the next ones
//! - [`demand`]: pools that no person set, for sandboxes that were asked for twice
//! - [`give_back`]: ready sandboxes go first while memory is short
//! - [`create`]: from a request to a sandbox that was ready
//! - [`lent`]: a pool for a while
//! - [`shelters`]: ended sandboxes in which others still nest

mod baked;
mod create;
mod demand;
mod filler;
mod first_use;
mod give_back;
mod lent;
mod member;
mod parent_vms;
mod pool;
mod shelters;
mod waiting_interpreter;

pub use demand::ReadyOptions;
pub use lent::LentPool;
pub(super) use member::Member;
pub(super) use pool::name_by_demand;
pub use shelters::Shelters;
pub use waiting_interpreter::WaitingInterpreter;

use super::request::invalid;
use super::{Actor, Fleet, FleetError, Kind};
use paddock_model::api::{self, PoolSize, Role};
use paddock_settings::templates::{self, BUILT_IN, TemplateError};
use pool::Pool;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// More than one host has room for.
const LARGEST: u32 = 2000;
/// A fork without an answer is given up after this time at the latest.
const MAKING: Duration = Duration::from_secs(30);
/// The store's setting with the sizes.
const SETTING: &str = "pools";

#[derive(Default)]
pub struct Pools {
    all: Mutex<BTreeMap<String, Arc<Pool>>>,
    /// Pools that no person set, and the number of users of each. Locked before the others.
    lent: Mutex<BTreeMap<String, usize>>,
    baking: baked::Baking,
    pub(super) parent_vms: parent_vms::ParentVms,
    first_use: first_use::FirstUse,
    demand: demand::Demand,
}

impl Pools {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Pool>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lent(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn all(&self) -> Vec<Arc<Pool>> {
        self.lock().values().cloned().collect()
    }

    fn named(&self, template: &str) -> Option<Arc<Pool>> {
        self.lock().get(template).cloned()
    }
}

impl Fleet {
    pub fn pools(&self, actor: &Actor) -> Result<Vec<api::Pool>, FleetError> {
        check_admin(actor)?;
        let (set, by_demand) = (self.0.pools.all(), self.0.pools.demand.pools());
        Ok(set.iter().chain(&by_demand).map(|pool| self.shown(pool)).collect())
    }

    pub fn pool(&self, actor: &Actor, template: &str) -> Result<api::Pool, FleetError> {
        check_admin(actor)?;
        self.0.pools.named(template).map(|pool| self.shown(&pool)).ok_or_else(|| no_pool(template))
    }

    fn shown(&self, pool: &Pool) -> api::Pool {
        let in_use = self.0.live.count_of_pool(&pool.name());
        let mut shown = pool.to_api(in_use);
        if !pool.by_demand && self.0.pools.is_lent(&pool.template) {
            shown.made_by = api::PoolMaker::Job;
        }
        shown
    }

    /// Returns at once; the filler does the work.
    pub fn set_pool(&self, actor: &Actor, template: &str, size: PoolSize) -> Result<api::Pool, FleetError> {
        check_admin(actor)?;
        if size.min > size.max || size.max == 0 || size.max > LARGEST {
            return Err(invalid(format!(
                "a pool of at least {} and at most {} sandboxes",
                size.min, size.max
            ))
            .hint(format!(
                "`min` is at most `max`, and `max` from 1 to {LARGEST}; DELETE takes the pool away"
            )));
        }
        match templates::load(&self.0.options.state, template) {
            Ok(_) => {}
            Err(error @ TemplateError::Missing(_)) => {
                let hint = format!("`paddock template ls` lists those there are; `{BUILT_IN}` always is");
                return Err(
                    FleetError::new(Kind::NotFound, "template_not_found", error.to_string()).hint(hint)
                );
            }
            Err(error) => return Err(invalid(super::request::chain(&error))),
        }
        self.0.pools.keep(template);
        let pool = self.put_pool(template, size);
        self.store_pools()?;
        Ok(self.shown(&pool))
    }

    pub fn remove_pool(&self, actor: &Actor, template: &str) -> Result<(), FleetError> {
        check_admin(actor)?;
        self.0.pools.keep(template);
        let removed = self.0.pools.lock().remove(template);
        removed.ok_or_else(|| no_pool(template))?.stop();
        self.store_pools()
    }

    fn put_pool(&self, template: &str, size: PoolSize) -> Arc<Pool> {
        let mut all = self.0.pools.lock();
        if let Some(pool) = all.get(template) {
            pool.resize(size);
            return pool.clone();
        }
        let pool = Arc::new(Pool::new(template, size));
        all.insert(template.to_string(), pool.clone());
        drop(all);
        filler::start(self, &pool);
        pool
    }

    fn store_pools(&self) -> Result<(), FleetError> {
        let set = self.0.pools.all().into_iter().filter(|pool| !self.0.pools.is_lent(&pool.template));
        let sizes: BTreeMap<String, PoolSize> =
            set.map(|pool| (pool.template.clone(), pool.size())).collect();
        let body = serde_json::to_vec(&sizes).map_err(|error| FleetError::internal(&error))?;
        Ok(self.0.store.set_setting(SETTING, &body)?)
    }

    /// Restores the pools that were set before this server started.
    pub(super) fn restore_pools(&self) -> Result<(), FleetError> {
        let Some(body) = self.0.store.setting(SETTING)? else { return Ok(()) };
        match serde_json::from_slice::<BTreeMap<String, PoolSize>>(&body) {
            Ok(sizes) => sizes.into_iter().for_each(|(template, size)| drop(self.put_pool(&template, size))),
            Err(error) => tracing::warn!(%error, "the sizes of the pools cannot be read; there are none"),
        }
        Ok(())
    }

    /// Closes the pools: no caller gets a sandbox of them any more.
    pub(super) async fn close_pools(&self) {
        let set = std::mem::take(&mut *self.0.pools.lock());
        let pools: Vec<_> = set.into_values().chain(self.0.pools.demand.close()).collect();
        pools.iter().for_each(|pool| pool.stop());
        for pool in pools {
            // A sandbox that is just being made is taken down by its maker; a half-made one would be left to the next
            // server.
            pool.idle(MAKING).await;
            filler::empty(self, &pool).await;
        }
        self.close_parent_vms(MAKING).await;
        self.leave_shelters().await;
    }
}

fn check_admin(actor: &Actor) -> Result<(), FleetError> {
    if actor.owner || (actor.role == Role::Admin && actor.tenant == Actor::OWNER_TENANT) {
        return Ok(());
    }
    Err(FleetError::new(Kind::Forbidden, "forbidden", "pools are the host's owner's to look at and to set")
        .hint("ask through the server's unix socket, or with an admin token of the owner's tenant"))
}

fn no_pool(template: &str) -> FleetError {
    let shown: String = template.chars().take(80).collect();
    let message = format!("template `{}` has no pool", shown.escape_debug());
    FleetError::new(Kind::NotFound, "pool_not_found", message)
        .hint("`paddock pool ls` lists those there are; `paddock pool set` makes one")
}
