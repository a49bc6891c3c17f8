//! Pools that demand makes. Two creates of one kind within ten minutes predict a third: from then on a few sandboxes of
//! that kind are ready, until no create has asked for one for some minutes.
//!
//! A ready sandbox is made exactly as if it had been asked for, with an interpreter of its own and nothing in common
//! with any other: a caller can tell the third create from the first only by its speed. That is why no zygote is forked
//! here: a sandbox out of a zygote cannot be forked live (decision 55).

use super::filler;
use super::member::{Member, UNMEASURED_BYTES};
use super::parent_vms::shares;
use super::pool::{Blueprint, Pool, Taken};
use crate::Fleet;
use crate::pressure::meminfo_bytes;
use crate::record::Record;
use paddock_backends::InterpreterStart;
use paddock_model::api::{CreateSandbox, PoolSize};
use paddock_model::{Capability, Disk, Spec};
use paddock_settings::WORKSPACE_TARGET;
use paddock_settings::templates::BUILT_IN;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

const CREATES_BEFORE_POOL: usize = 2;
const CREATES_WITHIN: Duration = Duration::from_secs(600);
/// The most kinds that are remembered; the one that was asked for longest ago is forgotten.
const MOST_KINDS: usize = 64;
const MOST_POOLS: usize = 4;
/// The most ready sandboxes over all of these pools.
const MOST_READY: u32 = 8;
const LEAST_READY: u32 = 1;
/// First uses of a kind that are remembered, one bit each.
const FIRST_USES: u32 = 4;
/// With less than this part of the host's memory available, nothing is kept ready.
const HOST_SHARE: u64 = 8;

/// The bounds of sandboxes that are kept ready although no pool was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadyOptions {
    /// The memory of all sandboxes that are kept ready; 0: none are.
    pub memory: u64,
    /// The time that they are kept after the last create that asked for their kind.
    pub keep: Duration,
}

impl ReadyOptions {
    pub const OFF: ReadyOptions = ReadyOptions { memory: 0, keep: Duration::from_secs(300) };
}

/// Everything that tells one kind of sandbox from another, and its tenant.
type Key = Vec<u8>;

pub struct Demand {
    state: Mutex<State>,
    /// A permit for each sandbox that is ready or being made.
    places: Arc<Semaphore>,
}

impl Default for Demand {
    fn default() -> Demand {
        Demand { state: Mutex::default(), places: Arc::new(Semaphore::new(MOST_READY as usize)) }
    }
}

#[derive(Default)]
struct State {
    /// In the order of the last requests; the newest is the last.
    kinds: VecDeque<Kind>,
    closed: bool,
}

struct Kind {
    key: Key,
    asked: VecDeque<Instant>,
    /// One bit for each sandbox that began with Python, the last one in the lowest bit; and the number of known bits.
    python: u8,
    known: u32,
    pool: Option<Arc<Pool>>,
}

enum Asked {
    Pool(Arc<Pool>),
    /// It is time to make one.
    Due,
    NotYet,
}

impl Demand {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn pools(&self) -> Vec<Arc<Pool>> {
        self.lock().kinds.iter().filter_map(|kind| kind.pool.clone()).collect()
    }

    /// Notes that a sandbox of this kind is wanted.
    fn ask(&self, key: &Key, now: Instant) -> Asked {
        let mut state = self.lock();
        let mut kind = state.take(key);
        kind.asked.push_back(now);
        kind.asked.retain(|at| now.duration_since(*at) < CREATES_WITHIN);
        while kind.asked.len() > CREATES_BEFORE_POOL {
            kind.asked.pop_front();
        }
        let found = match &kind.pool {
            Some(pool) => Asked::Pool(pool.clone()),
            None if kind.asked.len() >= CREATES_BEFORE_POOL && !state.closed => Asked::Due,
            None => Asked::NotYet,
        };
        state.put(kind);
        found
    }

