//! One living sandbox: running, paused or hibernated.

use super::awake::Uses;
use super::clock::boot_ms;
use super::contexts::{Contexts, Part};
use super::execs::TrackedExec;
use super::metrics_history::History;
use super::network::NetLog;
use super::pools::WaitingInterpreter;
use super::record::Record;
use super::roster::{Counts, Facts};
use paddock_engine::Sandbox;
use paddock_model::api;
use paddock_records::access::{Permit, Visitors};
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub struct Live {
    pub id: String,
    pub tenant: String,
    /// The directory of its journals and other files of this sandbox alone.
    pub directory: PathBuf,
    /// Held while its state changes: one change at a time.
    pub transition: Arc<tokio::sync::Mutex<()>>,
    record: Mutex<Kept>,
    /// The processes inside; `None` while hibernated, before the guest is up and after the end.
    running: Mutex<Option<Arc<Sandbox>>>,
    execs: Mutex<BTreeMap<u32, Arc<TrackedExec>>>,
    pub contexts: Contexts,
    /// The ended calls in contexts that are remembered.
    pub answered_calls: AtomicU32,
    next_exec: AtomicU32,
    /// The open streams, ports and watches.
    streams: AtomicUsize,
    /// Calls that need its processes at this moment.
    pub uses: Uses,
    /// By the boot clock, which cannot be set: the end of its time to live, and the time at which it was last seen at
    /// work. `cpu_us`: the processor time that it had used by then.
    end_ms: AtomicU64,
    active_ms: AtomicU64,
    /// By the same clock: the time of its last waking; 0: never by this server.
    woken_ms: AtomicU64,
    pub cpu_us: AtomicU64,
    pub permit: Mutex<Option<Permit>>,
    /// Those who use its public ports without a token.
    pub visitors: Visitors,
    /// The decisions of its gates.
    pub net: NetLog,
    /// Its use of the host over the last minutes.
    pub history: History,
    /// True if its guest has not been reached yet, or not again.
    silent: AtomicBool,
    /// True if a caller is about to end it.
    unwanted: AtomicBool,
    /// True if anything was done in it.
    has_begun: AtomicBool,
    /// An interpreter that was there before its first call.
    waiting_interpreter: Mutex<Option<WaitingInterpreter>>,
}

struct Kept {
    record: Record,
    /// While the fleet lists it: the counts that it is in, and the facts it is counted by.
    counted: Option<(Arc<Counts>, Facts)>,
}

/// The record of a sandbox, for this holder alone. If it was changed, the counts of the fleet follow when this is
/// dropped.
pub struct RecordGuard<'a> {
    kept: MutexGuard<'a, Kept>,
    changed: bool,
}

impl Deref for RecordGuard<'_> {
    type Target = Record;

    fn deref(&self) -> &Record {
        &self.kept.record
    }
}

impl DerefMut for RecordGuard<'_> {
    fn deref_mut(&mut self) -> &mut Record {
        self.changed = true;
        &mut self.kept.record
    }
}

impl Drop for RecordGuard<'_> {
    fn drop(&mut self) {
        let Kept { record, counted } = &mut *self.kept;
        if let Some((counts, old)) = counted.as_mut().filter(|_| self.changed) {
            let new = Facts::of(record);
            if new != *old {
                counts.exchange(Some(old), Some(&new));
                *old = new;
            }
        }
    }
}

/// Counts as use for as long as it is held.
pub struct OpenStream(Arc<Live>);

impl Live {
    pub fn new(record: Record, directory: PathBuf, execs: BTreeMap<u32, Arc<TrackedExec>>) -> Arc<Live> {
        let next = execs.keys().next_back().map_or(1, |last| last + 1);
        let is_answered =
            |tracked: &&Arc<TrackedExec>| !tracked.runs() && matches!(tracked.record().part, Part::Call(_));
        let answered = execs.values().filter(is_answered).count() as u32;
        let left = record.time_to_live();
        let live = Arc::new(Live {
            id: record.id.to_string(),
            tenant: record.tenant.clone(),
            directory,
            transition: Arc::default(),
            end_ms: u64::MAX.into(),
            active_ms: boot_ms().into(),
            woken_ms: 0.into(),
            cpu_us: 0.into(),
            record: Mutex::new(Kept { record, counted: None }),
            running: Mutex::new(None),
            execs: Mutex::new(execs),
            contexts: Contexts::default(),
            answered_calls: answered.into(),
            next_exec: next.into(),
            streams: 0.into(),
            uses: Uses::default(),
            permit: Mutex::new(None),
            visitors: Visitors::default(),
            net: NetLog::default(),
            history: History::default(),
            silent: false.into(),
            unwanted: false.into(),
            has_begun: (next > 1).into(),
            waiting_interpreter: Mutex::new(None),
        });
        live.set_end(left);
        live.restore_contexts();
        live
    }

    /// Sets the rest of its time to live; `None`: for ever.
    pub fn set_end(&self, left: Option<Duration>) {
        let end = left.map_or(u64::MAX, |left| boot_ms().saturating_add(left.as_millis() as u64));
        self.end_ms.store(end, Ordering::Relaxed);
    }

    /// Here and in its guest, after the record's time to live was changed.
    pub fn follow_time_to_live(&self, record: &Record) {
        self.set_end(record.time_to_live());
        if let Some(inside) = self.running() {
            inside.set_deadline(record.guest_deadline());
        }
    }

    pub fn is_over(&self) -> bool {
        self.end_ms.load(Ordering::Relaxed) <= boot_ms()
    }

