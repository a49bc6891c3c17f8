//! The use of each tenant, and its waiters: plain data, moved on by [`Queue::pump`].

use super::admission::{Need, Permit};
use super::rate::Bucket;
use paddock_model::api::{Quota, TenantUsage};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Amount {
    pub sandboxes: u64,
    /// Thousandths of a processor, because sums of fractions drift.
    pub millicpus: u64,
    pub memory: u64,
}

impl Amount {
    pub fn of(need: Need) -> Amount {
        Amount { sandboxes: 1, millicpus: millicpus(need.cpus), memory: need.memory_bytes }
    }

    fn plus(self, other: Amount) -> Amount {
        Amount {
            sandboxes: self.sandboxes + other.sandboxes,
            millicpus: self.millicpus.saturating_add(other.millicpus),
            memory: self.memory.saturating_add(other.memory),
        }
    }

    fn minus(self, other: Amount) -> Amount {
        Amount {
            sandboxes: self.sandboxes.saturating_sub(other.sandboxes),
            millicpus: self.millicpus.saturating_sub(other.millicpus),
            memory: self.memory.saturating_sub(other.memory),
        }
    }

    /// The first part of the quota that the amount exceeds.
    pub fn exceeds(self, quota: &Quota) -> Option<&'static str> {
        if quota.live_sandboxes.is_some_and(|most| self.sandboxes > u64::from(most)) {
            return Some("live_sandboxes");
        }
        if quota.cpus.is_some_and(|most| self.millicpus > millicpus(most)) {
            return Some("cpus");
        }
        quota.memory_bytes.is_some_and(|most| self.memory > most).then_some("memory_bytes")
    }
}

fn millicpus(cpus: f64) -> u64 {
    (cpus * 1000.0).round() as u64
}

pub struct Waiter {
    pub ticket: u64,
    pub need: Need,
    pub granted: oneshot::Sender<Permit>,
}

#[derive(Default)]
pub struct Share {
    pub used: Amount,
    pub quota: Quota,
    pub bucket: Option<Bucket>,
    pub waiting: VecDeque<Waiter>,
}

#[derive(Default)]
pub struct Queue {
    shares: BTreeMap<String, Share>,
    used: Amount,
    pub waiting: usize,
    /// The tenant that had the last turn.
    last: Option<String>,
}

impl Queue {
    pub fn share(&mut self, tenant: &str) -> &mut Share {
        self.shares.entry(tenant.to_string()).or_default()
    }

    pub fn take(&mut self, tenant: &str, amount: Amount) {
        self.used = self.used.plus(amount);
        let share = self.share(tenant);
        share.used = share.used.plus(amount);
    }

    pub fn give_back(&mut self, tenant: &str, amount: Amount) {
        self.used = self.used.minus(amount);
        let share = self.share(tenant);
        share.used = share.used.minus(amount);
    }

    pub fn live_by_tenant(&self) -> BTreeMap<String, u32> {
        let live = self.shares.iter().filter(|(_, share)| share.used.sandboxes > 0);
        let count = |share: &Share| u32::try_from(share.used.sandboxes).unwrap_or(u32::MAX);
        live.map(|(tenant, share)| (tenant.clone(), count(share))).collect()
    }

    pub fn leave(&mut self, tenant: &str, ticket: u64) {
        let waiting = &mut self.share(tenant).waiting;
        if let Some(position) = waiting.iter().position(|waiter| waiter.ticket == ticket) {
            waiting.remove(position);
            self.waiting -= 1;
        }
    }

    /// The time until the rate lets this waiter through, by its place in the queue.
    pub fn rate_wait(&mut self, tenant: &str, ticket: u64, now: Instant) -> Duration {
        let share = self.share(tenant);
        let before = share
            .waiting
            .iter()
            .take_while(|waiter| waiter.ticket != ticket)
            .filter(|w| w.need.create)
            .count();
        match (share.quota.creates_per_minute, &mut share.bucket) {
            (Some(rate), Some(bucket)) => bucket.wait(before + 1, rate, now),
            _ => Duration::ZERO,
        }
    }

