//! The living sandboxes, found without a look at all of them: by id, by name, by age, and by the counts that other
//! parts need.
//!
//! A create, a kill and a list cost the same with 10 sandboxes and with 20,000. So the answers to "does any sandbox
//! nest in this one?", "did any begin with these files?" and "how many run?" are kept as counts.
//! [`super::live::RecordGuard`] renews them whenever a record was changed, so that no caller can forget to.

use super::live::Live;
use super::record::Record;
use paddock_model::SandboxId;
use paddock_model::api::SandboxState;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// Newest first; the id tells those of one millisecond apart.
pub type Place = (Reverse<u64>, String);

#[derive(Default)]
pub struct Roster {
    sandboxes: RwLock<Sandboxes>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Sandboxes {
    by_id: HashMap<String, (u64, Arc<Live>)>,
    by_age: BTreeMap<Place, Arc<Live>>,
    by_tenant: HashMap<String, BTreeMap<Place, Arc<Live>>>,
}

impl Roster {
    pub fn add(&self, live: Arc<Live>) {
        let created = live.record().created_at_ms;
        self.remove(&live.id);
        live.count_in(&self.counts);
        let place = (Reverse(created), live.id.clone());
        let mut sandboxes = self.write();
        sandboxes.by_id.insert(live.id.clone(), (created, live.clone()));
        sandboxes.by_tenant.entry(live.tenant.clone()).or_default().insert(place.clone(), live.clone());
        sandboxes.by_age.insert(place, live);
    }

    pub fn remove(&self, id: &str) {
        let removed = {
            let mut sandboxes = self.write();
            let Some((created, live)) = sandboxes.by_id.remove(id) else { return };
            let place = (Reverse(created), live.id.clone());
            sandboxes.by_age.remove(&place);
            if let Some(of_tenant) = sandboxes.by_tenant.get_mut(&live.tenant) {
                of_tenant.remove(&place);
                if of_tenant.is_empty() {
                    sandboxes.by_tenant.remove(&live.tenant);
                }
            }
            live
        };
        removed.count_out();
    }

    pub fn get(&self, id: &str) -> Option<Arc<Live>> {
        self.read().by_id.get(id).map(|(_, live)| live.clone())
    }

    pub fn named(&self, tenant: &str, name: &str) -> Option<Arc<Live>> {
        let id = self.counts.lock().names.get(&(tenant.to_string(), name.to_string())).cloned()?;
        self.get(&id)
    }

    /// At most `most` sandboxes behind a place; of one tenant, or of all. With `oldest_first` it goes the other way.
    pub fn page(
        &self,
        tenant: Option<&str>,
        after: Option<&Place>,
        most: usize,
        oldest_first: bool,
    ) -> Vec<(Place, Arc<Live>)> {
        let sandboxes = self.read();
        let all = match tenant {
            Some(tenant) => sandboxes.by_tenant.get(tenant),
            None => Some(&sandboxes.by_age),
        };
        let start = after.map_or(Bound::Unbounded, |after| Bound::Excluded(after.clone()));
        let copy = |(place, live): (&Place, &Arc<Live>)| (place.clone(), live.clone());
        match (all, oldest_first) {
            (None, _) => Vec::new(),
            (Some(all), false) => all.range((start, Bound::Unbounded)).take(most).map(copy).collect(),
            (Some(all), true) => all.range((Bound::Unbounded, start)).rev().take(most).map(copy).collect(),
        }
    }

    /// All living sandboxes. Not for the path of a request.
    pub fn all(&self) -> Vec<Arc<Live>> {
        self.read().by_id.values().map(|(_, live)| live.clone()).collect()
    }

    pub fn len(&self) -> usize {
        self.read().by_id.len()
    }

    pub fn in_state(&self, state: SandboxState) -> u64 {
        self.counts.lock().states.get(&state).copied().unwrap_or(0) as u64
    }

    /// True if a living sandbox nests in it.
    pub fn is_nested_in(&self, id: &SandboxId) -> bool {
        self.counts.lock().around.contains_key(id)
    }