    pub fn quiet_for(&self) -> Duration {
        Duration::from_millis(boot_ms().saturating_sub(self.active_ms.load(Ordering::Relaxed)))
    }

    pub fn record(&self) -> RecordGuard<'_> {
        RecordGuard { kept: self.kept(), changed: false }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The fleet lists it from now on.
    pub fn count_in(&self, counts: &Arc<Counts>) {
        let mut kept = self.kept();
        let facts = Facts::of(&kept.record);
        counts.exchange(None, Some(&facts));
        kept.counted = Some((counts.clone(), facts));
    }

    /// The fleet lists it no more.
    pub fn count_out(&self) {
        if let Some((counts, facts)) = self.kept().counted.take() {
            counts.exchange(Some(&facts), None);
        }
    }

    pub fn running(&self) -> Option<Arc<Sandbox>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn set_running(&self, sandbox: Option<Arc<Sandbox>>) -> Option<Arc<Sandbox>> {
        std::mem::replace(&mut *self.running.lock().unwrap_or_else(PoisonError::into_inner), sandbox)
    }

    pub fn set_silent(&self, silent: bool) {
        self.silent.store(silent, Ordering::Relaxed);
    }

    pub fn is_silent(&self) -> bool {
        self.silent.load(Ordering::Relaxed)
    }

    /// Ends the wait for its guest, and releases its transition.
    pub fn set_unwanted(&self) {
        self.unwanted.store(true, Ordering::Relaxed);
    }

    pub fn is_unwanted(&self) -> bool {
        self.unwanted.load(Ordering::Relaxed)
    }

    /// Precondition: no exec has a number yet.
    pub fn set_waiting_interpreter(&self, waiting_interpreter: WaitingInterpreter) {
        self.next_exec.store(waiting_interpreter.exec.number() + 1, Ordering::Relaxed);
        *self.waiting_interpreter.lock().unwrap_or_else(PoisonError::into_inner) = Some(waiting_interpreter);
    }

    /// The interpreter that waits for its first call, unless it has ended meanwhile.
    pub fn take_waiting_interpreter(&self) -> Option<WaitingInterpreter> {
        let waiting = self.waiting_interpreter.lock().unwrap_or_else(PoisonError::into_inner).take();
        waiting.filter(WaitingInterpreter::lives)
    }

    /// Returns true for the first thing that is done in it.
    pub fn begins(&self) -> bool {
        !self.has_begun.swap(true, Ordering::Relaxed)
    }

    pub fn take_exec_number(&self) -> u32 {
        self.next_exec.fetch_add(1, Ordering::Relaxed)
    }

    /// True if an exec had this number, kept or not.
    pub fn has_given(&self, number: u32) -> bool {
        (1..self.next_exec.load(Ordering::Relaxed)).contains(&number)
    }

    pub fn execs(&self) -> Vec<Arc<TrackedExec>> {
        self.lock_execs().values().cloned().collect()
    }

    pub fn exec(&self, number: u32) -> Option<Arc<TrackedExec>> {
        self.lock_execs().get(&number).cloned()
    }

    pub fn add_exec(&self, tracked: Arc<TrackedExec>) {
        let number = tracked.number();
        self.lock_execs().insert(number, tracked);
    }

    pub fn remove_exec(&self, number: u32) {
        self.lock_execs().remove(&number);
    }

    fn lock_execs(&self) -> MutexGuard<'_, BTreeMap<u32, Arc<TrackedExec>>> {
        self.execs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A waiting interpreter is not counted: its calls are.
    pub fn running_execs(&self) -> u32 {
        let works =
            |tracked: &&Arc<TrackedExec>| tracked.runs() && !matches!(tracked.record().part, Part::Runner(_));
        self.lock_execs().values().filter(works).count() as u32
    }

    pub fn open_stream(self: &Arc<Live>) -> OpenStream {
        self.streams.fetch_add(1, Ordering::Relaxed);
        OpenStream(self.clone())
    }

    pub fn has_open_streams(&self) -> bool {
        self.streams.load(Ordering::Relaxed) > 0
    }

    /// True if it is used, or has not been idle for as long as it may be.
    pub fn is_in_use(&self) -> bool {
        let idle = self.record().idle;
        let quiet = idle.is_none_or(|idle| self.quiet_for().as_secs_f64() >= idle.seconds);
        self.running_execs() > 0 || self.has_open_streams() || !quiet
    }

    /// True if an exec or a call is under way, or a stream is open.
    pub fn is_used_now(&self) -> bool {
        self.running_execs() > 0 || self.has_open_streams() || self.has_uses()
    }

    pub fn note_waking(&self) {
        self.woken_ms.store(boot_ms().max(1), Ordering::Relaxed);
    }

    pub fn since_woken(&self) -> Option<Duration> {
        let woken = self.woken_ms.load(Ordering::Relaxed);
        (woken > 0).then(|| Duration::from_millis(boot_ms().saturating_sub(woken)))
    }

    pub fn touch(&self) {
        self.active_ms.store(boot_ms(), Ordering::Relaxed);
    }

    pub fn to_api(&self) -> api::Sandbox {
        let execs = self.running_execs();
        self.record().to_api(execs)
    }
}

/// If a fleet is dropped without a close, because a server could not start, its sandboxes run on for the next server.
/// Code that ends a sandbox takes its inside out first.
impl Drop for Live {
    fn drop(&mut self) {
        if let Some(inside) = self.set_running(None) {
            inside.leave();
        }
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
        self.0.touch();
    }
}
