//! Room for a sandbox, within its tenant's quota and the host's: at once, after a wait in a fair queue, or not.

use super::queue::{Amount, Queue, Waiter};
use paddock_model::api::{Quota, TenantUsage};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

/// The time until a waiter that no rate holds back looks again; a rate that was lowered meanwhile is noticed then.
const SELDOM: Duration = Duration::from_secs(5);

/// The amounts that one sandbox takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Need {
    pub cpus: f64,
    pub memory_bytes: u64,
    /// True if it counts for creates per minute; waking up does not.
    pub create: bool,
}

#[derive(Debug, Clone)]
pub struct AdmissionOptions {
    /// The quota of all tenants together.
    pub machine: Quota,
    /// The most waiters, of one tenant and of all.
    pub waiting_per_tenant: usize,
    pub waiting: usize,
    /// The longest wait.
    pub patience: Duration,
}

impl Default for AdmissionOptions {
    fn default() -> AdmissionOptions {
        AdmissionOptions {
            machine: Quota::default(),
            waiting_per_tenant: 100,
            waiting: 1000,
            patience: Duration::from_secs(60),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdmissionError {
    /// No wait could help.
    #[error("the sandbox asks for more than the quota `{quota}` of tenant `{tenant}` allows at all")]
    Never { tenant: String, quota: &'static str },
    #[error("the quota `{quota}` of tenant `{tenant}` is used up, and the queue before it is full")]
    Full { tenant: String, quota: &'static str, retry_after_seconds: u32 },
    #[error("the quota `{quota}` of tenant `{tenant}` has no room for so much more")]
    NoRoom { tenant: String, quota: &'static str },
    #[error("the quota `{quota}` of tenant `{tenant}` is used up, and no room came free in time")]
    Late { tenant: String, quota: &'static str, retry_after_seconds: u32 },
}

#[derive(Clone)]
pub struct Admission(Arc<Inner>);

struct Inner {
    options: AdmissionOptions,
    queue: Mutex<Queue>,
    tickets: AtomicU64,
}

impl Admission {
    pub fn new(options: AdmissionOptions) -> Admission {
        Admission(Arc::new(Inner { options, queue: Mutex::default(), tickets: AtomicU64::new(0) }))
    }

    /// Waits while the quota is used up. Dropping the future leaves the queue.
    pub async fn acquire(&self, tenant: &str, need: Need, quota: &Quota) -> Result<Permit, AdmissionError> {
        let now = Instant::now();
        let deadline = now + self.0.options.patience;
        let (ticket, mut granted) = match self.enter(tenant, need, quota, now)? {
            Entered::Granted(permit) => return Ok(permit),
            Entered::Waiting { ticket, granted } => (ticket, granted),
        };
        let _leave = Leave { inner: &self.0, tenant, ticket };
        loop {
            let wait = self.0.lock().rate_wait(tenant, ticket, Instant::now());
            // If no rate holds the waiter back, only a release or a new quota can help, and both pump the queue
            // themselves.
            let wait = if wait.is_zero() { SELDOM } else { wait };
            let retry = deadline.min(Instant::now() + wait);
            tokio::select! {
                biased;
                permit = &mut granted => {
                    // The sender is in the queue until it sends.
                    return permit.map_err(|_| self.late(tenant, need));
                }
                () = sleep_until(retry) => self.0.pump(),
            }
            if let Ok(permit) = granted.try_recv() {
                return Ok(permit);
            }
            if Instant::now() >= deadline {
                return Err(self.late(tenant, need));
            }
        }
    }

    /// Takes room that is free now and that nobody waits for, or none.
    pub fn acquire_now(&self, tenant: &str, need: Need, quota: &Quota) -> Result<Permit, AdmissionError> {
        self.ever(tenant, need, quota)?;
        let mut queue = self.0.lock();
        self.grant(&mut queue, tenant, need, quota, Instant::now()).map_err(|obstacle| {
            AdmissionError::NoRoom { tenant: tenant.to_string(), quota: obstacle.unwrap_or("queue") }
        })
    }

    /// Takes room for a sandbox that exists already, for example after a restart of the server: even beyond the quota.
    pub fn hold(&self, tenant: &str, need: Need) -> Permit {
        let amount = Amount::of(need);
        self.0.lock().take(tenant, amount);
        Permit::new(&self.0, tenant, amount)
    }

    /// Sets a tenant's quota, also for its waiters.
    pub fn set_quota(&self, tenant: &str, quota: &Quota) {
        self.0.lock().share(tenant).quota = quota.clone();
        self.0.pump();
    }

    /// The number of waiting creates of all tenants.
    pub fn waiting(&self) -> u32 {
        self.0.lock().waiting as u32
    }

    pub fn usage(&self, tenant: &str) -> TenantUsage {
        self.0.lock().usage(tenant)
    }

    /// Sandboxes that hold room, of each tenant that has any.
    pub fn live_by_tenant(&self) -> BTreeMap<String, u32> {
        self.0.lock().live_by_tenant()
    }

    /// An error if no wait could help.
    fn ever(&self, tenant: &str, need: Need, quota: &Quota) -> Result<(), AdmissionError> {
        let never = |quota| AdmissionError::Never { tenant: tenant.to_string(), quota };
        if quota.creates_per_minute == Some(0) && need.create {
            return Err(never("creates_per_minute"));
        }
        let amount = Amount::of(need);
        match amount.exceeds(quota).or(amount.exceeds(&self.0.options.machine)) {
            Some(part) => Err(never(part)),
            None => Ok(()),
        }
    }

    /// Room that is free and that nobody waits for. Otherwise the quota that is used up, if it is not the queue.
    fn grant(
        &self,
        queue: &mut Queue,
        tenant: &str,
        need: Need,
        quota: &Quota,
        now: Instant,
    ) -> Result<Permit, Option<&'static str>> {
        queue.share(tenant).quota = quota.clone();
        let obstacle = queue.obstacle(tenant, need, &self.0.options.machine, now);
        let behind = !queue.share(tenant).waiting.is_empty();
        if obstacle.is_some() || behind || queue.waiting > 0 {
            return Err(obstacle);
        }
        queue.charge(tenant, need);
        Ok(Permit::new(&self.0, tenant, Amount::of(need)))
    }

    fn enter(
        &self,
        tenant: &str,
        need: Need,
        quota: &Quota,
        now: Instant,
    ) -> Result<Entered, AdmissionError> {
        let options = &self.0.options;
        self.ever(tenant, need, quota)?;
        let mut queue = self.0.lock();
        let obstacle = match self.grant(&mut queue, tenant, need, quota, now) {
            Ok(permit) => return Ok(Entered::Granted(permit)),
            Err(obstacle) => obstacle,
        };
        if queue.share(tenant).waiting.len() >= options.waiting_per_tenant || queue.waiting >= options.waiting
        {
            let wait = queue.rate_wait(tenant, u64::MAX, now);
            return Err(AdmissionError::Full {
                tenant: tenant.to_string(),
                quota: obstacle.unwrap_or("queue"),
                retry_after_seconds: seconds(wait),
            });
        }
        let ticket = self.0.tickets.fetch_add(1, Ordering::Relaxed);
        let (sender, granted) = oneshot::channel();
        queue.share(tenant).waiting.push_back(Waiter { ticket, need, granted: sender });
        queue.waiting += 1;
        drop(queue);
        // Other waiters may fit into the room that this one cannot use.
        self.0.pump();
        Ok(Entered::Waiting { ticket, granted })
    }

    fn late(&self, tenant: &str, need: Need) -> AdmissionError {
        let now = Instant::now();
        let mut queue = self.0.lock();
        let quota = queue.obstacle(tenant, need, &self.0.options.machine, now).unwrap_or("queue");
        let wait = queue.rate_wait(tenant, u64::MAX, now);
        AdmissionError::Late { tenant: tenant.to_string(), quota, retry_after_seconds: seconds(wait) }
    }
}

/// The seconds to name in an error. The wait for the rate is known; the end of other sandboxes is not, so a guess of 5
/// seconds stands for it.
fn seconds(wait: Duration) -> u32 {
    if wait.is_zero() { 5 } else { u32::try_from(wait.as_millis().div_ceil(1000)).unwrap_or(u32::MAX) }
}

enum Entered {
    Granted(Permit),
    Waiting { ticket: u64, granted: oneshot::Receiver<Permit> },
}

struct Leave<'a> {
    inner: &'a Arc<Inner>,
    tenant: &'a str,
    ticket: u64,
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.inner.lock().leave(self.tenant, self.ticket);
        // The waiters behind may need less.
        self.inner.pump();
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pump(self: &Arc<Self>) {
        let ready = self.lock().pump(&self.options.machine, Instant::now());
        for (tenant, waiter) in ready {
            // If the waiter has gone away meanwhile, the permit is dropped here, which gives the room back.
            let _ = waiter.granted.send(Permit::new(self, &tenant, Amount::of(waiter.need)));
        }
    }
}

/// Room for one sandbox; given back when it is dropped.
pub struct Permit {
    inner: Arc<Inner>,
    tenant: String,
    amount: Amount,
}

impl Permit {
    fn new(inner: &Arc<Inner>, tenant: &str, amount: Amount) -> Permit {
        Permit { inner: inner.clone(), tenant: tenant.to_string(), amount }
    }

    pub fn release(self) {}

    /// Takes more or less room for the same sandbox, at once or not at all; waiting creates do not hold it up.
    pub fn resize(&mut self, need: Need, quota: &Quota) -> Result<(), AdmissionError> {
        let amount = Amount::of(need);
        let mut queue = self.inner.lock();
        queue.give_back(&self.tenant, self.amount);
        let grows = Amount {
            sandboxes: 0,
            millicpus: if amount.millicpus > self.amount.millicpus { amount.millicpus } else { 0 },
            memory: if amount.memory > self.amount.memory { amount.memory } else { 0 },
        };
        let full = queue.has_no_room(&self.tenant, grows, quota, &self.inner.options.machine);
        if full.is_none() {
            self.amount = amount;
        }
        queue.take(&self.tenant, self.amount);
        drop(queue);
        self.inner.pump();
        match full {
            None => Ok(()),
            Some(quota) => Err(AdmissionError::NoRoom { tenant: self.tenant.clone(), quota }),
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.inner.lock().give_back(&self.tenant, self.amount);
        self.inner.pump();
    }
}

impl std::fmt::Debug for Permit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Permit").field("tenant", &self.tenant).field("amount", &self.amount).finish()
    }
}
