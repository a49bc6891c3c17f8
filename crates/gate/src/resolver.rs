//! The real addresses of a name. No program inside sees them.

use lru::LruCache;
use paddock_model::net::DomainName;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Where names are looked up.
pub enum Resolver {
    /// These names, and all others with this host's own resolver.
    SystemAnd(HashMap<DomainName, Vec<IpAddr>>, System),
    /// These names and no others.
    Table(HashMap<DomainName, Vec<IpAddr>>),
}

pub struct System {
    /// A lookup holds a thread: names that never answer must not take them all.
    lookups: Semaphore,
    known: Mutex<LruCache<DomainName, (Instant, Vec<IpAddr>)>>,
}

const LOOKUPS_AT_ONCE: usize = 16;
const REMEMBERED: usize = 256;
const REMEMBERED_FOR: Duration = Duration::from_secs(30);
const LONGEST_LOOKUP: Duration = Duration::from_secs(10);
/// The most addresses of a name that are tried.
const MOST_ADDRESSES: usize = 8;

impl Resolver {
    /// `table`: names for which no other resolver is asked.
    pub fn system_and(table: HashMap<DomainName, Vec<IpAddr>>) -> Resolver {
        let known = Mutex::new(LruCache::unbounded());
        Resolver::SystemAnd(table, System { lookups: Semaphore::new(LOOKUPS_AT_ONCE), known })
    }

    /// Empty: the name has none.
    pub async fn addresses(&self, name: &DomainName) -> Vec<IpAddr> {
        match self {
            Resolver::Table(table) => table.get(name).cloned().unwrap_or_default(),
            Resolver::SystemAnd(table, system) => match table.get(name) {
                Some(addresses) => addresses.clone(),
                None => system.addresses(name).await,
            },
        }
    }
}

impl System {
    async fn addresses(&self, name: &DomainName) -> Vec<IpAddr> {
        if let Some(known) = self.remembered(name) {
            return known;
        }
        let Ok(_permit) = self.lookups.acquire().await else { return Vec::new() };
        let lookup = tokio::time::timeout(LONGEST_LOOKUP, tokio::net::lookup_host((name.as_str(), 0)));
        let Ok(Ok(found)) = lookup.await else { return Vec::new() };
        let mut addresses: Vec<IpAddr> = Vec::new();
        for address in found.map(|socket| socket.ip().to_canonical()) {
            if !addresses.contains(&address) && addresses.len() < MOST_ADDRESSES {
                addresses.push(address);
            }
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED {
            known.pop_lru();
        }
        known.put(name.clone(), (Instant::now(), addresses.clone()));
        addresses
    }

    fn remembered(&self, name: &DomainName) -> Option<Vec<IpAddr>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, addresses) = known.get(name)?;
        (since.elapsed() < REMEMBERED_FOR && !addresses.is_empty()).then(|| addresses.clone())
    }
}
