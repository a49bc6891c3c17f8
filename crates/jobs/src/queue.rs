//! The order of tasks. Tenants take turns, however much each of them has waiting; of one tenant's jobs the highest
//! priority goes first, then the oldest. Nothing here waits or knows the time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

#[derive(Default)]
pub struct Queue {
    jobs: HashMap<String, Waiting>,
    /// The jobs of each tenant, in the order in which they may go.
    tenants: HashMap<String, BTreeMap<Place, String>>,
    /// The next tenant to be served is first.
    turns: VecDeque<String>,
    /// When a task may go again.
    later: BTreeSet<(u64, String, u32)>,
    next: u64,
}

type Place = (Reverse<i32>, u64);

struct Waiting {
    tenant: String,
    place: Place,
    tasks: BTreeSet<u32>,
    running: u32,
    parallelism: u32,
}

/// The queue's facts about a job.
pub struct Entry<'a> {
    pub id: &'a str,
    pub tenant: &'a str,
    pub priority: i32,
    /// How many of its tasks may run at one time.
    pub parallelism: u32,
}

impl Queue {
    pub fn add(&mut self, entry: Entry, tasks: impl IntoIterator<Item = u32>) {
        self.next += 1;
        let place = (Reverse(entry.priority), self.next);
        let waiting = Waiting {
            tenant: entry.tenant.into(),
            place,
            tasks: tasks.into_iter().collect(),
            running: 0,
            parallelism: entry.parallelism.max(1),
        };
        self.jobs.insert(entry.id.into(), waiting);
        let own = self.tenants.entry(entry.tenant.into()).or_insert_with(|| {
            self.turns.push_back(entry.tenant.into());
            BTreeMap::new()
        });
        own.insert(place, entry.id.into());
    }

    /// A task that was taken over from another server and runs already.
    pub fn runs(&mut self, job: &str) {
        if let Some(waiting) = self.jobs.get_mut(job) {
            waiting.running += 1;
        }
    }

    /// The next task that may run now; it counts as running until `done`.
    pub fn take(&mut self, now_ms: u64) -> Option<(String, u32)> {
        while let Some((at, job, task)) = self.later.first().cloned() {
            if at > now_ms {
                break;
            }
            self.later.pop_first();
            self.put(&job, task);
        }
        for turn in 0..self.turns.len() {
            let tenant = &self.turns[turn];
            let jobs = self.tenants.get(tenant)?;
            let ready = jobs.values().find(|id| {
                self.jobs.get(*id).is_some_and(|job| !job.tasks.is_empty() && job.running < job.parallelism)
            });
            let Some(id) = ready.cloned() else { continue };
            let job = self.jobs.get_mut(&id)?;
            let task = job.tasks.pop_first()?;
            job.running += 1;
            // Served: behind all the others.
            let served = self.turns.remove(turn)?;
            self.turns.push_back(served);
            return Some((id, task));
        }
        None
    }

    /// One task of the job does not run any more.
    pub fn done(&mut self, job: &str) {
        if let Some(waiting) = self.jobs.get_mut(job) {
            waiting.running = waiting.running.saturating_sub(1);
        }
    }

    /// Waits again; a job that was removed takes nothing back.
    pub fn put(&mut self, job: &str, task: u32) {
        if let Some(waiting) = self.jobs.get_mut(job) {
            waiting.tasks.insert(task);
        }
    }

    pub fn put_later(&mut self, job: &str, task: u32, at_ms: u64) {
        if self.jobs.contains_key(job) {
            self.later.insert((at_ms, job.to_string(), task));
        }
    }

    /// When the next of those that wait for their time may go.
    pub fn next_at(&self) -> Option<u64> {
        self.later.first().map(|(at, _, _)| *at)
    }

    /// Nothing of the job is started any more. Returns the tasks that waited.
    pub fn drain(&mut self, job: &str) -> Vec<u32> {
        let Some(waiting) = self.jobs.get_mut(job) else { return Vec::new() };
        let mut tasks: Vec<u32> = std::mem::take(&mut waiting.tasks).into_iter().collect();
        let (own, others) = std::mem::take(&mut self.later).into_iter().partition(|(_, id, _)| id == job);
        self.later = others;
        let own: BTreeSet<(u64, String, u32)> = own;
        tasks.extend(own.into_iter().map(|(_, _, task)| task));
        tasks
    }