    /// True if a sandbox began with the files that are kept under this name.
    pub fn is_base(&self, name: &str) -> bool {
        self.counts.lock().bases.contains_key(name)
    }

    /// True if a sandbox has this list of the paths at its start.
    pub fn is_baseline(&self, name: &str) -> bool {
        self.counts.lock().baselines.contains_key(name)
    }

    /// True if a sandbox has this directory of a volume.
    pub fn has_volume_place(&self, place: &str) -> bool {
        self.counts.lock().volume_places.contains_key(place)
    }

    /// The number of living sandboxes that the pool of this template gave away.
    pub fn count_of_pool(&self, template: &str) -> u32 {
        self.counts.lock().pools.get(template).copied().unwrap_or(0) as u32
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Sandboxes> {
        self.sandboxes.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Sandboxes> {
        self.sandboxes.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number of listed sandboxes with each of these facts.
#[derive(Default)]
pub struct Counts(Mutex<Counted>);

#[derive(Default)]
struct Counted {
    states: HashMap<SandboxState, usize>,
    around: HashMap<SandboxId, usize>,
    bases: HashMap<String, usize>,
    baselines: HashMap<String, usize>,
    volume_places: HashMap<String, usize>,
    /// The counts by the template of the pool that they came out of.
    pools: HashMap<String, usize>,
    /// The id by tenant and name.
    names: HashMap<(String, String), String>,
}

/// The part of a record that is counted.
#[derive(PartialEq, Eq)]
pub struct Facts {
    state: SandboxState,
    around: Vec<SandboxId>,
    base: Option<String>,
    baseline: Option<String>,
    volume_places: Vec<String>,
    pool: Option<String>,
    /// Tenant, name and id.
    name: Option<(String, String, String)>,
}

impl Facts {
    pub fn of(record: &Record) -> Facts {
        let lives = record.lives();
        let named = record.name.clone().filter(|_| lives);
        Facts {
            state: record.state,
            around: if lives { record.nests_in().cloned().collect() } else { Vec::new() },
            base: record.base.clone(),
            baseline: record.baseline.clone(),
            volume_places: record.volumes.iter().map(|volume| volume.place.clone()).collect(),
            pool: record.pool.clone().filter(|_| lives),
            name: named.map(|name| (record.tenant.clone(), name, record.id.to_string())),
        }
    }
}

impl Counts {
    /// Exchanges facts in one step, so that a sandbox is never missing in between.
    pub fn exchange(&self, old: Option<&Facts>, new: Option<&Facts>) {
        let mut counted = self.lock();
        if let Some(new) = new {
            counted.add(new);
        }
        if let Some(old) = old {
            counted.subtract(old, new);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counted {
    fn add(&mut self, facts: &Facts) {
        add(&mut self.states, [&facts.state]);
        add(&mut self.around, &facts.around);
        add(&mut self.bases, &facts.base);
        add(&mut self.baselines, &facts.baseline);
        add(&mut self.volume_places, &facts.volume_places);
        add(&mut self.pools, &facts.pool);
        if let Some((tenant, name, id)) = &facts.name {
            self.names.insert((tenant.clone(), name.clone()), id.clone());
        }
    }

    fn subtract(&mut self, old: &Facts, new: Option<&Facts>) {
        subtract(&mut self.states, [&old.state]);
        subtract(&mut self.around, &old.around);
        subtract(&mut self.bases, &old.base);
        subtract(&mut self.baselines, &old.baseline);
        subtract(&mut self.volume_places, &old.volume_places);
        subtract(&mut self.pools, &old.pool);
        if let Some((tenant, name, id)) = &old.name
            && new.is_none_or(|new| new.name != old.name)
        {
            let key = (tenant.clone(), name.clone());
            // Another sandbox may have the name by now.
            if self.names.get(&key) == Some(id) {
                self.names.remove(&key);
            }
        }
    }
}

fn add<'a, K: Hash + Eq + Clone + 'a>(counts: &mut HashMap<K, usize>, keys: impl IntoIterator<Item = &'a K>) {
    for key in keys {
        *counts.entry(key.clone()).or_default() += 1;
    }
}

fn subtract<'a, K: Hash + Eq + 'a>(counts: &mut HashMap<K, usize>, keys: impl IntoIterator<Item = &'a K>) {
    for key in keys {
        if let Some(count) = counts.get_mut(key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::record;
    use super::*;
    use std::path::PathBuf;

    fn live(number: u64, tenant: &str, name: Option<&str>) -> Arc<Live> {
        let mut record = record(None);
        record.id = SandboxId::from_random(number);
        record.created_at_ms = 1000 + number;
        (record.tenant, record.name) = (tenant.into(), name.map(String::from));
        Live::new(record, PathBuf::from("/nonexistent"), BTreeMap::new())
    }

    fn ids(page: &[(Place, Arc<Live>)]) -> Vec<&str> {
        page.iter().map(|(_, live)| live.id.as_str()).collect()
    }

    #[test]
    fn counts_follow_every_change_of_a_record_and_go_with_the_sandbox() {
        let roster = Roster::default();
        let (source, fork) = (live(1, "a", None), live(2, "a", Some("mine")));
        roster.add(source.clone());
        roster.add(fork.clone());
        let source_id = source.record().id.clone();
        assert!(!roster.is_nested_in(&source_id));
        {
            let mut record = fork.record();
            record.nest_in(&source.record());
            (record.base, record.baseline) = (Some("base".into()), Some("list".into()));
            record.pool = Some("template".into());
            record.state = SandboxState::Paused;
        }
        assert!(roster.is_nested_in(&source_id));
        assert!(roster.is_base("base") && roster.is_baseline("list"));
        assert_eq!(roster.count_of_pool("template"), 1);
        assert_eq!(roster.in_state(SandboxState::Running), 1);
        assert_eq!(roster.in_state(SandboxState::Paused), 1);
        assert!(roster.named("a", "mine").is_some() && roster.named("b", "mine").is_none());
        // It has ended, and is listed until its end is stored.
        fork.record().state = SandboxState::Ended;
        assert!(!roster.is_nested_in(&source_id) && roster.is_base("base"));
        assert!(roster.named("a", "mine").is_none());
        assert_eq!(roster.count_of_pool("template"), 0);
        roster.remove(&fork.id);
        assert!(!roster.is_base("base") && !roster.is_baseline("list"));
        assert_eq!(roster.len(), 1);
        // A change after that is not counted any more.
        fork.record().base = Some("later".into());
        assert!(!roster.is_base("later"));
    }

    #[test]
    fn a_name_belongs_to_the_sandbox_that_took_it_last() {
        let roster = Roster::default();
        let (first, second) = (live(1, "a", Some("x")), live(2, "a", Some("x")));
        roster.add(first.clone());
        first.record().state = SandboxState::Ended;
        roster.add(second.clone());
        roster.remove(&first.id);
        assert_eq!(roster.named("a", "x").map(|found| found.id.clone()), Some(second.id.clone()));
    }

    #[test]
    fn pages_are_newest_first_and_a_tenant_sees_its_own() {
        let roster = Roster::default();
        let all: Vec<_> =
            (0..5).map(|number| live(number, if number == 3 { "b" } else { "a" }, None)).collect();
        all.iter().for_each(|live| roster.add(live.clone()));
        let first = roster.page(None, None, 2, false);
        assert_eq!(ids(&first), [&all[4].id, &all[3].id]);
        let rest = roster.page(None, first.last().map(|(place, _)| place), 10, false);
        assert_eq!(ids(&rest), [&all[2].id, &all[1].id, &all[0].id]);
        assert_eq!(ids(&roster.page(Some("b"), None, 10, false)), [&all[3].id]);
        let oldest = roster.page(Some("a"), None, 2, true);
        assert_eq!(ids(&oldest), [&all[0].id, &all[1].id]);
        let rest = roster.page(Some("a"), oldest.last().map(|(place, _)| place), 10, true);
        assert_eq!(ids(&rest), [&all[2].id, &all[4].id]);
        roster.remove(&all[3].id);
        assert!(roster.page(Some("b"), None, 10, true).is_empty() && roster.get(&all[3].id).is_none());
    }
}