    /// The part of the tenant's quota, or of the host's, that has no room for the need now.
    pub fn obstacle(
        &mut self,
        tenant: &str,
        need: Need,
        machine: &Quota,
        now: Instant,
    ) -> Option<&'static str> {
        let amount = Amount::of(need);
        let whole = self.used.plus(amount).exceeds(machine);
        let share = self.share(tenant);
        if let Some(rate) = share.quota.creates_per_minute.filter(|_| need.create)
            && share.bucket.get_or_insert_with(Bucket::new).wait(1, rate, now) > Duration::ZERO
        {
            return Some("creates_per_minute");
        }
        share.used.plus(amount).exceeds(&share.quota).or(whole)
    }

    /// The part of the quota that has no room for this much more; only parts that grow are looked at.
    pub fn has_no_room(
        &mut self,
        tenant: &str,
        more: Amount,
        quota: &Quota,
        machine: &Quota,
    ) -> Option<&'static str> {
        let asked = |most: &Quota| Quota {
            live_sandboxes: None,
            cpus: most.cpus.filter(|_| more.millicpus > 0),
            memory_bytes: most.memory_bytes.filter(|_| more.memory > 0),
            creates_per_minute: None,
            volumes: None,
            volume_bytes: None,
        };
        let whole = self.used.plus(more).exceeds(&asked(machine));
        self.share(tenant).used.plus(more).exceeds(&asked(quota)).or(whole)
    }

    pub fn charge(&mut self, tenant: &str, need: Need) {
        self.take(tenant, Amount::of(need));
        let share = self.share(tenant);
        if let (true, Some(bucket)) =
            (need.create && share.quota.creates_per_minute.is_some(), &mut share.bucket)
        {
            bucket.take();
        }
    }

    /// Takes the waiters that have room now and charges them: tenants in turns, and of each tenant only its first.
    pub fn pump(&mut self, machine: &Quota, now: Instant) -> Vec<(String, Waiter)> {
        let mut ready = Vec::new();
        while let Some(tenant) = self.next_ready(machine, now) {
            let Some(waiter) = self.share(&tenant).waiting.pop_front() else { break };
            self.waiting -= 1;
            self.charge(&tenant, waiter.need);
            self.last = Some(tenant.clone());
            ready.push((tenant, waiter));
        }
        ready
    }

    fn next_ready(&mut self, machine: &Quota, now: Instant) -> Option<String> {
        let mut turns: Vec<(String, Need)> = self
            .shares
            .iter()
            .filter_map(|(tenant, share)| Some((tenant.clone(), share.waiting.front()?.need)))
            .collect();
        let first =
            turns.partition_point(|(tenant, _)| self.last.as_ref().is_some_and(|last| tenant <= last));
        turns.rotate_left(first);
        for (tenant, need) in turns {
            match self.obstacle(&tenant, need, machine, now) {
                None => return Some(tenant),
                // The tenant's own quota is full, which does not stop the other tenants.
                Some(_) if self.own_obstacle(&tenant, need, now) => {}
                // Only the host is full: the waiter whose turn it is must not be overtaken for ever by smaller ones.
                Some(_) => return None,
            }
        }
        None
    }

    fn own_obstacle(&mut self, tenant: &str, need: Need, now: Instant) -> bool {
        self.obstacle(tenant, need, &Quota::default(), now).is_some()
    }

    pub fn usage(&self, tenant: &str) -> TenantUsage {
        let Some(share) = self.shares.get(tenant) else { return TenantUsage::default() };
        TenantUsage {
            live_sandboxes: u32::try_from(share.used.sandboxes).unwrap_or(u32::MAX),
            cpus: share.used.millicpus as f64 / 1000.0,
            memory_bytes: share.used.memory,
            waiting: u32::try_from(share.waiting.len()).unwrap_or(u32::MAX),
        }
    }
}