    /// Returns true if it is the pool of its kind now; false if there are enough pools, or the server ends.
    fn add(&self, key: &Key, pool: &Arc<Pool>) -> bool {
        let mut state = self.lock();
        let pools = state.kinds.iter().filter(|kind| kind.pool.is_some()).count();
        if state.closed || pools >= MOST_POOLS {
            return false;
        }
        match state.kinds.iter_mut().find(|kind| kind.key == *key) {
            Some(kind) if kind.pool.is_none() => kind.pool = Some(pool.clone()),
            _ => return false,
        }
        true
    }

    fn remove(&self, pool: &Arc<Pool>) {
        let mut state = self.lock();
        for kind in &mut state.kinds {
            if kind.pool.as_ref().is_some_and(|of_kind| Arc::ptr_eq(of_kind, pool)) {
                kind.pool = None;
                // The demand is counted anew.
                kind.asked.clear();
            }
        }
        drop(state);
        pool.stop();
    }

    /// No pool is made any more.
    pub fn close(&self) -> Vec<Arc<Pool>> {
        let mut state = self.lock();
        state.closed = true;
        state.kinds.drain(..).filter_map(|kind| kind.pool).collect()
    }

    fn note_first_use(&self, key: &Key, python: bool) {
        let mut state = self.lock();
        // Kinds that no create here has asked for, such as forks, are not remembered.
        let Some(kind) = state.kinds.iter_mut().find(|kind| kind.key == *key) else { return };
        let before = kind.begins_with_python();
        kind.python = (kind.python << 1 | u8::from(python)) & ((1 << FIRST_USES) - 1);
        kind.known = (kind.known + 1).min(FIRST_USES);
        if let Some(pool) = kind.pool.as_ref().filter(|_| before != kind.begins_with_python()) {
            pool.expect_python(!before);
        }
    }

    fn begins_with_python(&self, key: &Key) -> bool {
        self.lock().kinds.iter().any(|kind| kind.key == *key && kind.begins_with_python())
    }

    /// Room for one more sandbox, which holds it until it is given away or taken down.
    pub fn place(&self) -> Option<OwnedSemaphorePermit> {
        self.places.clone().try_acquire_owned().ok()
    }

    /// The most that this pool may keep ready: its share of the number and of the memory.
    fn ceiling(&self, pool: &Pool, memory: u64) -> u32 {
        let pools = self.pools().len().max(1);
        let (count, bytes) = pool.ready_bytes();
        let each = if count == 0 { UNMEASURED_BYTES } else { (bytes / u64::from(count)).max(1) };
        let room = memory / pools as u64 / each;
        u32::try_from(room).unwrap_or(u32::MAX).min(MOST_READY / pools as u32)
    }
}

impl State {
    fn take(&mut self, key: &Key) -> Kind {
        match self.kinds.iter().position(|kind| kind.key == *key).and_then(|at| self.kinds.remove(at)) {
            Some(kind) => kind,
            None => Kind { key: key.clone(), asked: VecDeque::new(), python: 0, known: 0, pool: None },
        }
    }

    /// Adds the kind that was asked for last.
    fn put(&mut self, kind: Kind) {
        self.kinds.push_back(kind);
        if self.kinds.len() > MOST_KINDS {
            // A kind with a pool is forgotten when its pool goes.
            let oldest = self.kinds.iter().position(|kind| kind.pool.is_none());
            oldest.and_then(|at| self.kinds.remove(at));
        }
    }
}

impl Kind {
    /// True if at least half of the known ones began with Python.
    fn begins_with_python(&self) -> bool {
        self.known > 0 && self.python.count_ones() * 2 >= self.known
    }
}

