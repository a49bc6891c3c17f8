//! Threads of their own write timelines and copies of records, many at once, while their sandboxes go on. A caller gets its
//! answer, and an exec is started, only after the timeline has the entry. Copies come later.
//!
//! An entry takes two signatures and two files, some 0.2 ms of a processor, and a call has two entries. One thread could not write
//! more than a few thousand calls in a second. So there are several, and each sandbox has one of them, which keeps its entries in order.

use super::execs::Printed;
use super::record::Record;
use super::{copies, prepared};
use paddock_model::SandboxId;
use paddock_records::audit::{Audit, AuditEntry, AuditEvent, KeptOutput, Outputs};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// A sandbox from a pool often ends sooner than this, and then needs no copy. A server that is killed before leaves a
/// record without a copy, which matters only if its database is lost as well.
const COPY_AFTER: Duration = Duration::from_secs(1);
/// The wait while nothing is due.
const WAIT_WITH_NOTHING_DUE: Duration = Duration::from_secs(3600);

/// One writer for so many processors: the others have the sandboxes to run.
const PROCESSORS_PER_WRITER: usize = 2;
const MOST_WRITERS: usize = 8;

pub struct AuditWriter {
    audit: Arc<Audit>,
    outputs: Arc<Outputs>,
    writers: Vec<Writer>,
}

/// One thread, and the notes that wait for it.
struct Writer {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

struct Queue {
    waiting: Mutex<Waiting>,
    more: Condvar,
    /// The number of notes that have been written.
    written: watch::Sender<u64>,
}

#[derive(Default)]
struct Waiting {
    notes: Vec<(SandboxId, Note)>,
    /// The number of notes that were ever given.
    given: u64,
    closed: bool,
}

enum Note {
    Entry(Box<AuditEntry>),
    /// The end of a call, and its output.
    Ended(Box<AuditEntry>, Printed),
    Copy(Copy),
    /// A sandbox that a caller may get later: its files are made now, because that takes time.
    Prepare,
    /// A prepared sandbox that no caller got.
    Forget,
}

enum Copy {
    Now(String),
    InAMoment(String),
    /// The sandbox has ended, and needs no copy.
    None,
}

/// The pending notes of one sandbox.
#[derive(Default)]
struct Page {
    entries: Vec<AuditEntry>,
    /// Only the newest counts.
    copy: Option<Copy>,
    prepare: bool,
    forget: bool,
}

impl AuditWriter {
    pub fn start(state: PathBuf, audit: Audit, outputs: Outputs) -> std::io::Result<AuditWriter> {
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
        AuditWriter::with_writers(
            (processors / PROCESSORS_PER_WRITER).clamp(1, MOST_WRITERS),
            state,
            audit,
            outputs,
        )
    }

    fn with_writers(
        count: usize,
        state: PathBuf,
        audit: Audit,
        outputs: Outputs,
    ) -> std::io::Result<AuditWriter> {
        let (audit, outputs) = (Arc::new(audit), Arc::new(outputs));
        let writers = (0..count).map(|_| Writer::start(state.clone(), audit.clone(), outputs.clone()));
        let writers = writers.collect::<std::io::Result<_>>()?;
        Ok(AuditWriter { audit, outputs, writers })
    }

    /// The one writer of this sandbox.
    fn queue(&self, sandbox: &SandboxId) -> &Queue {
        let mut hasher = DefaultHasher::new();
        sandbox.hash(&mut hasher);
        let place = hasher.finish() % self.writers.len() as u64;
        &self.writers[place as usize].queue
    }

    pub fn enter(&self, sandbox: &SandboxId, entry: AuditEntry) {
        self.queue(sandbox).give(sandbox, Note::Entry(Box::new(entry)));
    }

    /// The end of a call. `printed`: its output, which is kept too.
    pub fn enter_with_output(&self, sandbox: &SandboxId, entry: AuditEntry, printed: Option<Printed>) {
        let entry = Box::new(entry);
        let note = match printed.filter(|_| !self.outputs.is_off()) {
            Some(printed) => Note::Ended(entry, printed),
            None => Note::Entry(entry),
        };
        self.queue(sandbox).give(sandbox, note);
    }

    /// Keeps a copy of a record that is in the store, or removes the copy if the sandbox has ended.
    pub fn copy(&self, record: &Record, body: String) {
        let copy = if record.lives() { Copy::Now(body) } else { Copy::None };
        self.queue(&record.id).give(&record.id, Note::Copy(copy));
    }

    /// The copy of a sandbox that may end in a moment.
    pub fn copy_in_a_moment(&self, record: &Record, body: String) {
        self.queue(&record.id).give(&record.id, Note::Copy(Copy::InAMoment(body)));
    }

    pub fn prepare(&self, sandbox: &SandboxId) {
        self.queue(sandbox).give(sandbox, Note::Prepare);
    }

    pub fn forget(&self, sandbox: &SandboxId) {
        self.queue(sandbox).give(sandbox, Note::Forget);
    }

