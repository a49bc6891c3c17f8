//! Recovery after an earlier server: running sandboxes are taken over, half-made things are removed.

use super::archives::Named;
use super::clock::boot_id;
use super::contexts::{Part, end_unstarted};
use super::execs::{KILLED, TrackedExec, end_exec, pump};
use super::live::Live;
use super::patience::NotAdopted;
use super::record::{Intent, Record};
use super::{Fleet, FleetError};
use paddock_engine::{Beginning, Begun, Found, KnownExec, Request, ResumedExec, Sandbox as Inside};
use paddock_model::SandboxId;
use paddock_model::api::{EndCause, ExecCause, SandboxState, StreamName};
use paddock_records::access::Need;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// The sandboxes that are taken over at the same time.
const AT_ONCE: usize = 16;
/// The longest wait of a start for all silent guests together; it goes on without them.
const SILENT_GUESTS_TIMEOUT: Duration = Duration::from_secs(3);
/// A guest that answers does so within this time, also when the others have used up the patience.
const LEAST_PATIENCE: Duration = Duration::from_millis(100);

impl Fleet {
    pub(super) async fn recover(&self) -> Result<(), FleetError> {
        let inner = &self.0;
        self.take_copies()?;
        let mut keep = BTreeSet::new();
        let mut disks = BTreeSet::new();
        let mut memories = BTreeSet::new();
        let mut alive = Vec::new();
        let mut nested_in = BTreeSet::new();
        let mut named = Named::default();
        let mut all_are_read = true;
        for row in inner.store.living_sandboxes()? {
            let Ok(record) = serde_json::from_str::<Record>(&row.body) else {
                // A record of another version perhaps: the version that wrote it can read it, so nothing of it is
                // touched.
                tracing::error!(sandbox = %row.id, "its record cannot be read; it is left alone");
                keep.extend(SandboxId::try_from(row.id.clone()));
                disks.insert(row.id);
                all_are_read = false;
                continue;
            };
            // No caller was told of it.
            if record.state == SandboxState::Creating {
                inner.store.delete_sandbox(&row.id)?;
                continue;
            }
            disks.insert(record.id.to_string());
            let sleeps =
                record.state == SandboxState::Hibernated || matches!(record.intent, Some(Intent::Hibernate));
            if sleeps {
                memories.insert(record.id.to_string());
            }
            named.add_sandbox(&record, sleeps);
            disks.extend(record.base.clone());
            if record.state != SandboxState::Hibernated {
                keep.insert(record.id.clone());
                for around in record.nests_in() {
                    keep.insert(around.clone());
                    nested_in.insert(around.clone());
                    disks.insert(around.to_string());
                }
            }
            alive.push(record);
        }
        // A living sandbox that others nest in has a record of its own, and is no ended one.
        let living: BTreeSet<&SandboxId> = alive.iter().map(|record: &Record| &record.id).collect();
        for around in nested_in.iter().filter(|around| !living.contains(around)) {
            inner.shelters.find_again(around.clone());
        }
        for (id, snapshot) in self.all_snapshots()? {
            match snapshot {
                Some(snapshot) => named.add_snapshot(&snapshot),
                None => all_are_read = false,
            }
            memories.insert(id.clone());
            disks.insert(id);
        }
        disks.extend(self.volume_places(&alive));
        self.sweep(keep, disks).await?;
        self.sweep_memory(&memories);
        // The needs of an unreadable record are not known.
        if all_are_read {
            self.sweep_archives(&named);
        }
        // A sandbox that cannot be looked up is left alone.
        let recorded = |id: &SandboxId| !matches!(inner.store.sandbox(id.as_str()), Ok(None));
        super::prepared::sweep(&inner.options.state, inner.audit_writer.audit(), recorded);
        // All sandboxes are known before the first is taken over: the check for nested ones asks the known ones.
        let lives = self.at_once(alive, async |fleet, record| fleet.know(record)).await;
        let deadline = tokio::time::Instant::now() + SILENT_GUESTS_TIMEOUT;
        let take_over =
            move |fleet: Fleet, live: Arc<Live>| async move { fleet.take_over(&live, deadline).await };
        self.at_once(lives, take_over).await;
        self.sweep_snapshot_holders().await?;
        self.settle_unfinished().await
    }