impl Fleet {
    /// A sandbox that was made ready because others like it were asked for. `None` if there is none; then the request
    /// counts as demand for later ones.
    pub(crate) fn made_by_demand(
        &self,
        record: &Record,
        preload: &[String],
        request: &CreateSandbox,
    ) -> Option<Member> {
        if self.0.options.ready.memory == 0 || !is_predictable(record) {
            return None;
        }
        let key = key_of(record)?;
        match self.0.pools.demand.ask(&key, Instant::now()) {
            Asked::Pool(pool) => match pool.take(record, preload) {
                Some(Taken::Ready(member)) => Some(*member),
                Some(Taken::Blueprint(..)) => None,
                None => {
                    // The template has changed since.
                    self.0.pools.demand.remove(&pool);
                    None
                }
            },
            Asked::Due => {
                self.begin_demanded(&key, record, preload, request);
                None
            }
            Asked::NotYet => None,
        }
    }

    fn begin_demanded(&self, key: &Key, record: &Record, preload: &[String], request: &CreateSandbox) {
        let blueprint = Blueprint {
            backend: record.backend.clone(),
            spec: record.spec.clone(),
            image: record.image.clone(),
            start: start_of_interpreter(record, request),
            preload: preload.to_vec(),
            has_interpreter: self.0.pools.demand.begins_with_python(key),
        };
        let size = PoolSize { min: LEAST_READY, max: MOST_READY };
        let template = record.template.as_deref().unwrap_or(BUILT_IN);
        let pool = Arc::new(Pool::by_demand(template, size, blueprint));
        if self.0.pools.demand.add(key, &pool) {
            filler::start(self, &pool);
        }
    }

    /// Notes the first use of a sandbox.
    pub(super) fn note_first_use(&self, record: &Record, python: bool) {
        if self.0.options.ready.memory > 0
            && let Some(key) = key_of(record)
        {
            self.0.pools.demand.note_first_use(&key, python);
        }
    }

    /// Ends the pool if it is not needed any more, else sets how many it may keep.
    pub(super) fn look_at_demand(&self, pool: &Arc<Pool>) {
        let ready = self.0.options.ready;
        if pool.unused_for() > ready.keep {
            return self.0.pools.demand.remove(pool);
        }
        let ceiling = if self.0.pressure.holds() || host_is_short_of_memory() {
            0
        } else {
            self.0.pools.demand.ceiling(pool, ready.memory)
        };
        pool.set_ceiling(ceiling);
    }
}

/// True if a sandbox that is made before the request is the same as one that is made after it.
fn is_predictable(record: &Record) -> bool {
    record.guarantees.can(Capability::MadeAhead) && !shares(&record.spec)
}

/// The tenant is a part of it: a sandbox that was made for one tenant is given to no other.
fn key_of(record: &Record) -> Option<Key> {
    let spec = Spec { disk: Disk::Memory, ..record.spec.clone() };
    serde_json::to_vec(&(&record.tenant, &record.template, &record.image, &record.backend, spec)).ok()
}

/// Leaves out the variables and directory of this caller alone: the interpreter is told of them when its sandbox is
/// given away.
fn start_of_interpreter(record: &Record, request: &CreateSandbox) -> InterpreterStart {
    let env = record.env.iter().filter(|(name, _)| !request.env.contains_key(*name));
    let cwd = record.cwd.clone().filter(|_| request.cwd.is_none());
    InterpreterStart {
        env: env.map(|(name, value)| (name.clone(), value.clone())).collect(),
        cwd: cwd.unwrap_or_else(|| WORKSPACE_TARGET.into()),
    }
}

fn host_is_short_of_memory() -> bool {
    std::fs::read_to_string("/proc/meminfo").is_ok_and(|text| is_short(&text))
}