    /// Returns when every entry that was given until now is written.
    pub async fn written(&self) {
        let given: Vec<u64> = self.writers.iter().map(|writer| writer.queue.lock().given).collect();
        for (writer, given) in self.writers.iter().zip(given) {
            let _ = writer.queue.written.subscribe().wait_for(|written| *written >= given).await;
        }
    }

    pub fn outputs(&self) -> &Arc<Outputs> {
        &self.outputs
    }

    pub fn audit(&self) -> &Audit {
        &self.audit
    }
}

impl Writer {
    fn start(state: PathBuf, audit: Arc<Audit>, outputs: Arc<Outputs>) -> std::io::Result<Writer> {
        let (written, _) = watch::channel(0);
        let queue = Arc::new(Queue { waiting: Mutex::default(), more: Condvar::new(), written });
        let on = queue.clone();
        let thread = std::thread::Builder::new().name("audit_writer".into());
        let thread = thread.spawn(move || {
            let mut later = Later::default();
            while let Some((notes, given)) = on.take(later.due()) {
                let mut pages = sort(notes, &outputs);
                unharmed(|| write_entries(&audit, &outputs, &pages));
                on.written.send_replace(given);
                if outputs.is_too_much() {
                    unharmed(|| outputs.make_room());
                }
                unharmed(|| write_files(&state, &audit, &mut pages, &mut later));
            }
            unharmed(|| later.write(&state, None));
        })?;
        Ok(Writer { queue, thread: Some(thread) })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue.lock().closed = true;
        self.queue.more.notify_one();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Queue {
    fn give(&self, sandbox: &SandboxId, note: Note) {
        let mut waiting = self.lock();
        waiting.notes.push((sandbox.clone(), note));
        waiting.given += 1;
        if waiting.notes.len() == 1 {
            self.more.notify_one();
        }
    }

    /// Waits for notes, at most until then; `None` when no more come.
    fn take(&self, until: Option<Instant>) -> Option<(Vec<(SandboxId, Note)>, u64)> {
        let mut waiting = self.lock();
        while waiting.notes.is_empty() && until.is_none_or(|until| until > Instant::now()) {
            if waiting.closed {
                return None;
            }
            let patience =
                until.map_or(WAIT_WITH_NOTHING_DUE, |until| until.saturating_duration_since(Instant::now()));
            let woken = self.more.wait_timeout(waiting, patience);
            waiting = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        Some((std::mem::take(&mut waiting.notes), waiting.given))
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Catches a panic, so that no caller waits for ever.
fn unharmed(work: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        tracing::error!("timelines or copies of records could not be written: a panic");
    }
}

fn sort(notes: Vec<(SandboxId, Note)>, outputs: &Outputs) -> BTreeMap<SandboxId, Page> {
    let mut pages: BTreeMap<SandboxId, Page> = BTreeMap::new();
    for (sandbox, note) in notes {
        let output = match &note {
            Note::Ended(_, printed) => sealed(outputs, &sandbox, printed),
            _ => KeptOutput::Off,
        };
        let page = pages.entry(sandbox).or_default();
        match note {
            Note::Entry(entry) => page.entries.push(*entry),
            Note::Ended(mut entry, _) => {
                if let AuditEvent::ExecEnded { output: place, .. } = &mut entry.event {
                    *place = output;
                }
                page.entries.push(*entry);
            }
            Note::Copy(copy) => page.copy = Some(copy),
            Note::Prepare => page.prepare = true,
            Note::Forget => page.forget = true,
        }
    }
    pages
}

/// Keeps the output before the entry that names it is written. A server that is killed between the two leaves bytes
/// without an entry, and never an entry without its output.
fn sealed(outputs: &Outputs, sandbox: &SandboxId, printed: &Printed) -> KeptOutput {
    let keep = || match printed.record() {
        Some(record) => outputs.keep(sandbox, printed.exec(), &record),
        None => KeptOutput::Nothing,
    };
    catch_unwind(AssertUnwindSafe(keep)).unwrap_or(KeptOutput::Failed)
}

fn write_entries(audit: &Audit, outputs: &Outputs, pages: &BTreeMap<SandboxId, Page>) {
    for (sandbox, page) in pages.iter().filter(|(_, page)| !page.entries.is_empty()) {
        if let Err(error) = audit.append(sandbox, &page.entries) {
            // The error is only logged: a caller's work does not stop because the disk is full.
            tracing::error!(%sandbox, %error, "the audit timeline could not be written");
        }
        if page.entries.iter().any(|entry| matches!(entry.event, AuditEvent::Ended { .. })) {
            outputs.close(sandbox);
        }
    }
}

fn write_files(state: &Path, audit: &Audit, pages: &mut BTreeMap<SandboxId, Page>, later: &mut Later) {
    for (sandbox, page) in pages {
        if page.prepare
            && let Err(error) = prepared::make(state, audit, sandbox)
        {
            tracing::warn!(%sandbox, %error, "its files could not be made beforehand");
        }
        if page.forget {
            prepared::remove(state, audit, sandbox);
        }
        match page.copy.take() {
            Some(Copy::InAMoment(body)) => later.put(sandbox, body),
            Some(Copy::Now(body)) if later.waits(sandbox) => later.put(sandbox, body),
            Some(Copy::Now(body)) => later.keep(state, sandbox.clone(), &body),
            Some(Copy::None) if later.cancel(sandbox) => {}
            Some(Copy::None) => copies::keep(state, sandbox, None),
            None => {}
        }
    }
    later.write(state, Some(Instant::now()));
}

/// Copies that wait for their time, the newest of each sandbox.
#[derive(Default)]
struct Later {
    bodies: HashMap<SandboxId, String>,
    order: VecDeque<(Instant, SandboxId)>,
    /// Sandboxes that have a copy already.
    copied: HashSet<SandboxId>,
}

impl Later {
    fn due(&self) -> Option<Instant> {
        self.order.front().map(|(at, _)| *at)
    }

    fn put(&mut self, sandbox: &SandboxId, body: String) {
        if self.bodies.insert(sandbox.clone(), body).is_none() {
            self.order.push_back((Instant::now() + COPY_AFTER, sandbox.clone()));
        }
    }

    fn waits(&self, sandbox: &SandboxId) -> bool {
        self.bodies.contains_key(sandbox)
    }

    fn keep(&mut self, state: &Path, sandbox: SandboxId, body: &str) {
        copies::keep(state, &sandbox, Some(body));
        self.copied.insert(sandbox);
    }

    /// Returns true if nothing is left to do, because no copy was made yet.
    fn cancel(&mut self, sandbox: &SandboxId) -> bool {
        let waited = self.bodies.remove(sandbox).is_some();
        !self.copied.remove(sandbox) && waited
    }

    /// Writes the copies whose time has come; without a time, all of them.
    fn write(&mut self, state: &Path, now: Option<Instant>) {
        while self.order.front().is_some_and(|(at, _)| now.is_none_or(|now| *at <= now)) {
            let Some((_, sandbox)) = self.order.pop_front() else { return };
            if let Some(body) = self.bodies.remove(&sandbox) {
                self.keep(state, sandbox, &body);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paddock_records::audit::{AuditActor, AuditEvent, Verdict};

    fn entry(change: &str) -> AuditEntry {
        let event = AuditEvent::Lifecycle { change: change.into(), detail: None };
        AuditEntry::new(AuditActor::server(), event)
    }

    fn started(state: &Path) -> AuditWriter {
        let vault = paddock_records::vault::Vault::open(&state.join("secrets.key")).unwrap();
        let outputs = Outputs::open(state, Arc::new(vault), 1 << 20).unwrap();
        AuditWriter::with_writers(3, state.into(), Audit::open(state).unwrap(), outputs).unwrap()
    }

    #[tokio::test]
    async fn what_many_give_is_written_in_order_before_anybody_goes_on() {
        let state = tempfile::tempdir().unwrap();
        let audit_writer = Arc::new(started(state.path()));
        let ids: Vec<SandboxId> = (0..4).map(SandboxId::from_random).collect();
        let mut tasks = tokio::task::JoinSet::new();
        for id in ids.clone() {
            let audit_writer = audit_writer.clone();
            tasks.spawn(async move {
                for number in 0..100 {
                    audit_writer.enter(&id, entry(&number.to_string()));
                    if number % 10 == 0 {
                        audit_writer.written().await;
                        let text = std::fs::read_to_string(audit_writer.audit().path(&id)).unwrap();
                        assert_eq!(text.lines().count(), number + 2);
                    }
                }
                audit_writer.written().await;
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
        for id in ids {
            let verdict = audit_writer.audit().verify(&id).unwrap();
            let Some(Verdict::Verified(found)) = verdict else { panic!("{verdict:?}") };
            assert_eq!(found.entries, 101);
        }
    }

    #[test]
    fn what_was_given_before_the_end_is_written_at_the_end() {
        let state = tempfile::tempdir().unwrap();
        let id = SandboxId::from_random(7);
        let audit_writer = started(state.path());
        (0..50).for_each(|number| audit_writer.enter(&id, entry(&number.to_string())));
        let path = audit_writer.audit().path(&id);
        drop(audit_writer);
        assert_eq!(std::fs::read_to_string(path).unwrap().lines().count(), 51);
    }

    #[test]
    fn a_copy_is_made_of_what_lives_on_and_of_nothing_else() {
        let state = tempfile::tempdir().unwrap();
        let path = |id: &SandboxId| state.path().join("sandboxes").join(id.as_str()).join("record.json");
        let [lives, ended, was_copied] = [1, 2, 3].map(SandboxId::from_random);
        let mut later = Later::default();
        later.put(&was_copied, "old".into());
        later.write(state.path(), None);
        assert!(path(&was_copied).exists());
        later.put(&lives, "first".into());
        later.put(&lives, "second".into());
        later.put(&ended, "gone".into());
        later.put(&was_copied, "new".into());
        assert!(later.cancel(&ended) && !later.cancel(&was_copied));
        later.write(state.path(), Some(Instant::now()));
        assert!(!path(&lives).exists(), "its time has not come");
        later.write(state.path(), None);
        assert_eq!(std::fs::read_to_string(path(&lives)).unwrap(), "second");
        assert!(!path(&ended).exists());
    }
}