    /// The same for many, some of them at the same time.
    async fn at_once<T, R, F>(&self, all: Vec<T>, work: impl Fn(Fleet, T) -> F) -> Vec<R>
    where
        R: Send + 'static,
        F: Future<Output = R> + Send + 'static,
    {
        let (mut tasks, mut done) = (tokio::task::JoinSet::new(), Vec::new());
        for one in all {
            while tasks.len() >= AT_ONCE {
                done.extend(tasks.join_next().await.and_then(Result::ok));
            }
            tasks.spawn(work(self.clone(), one));
        }
        while let Some(task) = tasks.join_next().await {
            done.extend(task.ok());
        }
        done
    }

    async fn sweep(&self, keep: BTreeSet<SandboxId>, disks: BTreeSet<String>) -> Result<(), FleetError> {
        let fleet = self.clone();
        let swept = tokio::task::spawn_blocking(move || -> Result<(), FleetError> {
            let inner = &fleet.0;
            for id in inner.engine.sweep(&keep) {
                tracing::info!(sandbox = %id, "removed what was left of it");
            }
            for disk in inner.storage.list().map_err(|error| FleetError::storage(&error))? {
                if !disks.contains(&disk.name) && !fleet.places().is_version(&disk.name) {
                    inner.storage.delete(&disk.name).map_err(|error| FleetError::storage(&error))?;
                }
            }
            fleet.places().sweep(&|name| disks.contains(name));
            Ok(())
        });
        swept.await.map_err(|error| FleetError::internal(&error))?
    }

    /// Makes a sandbox of this fleet from a record.
    fn know(&self, record: Record) -> Arc<Live> {
        let inner = &self.0;
        let id = record.id.to_string();
        let execs = match self.stored_execs(&record) {
            Ok(execs) => execs.into_iter().map(|tracked| (tracked.number(), tracked)).collect(),
            Err(error) => {
                tracing::error!(sandbox = %id, %error, "its commands cannot be read");
                BTreeMap::new()
            }
        };
        let limits = record.spec.limits.clone();
        let permit = inner
            .admission
            .hold(&record.tenant, Need { cpus: limits.cpus, memory_bytes: limits.memory, create: false });
        let directory = inner.options.state.join("sandboxes").join(&id);
        let live = Live::new(record, directory, execs);
        *live.permit.lock().unwrap_or_else(PoisonError::into_inner) = Some(permit);
        inner.add(live.clone());
        live
    }

    async fn take_over(&self, live: &Arc<Live>, deadline: tokio::time::Instant) {
        let intent = live.record().intent.clone();
        if let Some(Intent::End(cause)) = intent {
            return self.finish_end(live, cause).await;
        }
        if live.record().state == SandboxState::Hibernated {
            if self.kept_memory(&live.id).is_none() {
                self.end_execs(live);
            }
            return;
        }
        if live.record().boot != boot_id() {
            return self.finish_end(live, EndCause::HostRestarted).await;
        }
        let deadline = deadline.max(tokio::time::Instant::now() + LEAST_PATIENCE);
        let taking = self.wait_for_guest(live);
        // A guest that does not answer by then is waited for in the background.
        let _ = tokio::time::timeout_at(deadline, taking).await;
    }

    /// Goes on with a guest that answers; `hibernating`: its sandbox was about to sleep when its server was killed.
    pub(super) fn has_guest_again(&self, live: &Arc<Live>, hibernating: bool) {
        self.end_lost_calls(live);
        let record = live.record().clone();
        // It did not fall asleep: the archive that was kept for that is stale from now on.
        if hibernating && self.0.save(&record).is_ok() {
            let _ = std::fs::remove_file(self.archive_of(&live.id));
        }
    }

    /// Gives up a guest that can never be taken over.
    pub(super) async fn give_up_guest(&self, live: &Arc<Live>, why: &str) {
        let inner = &self.0;
        if !matches!(live.record().intent, Some(Intent::Hibernate)) {
            if self.sleeps_after_loss(live).await {
                return;
            }
            let cause = cause_of_loss(live, why);
            return self.finish_end(live, cause).await;
        }
        match self.kept_memory(&live.id) {
            // A fence may still stand although nothing runs in it.
            Some(_) => {
                let (fleet, id) = (self.clone(), live.record().id.clone());
                let _ = tokio::task::spawn_blocking(move || fleet.0.engine.remove(&id)).await;
            }
            None => self.end_execs(live),
        }
        let record = {
            let mut record = live.record();
            record.state = SandboxState::Hibernated;
            record.intent = None;
            record.clone()
        };
        if let Err(error) = inner.save(&record) {
            tracing::error!(sandbox = %live.id, %error, "could not be stored");
        }
    }