fn is_short(meminfo: &str) -> bool {
    match (meminfo_bytes(meminfo, "MemAvailable:"), meminfo_bytes(meminfo, "MemTotal:")) {
        (Some(available), Some(total)) => available < total / HOST_SHARE,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool() -> Arc<Pool> {
        Arc::new(Pool::new("t", PoolSize { min: 1, max: 8 }))
    }

    fn key(number: usize) -> Key {
        number.to_le_bytes().into()
    }

    #[test]
    fn two_creates_within_ten_minutes_predict_a_third() {
        let demand = Demand::default();
        let begin = Instant::now();
        assert!(matches!(demand.ask(&key(1), begin), Asked::NotYet));
        assert!(matches!(demand.ask(&key(2), begin), Asked::NotYet));
        let too_late = begin + CREATES_WITHIN;
        assert!(matches!(demand.ask(&key(1), too_late), Asked::NotYet));
        assert!(matches!(demand.ask(&key(1), too_late), Asked::Due));
        assert!(demand.add(&key(1), &pool()));
        assert!(matches!(demand.ask(&key(1), too_late), Asked::Pool(_)));
        assert!(matches!(demand.ask(&key(2), begin), Asked::Due));
    }

    #[test]
    fn there_are_no_more_kinds_and_pools_than_that() {
        let demand = Demand::default();
        for number in 0..MOST_KINDS * 2 {
            demand.ask(&key(number), Instant::now());
            let added = demand.add(&key(number), &pool());
            assert_eq!(added, number < MOST_POOLS);
        }
        assert_eq!(demand.lock().kinds.len(), MOST_KINDS);
        assert_eq!(demand.pools().len(), MOST_POOLS);
        demand.remove(&demand.pools()[0]);
        assert!(demand.add(&key(MOST_KINDS * 2 - 1), &pool()));
    }

    #[test]
    fn a_closed_server_makes_none() {
        let demand = Demand::default();
        demand.ask(&key(1), Instant::now());
        assert!(demand.add(&key(1), &pool()));
        assert_eq!(demand.close().len(), 1);
        demand.ask(&key(1), Instant::now());
        assert!(matches!(demand.ask(&key(1), Instant::now()), Asked::NotYet));
        assert!(!demand.add(&key(1), &pool()));
    }

    #[test]
    fn half_of_the_last_four_first_uses_decide() {
        let demand = Demand::default();
        demand.note_first_use(&key(1), true);
        assert!(!demand.begins_with_python(&key(1)), "a kind that was never asked for");
        demand.ask(&key(1), Instant::now());
        let used = [true, false, false, true, false, false, false, true, true];
        let python = [true, true, false, true, false, false, false, false, true];
        for (used, python) in used.into_iter().zip(python) {
            demand.note_first_use(&key(1), used);
            assert_eq!(demand.begins_with_python(&key(1)), python);
        }
    }

    #[test]
    fn the_ceiling_is_of_number_and_of_memory() {
        let demand = Demand::default();
        let pool = pool();
        demand.ask(&key(1), Instant::now());
        demand.add(&key(1), &pool);
        assert_eq!(demand.ceiling(&pool, u64::MAX), MOST_READY);
        assert_eq!(demand.ceiling(&pool, 3 * UNMEASURED_BYTES), 3);
        assert_eq!(demand.ceiling(&pool, UNMEASURED_BYTES - 1), 0);
        demand.ask(&key(2), Instant::now());
        demand.add(&key(2), &Arc::new(Pool::new("t", PoolSize { min: 1, max: 8 })));
        assert_eq!(demand.ceiling(&pool, u64::MAX), MOST_READY / 2);
        assert_eq!(demand.ceiling(&pool, 3 * UNMEASURED_BYTES), 1);
        let places: Vec<_> = std::iter::from_fn(|| demand.place()).collect();
        assert_eq!(places.len(), MOST_READY as usize);
        drop(places);
        assert!(demand.place().is_some());
    }

    #[test]
    fn a_host_is_short_with_less_than_an_eighth() {
        assert!(!is_short("MemTotal: 800 kB\nMemAvailable: 100 kB\n"));
        assert!(is_short("MemTotal: 800 kB\nMemAvailable: 99 kB\n"));
        assert!(!is_short("nothing"));
    }
}