    pub fn remove(&mut self, job: &str) {
        self.drain(job);
        let Some(waiting) = self.jobs.remove(job) else { return };
        let Some(own) = self.tenants.get_mut(&waiting.tenant) else { return };
        own.remove(&waiting.place);
        if own.is_empty() {
            self.tenants.remove(&waiting.tenant);
            self.turns.retain(|tenant| *tenant != waiting.tenant);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(queue: &mut Queue, id: &str, tenant: &str, priority: i32, parallelism: u32, tasks: u32) {
        queue.add(Entry { id, tenant, priority, parallelism }, 0..tasks);
    }

    fn taken(queue: &mut Queue, count: usize) -> Vec<String> {
        (0..count).map_while(|_| queue.take(0)).map(|(job, task)| format!("{job}{task}")).collect()
    }

    #[test]
    fn tenants_take_turns_however_much_one_has_waiting() {
        let mut queue = Queue::default();
        add(&mut queue, "a", "one", 100, 1000, 1000);
        add(&mut queue, "b", "two", 0, 1000, 3);
        add(&mut queue, "c", "three", -100, 1000, 2);
        assert_eq!(taken(&mut queue, 9), ["a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "a3"]);
        // A tenant that comes late is not behind all waiting tasks.
        add(&mut queue, "d", "four", 0, 1000, 1);
        assert_eq!(taken(&mut queue, 3), ["a4", "d0", "a5"]);
    }

    #[test]
    fn within_a_tenant_priority_comes_first_then_age() {
        let mut queue = Queue::default();
        add(&mut queue, "old", "t", 0, 10, 1);
        add(&mut queue, "new", "t", 0, 10, 1);
        add(&mut queue, "low", "t", -1, 10, 1);
        add(&mut queue, "high", "t", 5, 10, 2);
        assert_eq!(taken(&mut queue, 9), ["high0", "high1", "old0", "new0", "low0"]);
    }

    #[test]
    fn a_job_runs_no_more_than_its_parallelism_and_does_not_hold_others_up() {
        let mut queue = Queue::default();
        add(&mut queue, "a", "t", 9, 2, 5);
        add(&mut queue, "b", "t", 0, 9, 1);
        assert_eq!(taken(&mut queue, 9), ["a0", "a1", "b0"]);
        queue.done("a");
        assert_eq!(taken(&mut queue, 9), ["a2"]);
        queue.runs("a");
        queue.done("a");
        assert_eq!(taken(&mut queue, 9), [""; 0]);
    }

    #[test]
    fn what_waits_for_its_time_goes_when_it_has_come() {
        let mut queue = Queue::default();
        add(&mut queue, "a", "t", 0, 9, 0);
        queue.put_later("a", 3, 100);
        queue.put_later("a", 4, 50);
        queue.put_later("gone", 1, 1);
        assert_eq!((queue.take(49), queue.next_at()), (None, Some(50)));
        assert_eq!(queue.take(50), Some(("a".into(), 4)));
        assert_eq!(queue.take(99), None);
        assert_eq!(queue.take(1000), Some(("a".into(), 3)));
        assert_eq!(queue.next_at(), None);
    }

    #[test]
    fn a_job_that_is_removed_leaves_nothing() {
        let mut queue = Queue::default();
        add(&mut queue, "a", "t", 0, 9, 3);
        add(&mut queue, "b", "u", 0, 9, 1);
        queue.put_later("a", 9, 10);
        assert_eq!(queue.drain("a"), [0, 1, 2, 9]);
        queue.put("a", 1);
        queue.remove("a");
        queue.put("a", 1);
        queue.done("a");
        assert_eq!(taken(&mut queue, 9), ["b0"]);
        queue.remove("b");
        assert!(queue.turns.is_empty() && queue.tenants.is_empty() && queue.jobs.is_empty());
    }
}