    async fn finish_end(&self, live: &Arc<Live>, cause: EndCause) {
        let id = live.record().id.clone();
        let fleet = self.clone();
        // Removes its remains, except the parts that other sandboxes nest in.
        match self.0.shelters(live) {
            true => self.0.shelters.find_again(id),
            false => drop(tokio::task::spawn_blocking(move || fleet.0.engine.remove(&id)).await),
        }
        self.end_execs(live);
        self.settle_volumes(live, &cause).await;
        self.record_end(live, cause, Default::default());
    }

    /// Connects to a running guest, and goes on with its execs. If a step fails, or the future is dropped, the sandbox
    /// stays as it is.
    pub(super) async fn adopt(&self, live: &Arc<Live>) -> Result<(), NotAdopted> {
        let record = live.record().clone();
        let id = record.id.clone();
        let fleet = self.clone();
        let found = tokio::task::spawn_blocking(move || {
            let beginning = Beginning::Adopted(record.guarantees);
            let request = Request::new(&record.id, record.backend.as_deref(), &record.spec, beginning);
            let found = Found::from(fleet.0.engine.begin(request)?);
            // A server that was killed while it took a snapshot left the work frozen, and perhaps a guest that waits
            // for an exec to start. Without a freezer the guest itself stops the work, and is told below.
            match found.thaw() {
                Err(error) if error.kind() != std::io::ErrorKind::Unsupported => Err(error.into()),
                _ => Ok::<_, NotAdopted>(found),
            }
        });
        let found = found.await.map_err(|error| NotAdopted::for_good(error.to_string()))??;
        let known = self.known_execs(live).await;
        let (inside, resumed) = Inside::resume_or_leave(id, found, &known).await?;
        let inside = Arc::new(inside);
        if let Err(why) = self.continue_commands(live, &inside, resumed).await {
            inside.leave();
            return Err(NotAdopted::for_good(why));
        }
        Ok(())
    }

    /// Takes over the guest behind the stream, and goes on with its execs; a guest that cannot be taken over is
    /// removed.
    pub(super) async fn go_on(&self, live: &Arc<Live>, begun: Begun) -> Result<(), String> {
        let known = self.known_execs(live).await;
        let id = live.record().id.clone();
        let (inside, resumed) =
            Inside::resume(id, begun, &known).await.map_err(|error| super::request::chain(&error))?;
        let inside = Arc::new(inside);
        // The memory may be of a sandbox that had no certificates, or of days ago.
        let installed = self.install_certificates(live, &inside).await;
        installed.map_err(|error| error.message)?;
        self.continue_commands(live, &inside, resumed).await
    }

    /// The bytes of each exec that are safely kept.
    async fn known_execs(&self, live: &Arc<Live>) -> Vec<KnownExec> {
        let mut known = Vec::new();
        for tracked in live.execs() {
            // The last bytes of the old connection are written first.
            drop(tracked.pumping.lock().await);
            let number = tracked.number();
            let known_exec = match live.contexts.of_runner(number) {
                // Its output went to its calls.
                Some(context) => {
                    let at = context.consumed();
                    KnownExec { number, stdout: at.stdout, stderr: at.stderr, control: at.control }
                }
                None => {
                    let (stdout, stderr) = tracked.journal.lengths();
                    KnownExec { number, stdout, stderr, control: 0 }
                }
            };
            known.push(known_exec);
        }
        known
    }

    async fn continue_commands(
        &self,
        live: &Arc<Live>,
        inside: &Arc<Inside>,
        resumed: Vec<ResumedExec>,
    ) -> Result<(), String> {
        if let Err(error) = self.open_gate(live, inside).await {
            tracing::error!(sandbox = %live.id, %error, "its gate could not be opened: nothing leaves it");
        }
        let state = live.record().state;
        // A server that was killed in the middle of a change left the work in either state.
        inside.freeze(state == SandboxState::Paused).await.map_err(|error| error.to_string())?;
        inside.set_deadline(live.record().guest_deadline());
        // A server that was killed while it changed limits left the old ones or the new ones: the recorded ones are
        // set.
        let limits = live.record().spec.limits.clone();
        if let Err(error) = inside.change_limits(&limits, &limits).await {
            tracing::debug!(sandbox = %live.id, %error, "its limits could not be written again");
        }
        live.record().intent = None;
        live.set_running(Some(inside.clone()));
        let mut found = BTreeSet::new();
        for exec in resumed {
            found.insert(exec.number);
            match live.exec(exec.number) {
                Some(tracked) if matches!(tracked.record().part, Part::Runner(_)) => {
                    self.resume_runner(live, tracked, exec).await;
                }
                Some(tracked) => {
                    skip_lost(&tracked, exec.stdout, exec.stderr);
                    restore_input(&tracked, exec.stdin, exec.stdin_open.then(|| exec.exec.input())).await;
                    tokio::spawn(pump(self.0.clone(), live.clone(), tracked, exec.exec));
                }
                None => inside.forget(exec.number),
            }
        }
        // The exec was recorded, but the guest never heard of it: no caller was told that it had started.
        let is_exec = |tracked: &Arc<TrackedExec>| !matches!(tracked.record().part, Part::Call(_));
        for tracked in
            live.execs().into_iter().filter(|tracked| is_exec(tracked) && !found.contains(&tracked.number()))
        {
            tracked.close();
            if tracked.runs() {
                let why = "the server was killed before the command was started";
                // A guest whose time was over stayed for the sandboxes that nest in it, without any work.
                let expired = has_expired(live);
                match live.contexts.of_runner(tracked.number()) {
                    Some(context) => {
                        let cause = match expired {
                            true => ExecCause::SandboxEnded,
                            false => ExecCause::NotStarted { detail: why.into() },
                        };
                        self.end_runner(live, &context, &tracked, cause);
                    }
                    None if expired => end_exec(&self.0, live, &tracked, ExecCause::SandboxEnded, KILLED),
                    None => end_unstarted(&self.0, live, &tracked, why),
                }
            }
        }
        super::reaper::watch_over(self, live, inside.clone());
        Ok(())
    }
}

/// Counts bytes that were acknowledged but could not be kept on a full disk: offsets stay true, and the gap is shown.
fn skip_lost(tracked: &TrackedExec, stdout: u64, stderr: u64) {
    let kept = tracked.journal.lengths();
    for (stream, lost) in [
        (StreamName::Stdout, stdout.saturating_sub(kept.0)),
        (StreamName::Stderr, stderr.saturating_sub(kept.1)),
    ] {
        if let Err(error) = tracked.journal.skip(stream, lost) {
            tracing::warn!(exec = tracked.number(), %error, "lost output could not be counted");
        }
    }
}

async fn restore_input(tracked: &TrackedExec, offset: u64, input: Option<paddock_engine::Input>) {
    let mut guard = tracked.input.lock().await;
    guard.offset = offset;
    guard.input = input;
}

/// Connects again after a lost connection: the guest may be alive and well.
///
/// Precondition: the sandbox's transition is locked.
pub async fn reconnect(fleet: &Fleet, live: &Arc<Live>, old: Arc<Inside>) -> Result<(), NotAdopted> {
    let probe = old.clone();
    if tokio::task::spawn_blocking(move || probe.guest_has_ended()).await.unwrap_or(true) {
        // Only the parts of the fence itself are left.
        let _ = tokio::task::spawn_blocking(move || old.destroy()).await;
        return Err(NotAdopted::for_good("its guest has ended".into()));
    }
    old.leave();
    fleet.adopt(live).await
}

/// A guest ends by itself when its time is over and no engine ends it.
pub fn cause_of_loss(live: &Live, detail: &str) -> EndCause {
    match has_expired(live) {
        true => EndCause::TimeToLive,
        false => EndCause::GuestLost { detail: detail.into() },
    }
}

pub fn has_expired(live: &Live) -> bool {
    let soon = Duration::from_secs(1);
    live.record().guest_deadline().is_some_and(|left| left <= soon)
}
