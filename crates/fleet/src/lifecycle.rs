//! From running to hibernated and ended, and back if there is a way back.

use super::archives::{self, Lasts};
use super::changes::{CHANGES, LISTED};
use super::execs::{KILLED, TrackedExec, end_exec};
use super::live::Live;
use super::pressure::LEAST_QUIET;
use super::record::{Intent, Record, now_ms, reason};
use super::request::optional_seconds;
use super::{Actor, Fleet, FleetError, Kind, audit, blocking, has_ended};
use paddock_backends::FenceUsage;
use paddock_engine::Sandbox as Inside;
use paddock_model::api::{End, EndCause, ExecCause, Hibernate, Resume, Sandbox, SandboxState, SandboxUsage};
use paddock_model::{Access, Network};
use serde_json::{Value, json};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// The bytes of the last output that are kept with an end.
const LAST_OUTPUT: usize = 2048;

/// Why a sandbox is hibernated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sleep {
    /// A call asked for it, even if the sandbox is at work.
    Asked,
    /// It was idle for as long as it may be, unless it is used again.
    Idle,
    /// The host is short of memory, unless the sandbox is used.
    MemoryPressure,
    /// Its time to live is over, even if the sandbox is at work.
    TtlOver,
    /// As `Asked`, and its memory is not kept, even if the backend could: it begins anew with its files.
    FilesAlone,
}

impl Fleet {
    pub async fn kill(&self, actor: &Actor, id: &str) -> Result<Sandbox, FleetError> {
        self.end_by_call(actor, id, EndCause::Killed).await
    }

    /// As [`Fleet::kill`], for a caller that knows that the work in it failed: its volumes follow their rule for
    /// failures.
    pub async fn fail(&self, actor: &Actor, id: &str) -> Result<Sandbox, FleetError> {
        self.end_by_call(actor, id, EndCause::Failed).await
    }

    async fn end_by_call(&self, actor: &Actor, id: &str, cause: EndCause) -> Result<Sandbox, FleetError> {
        let live = match self.find(actor, id) {
            Ok(live) => live,
            // Killing an ended sandbox is no mistake.
            Err(error) => return self.ended(actor, id)?.map(|record| record.to_api(0)).ok_or(error),
        };
        let operation = if cause == EndCause::Failed { "fail" } else { "kill" };
        audit::call(&self.0, actor, &live, operation, Value::Null);
        self.detached(async move |fleet: Fleet| {
            fleet.end(&live, cause).await?;
            Ok(live.to_api())
        })
        .await
    }

    pub async fn hibernate(
        &self,
        actor: &Actor,
        id: &str,
        request: Hibernate,
    ) -> Result<Sandbox, FleetError> {
        let live = self.find(actor, id)?;
        live.check_memory(request.memory)?;
        let ttl = optional_seconds(request.ttl_seconds)?;
        let why = if request.memory == Some(false) { Sleep::FilesAlone } else { Sleep::Asked };
        audit::call(&self.0, actor, &live, "hibernate", told(&request));
        self.detached(async move |fleet: Fleet| {
            fleet.hibernate_live(&live, why, ttl).await?;
            Ok(live.to_api())
        })
        .await
    }

    /// True if a hibernated sandbox wakes with its memory.
    pub fn sleeps_with_memory(&self, sandbox: &Sandbox) -> bool {
        sandbox.state == SandboxState::Hibernated && self.kept_memory(&sandbox.id).is_some()
    }

    pub async fn wake(&self, actor: &Actor, id: &str, request: Resume) -> Result<Sandbox, FleetError> {
        let ttl = optional_seconds(request.ttl_seconds)?;
        let live = self.find(actor, id)?;
        audit::call(&self.0, actor, &live, "wake", told(&request));
        self.detached(async move |fleet: Fleet| {
            fleet.wake_live(&live, ttl).await?;
            Ok(live.to_api())
        })
        .await
    }

    pub async fn usage(&self, actor: &Actor, id: &str) -> Result<SandboxUsage, FleetError> {
        let live = self.find(actor, id)?;
        let disk_bytes = self.0.storage.usage(&live.id).ok();
        let Some(inside) = live.running() else {
            return Ok(SandboxUsage { disk_bytes, ..SandboxUsage::default() });
        };
        Ok(usage(&inside.usage(), disk_bytes))
    }

    /// Calls that come meanwhile wait for it to sleep, and wake it. It stays awake if it is used again and the reason
    /// gives way to that.
    ///
    /// `ttl`: its time to live until it wakes, where a call asked for that.
    pub(super) async fn hibernate_live(
        &self,
        live: &Arc<Live>,
        why: Sleep,
        ttl: Option<Duration>,
    ) -> Result<(), FleetError> {
        let _guard = live.transition.lock().await;
        match live.record().state {
            SandboxState::Running | SandboxState::Paused => {}
            SandboxState::Hibernated => {
                if why == Sleep::FilesAlone && self.kept_memory(&live.id).is_some() {
                    self.drop_memory(&live.id);
                    self.end_execs(live);
                }
                return Ok(());
            }
            state => return Err(wrong_state(live, state, "hibernated")),
        }
        if why == Sleep::TtlOver && !live.is_to_sleep() {
            return Ok(());
        }
        let with_memory = live.keeps_memory() && why != Sleep::FilesAlone;
        // If memory is kept, the shell that forks nest in is left behind.
        let shelters = self.0.shelters(live);
        if shelters && !with_memory {
            live.touch();
            let message = format!(
                "forks of sandbox {}, or contexts that a snapshot keeps, live in its namespaces: it cannot sleep before they end",
                live.id
            );
            return Err(FleetError::new(Kind::Conflict, "forks_live", message)
                .hint("pause it instead, or end its forks and remove its snapshots of kind `interpreter`"));
        }
        let inside = live.running().ok_or_else(|| lost(live))?;
        let alone = match why {
            // No call is cut off for it.
            Sleep::MemoryPressure => live.fall_asleep_if_unused(),
            Sleep::Asked | Sleep::Idle | Sleep::TtlOver | Sleep::FilesAlone => Some(live.fall_asleep().await),
        };
        let is_in_use = match why {
            Sleep::Asked | Sleep::TtlOver | Sleep::FilesAlone => false,
            Sleep::Idle => live.is_in_use(),
            Sleep::MemoryPressure => live.is_used_now() || live.quiet_for() < LEAST_QUIET,
        };
        let Some(_alone) = alone.filter(|_| !is_in_use) else { return Ok(()) };
        // Nothing is written while it is being saved.
        inside.freeze(true).await?;
        if let Err(error) = self.prepare_to_sleep(live, &inside).await {
            live.record().intent = None;
            if live.record().state == SandboxState::Running {
                inside.freeze(false).await?;
            }
            return Err(error);
        }
        if with_memory {
            if let Err(error) = self.sleep_with_memory(live, &inside).await {
                live.record().intent = None;
                return Err(error);
            }
            if shelters {
                self.leave_shell(live, inside).await?;
            } else {
                self.take_down(inside).await?;
            }
        } else {
            live.set_running(None);
            self.take_down(inside).await?;
            self.end_execs(live);
        }
        let nested_in: Vec<_>;
        let record = {
            let mut record = live.record();
            record.state = SandboxState::Hibernated;
            record.intent = None;
            record.paused_when_idle = false;
            if matches!(why, Sleep::Asked | Sleep::FilesAlone) {
                record.sleep_as_asked(ttl, false);
            }
            // It wakes up in namespaces of its own, which nest in no others.
            nested_in = record.nests_in().cloned().collect();
            (record.around, record.within) = (Vec::new(), None);
            record.clone()
        };
        self.0.save(&record)?;
        live.follow_time_to_live(&record);
        let inner = self.0.clone();
        tokio::task::spawn_blocking(move || {
            nested_in.iter().for_each(|around| inner.end_shelter_unless_used(around));
        });
        let reason = match why {
            Sleep::MemoryPressure => Some("memory pressure"),
            Sleep::TtlOver => Some("time to live"),
            Sleep::Asked | Sleep::Idle | Sleep::FilesAlone => None,
        };
        self.0.announce_because(live, "hibernated", reason);
        // An acknowledged sleep survives a loss of power.
        let inner = self.0.clone();
        blocking(move || Ok(inner.store.flush()?)).await
    }

    /// Its files are safe when this returns. From then on a new engine that finds no guest knows that this is right.
    async fn prepare_to_sleep(&self, live: &Arc<Live>, inside: &Inside) -> Result<(), FleetError> {
        if !self.0.storage.keeps_disks() {
            self.keep_changes(live, inside).await?;
            archives::export(inside, &self.archive_of(&live.id), Lasts::AlsoThen).await?;
        } else {
            if !self.is_listed_later(live) {
                self.keep_list(live, inside).await?;
            }
            let (fleet, id) = (self.clone(), live.id.clone());
            blocking(move || fleet.0.storage.flush(&id).map_err(|error| FleetError::storage(&error))).await?;
        }
        let record = {
            let mut record = live.record();
            record.intent = Some(Intent::Hibernate);
            record.clone()
        };
        self.0.save(&record)
    }

    ///
    /// `ttl`: its time to live from then on.
    pub(super) async fn wake_live(&self, live: &Arc<Live>, ttl: Option<Duration>) -> Result<(), FleetError> {
        let _guard = live.transition.lock().await;
        match live.record().state {
            SandboxState::Hibernated => {}
            SandboxState::Running => return Ok(()),
            state => return Err(wrong_state(live, state, "woken")),
        }
        FleetError::unless_descriptors_are_left()?;
        self.unless_short_of_memory()?;
        self.0.storage.check_writable().map_err(|error| FleetError::storage(&error))?;
        let archive = (!self.0.storage.keeps_disks()).then(|| self.archive_of(&live.id));
        let ready_at_ns = live.record().ready_at_ns;
        let lifetime = live.record().lifetime();
        live.record().restart_time_to_live(ttl);
        let raised = match self.kept_memory(&live.id) {
            Some(memory) => {
                self.raise_from_memory(live, &memory, None).await.inspect(|()| self.drop_memory(&live.id))
            }
            None => self.raise(live, archive.clone()).await,
        };
        if let Err(error) = raised {
            live.record().live_as_before(lifetime);
            return Err(error);
        }
        // Changes from before its sleep are still its own.
        let record = {
            let mut record = live.record();
            record.ready_at_ns = ready_at_ns;
            record.clone()
        };
        live.follow_time_to_live(&record);
        self.0.save(&record)?;
        let _ = std::fs::remove_file(self.archive_of(&live.id).with_extension(LISTED));
        if let Some(archive) = archive {
            let _ = std::fs::remove_file(archive);
        }
        live.note_waking();
        self.0.announce(live, "woken");
        Ok(())
    }

    /// Ends a sandbox and removes everything of it but its record, its journals and its timeline.
    pub(super) async fn end(&self, live: &Arc<Live>, cause: EndCause) -> Result<(), FleetError> {
        live.set_unwanted();
        let _guard = live.transition.lock().await;
        if live.record().state == SandboxState::Ended {
            return Ok(());
        }
        let sheltered = self.0.shelters(live);
        if let Some(inside) = live.running().filter(|_| !sheltered && nobody_sees_it_end(live, &cause)) {
            self.end_unseen(live, &inside, cause);
            return Ok(());
        }
        let record = {
            let mut record = live.record();
            record.intent = Some(Intent::End(cause.clone()));
            record.clone()
        };
        // A full disk keeps no sandbox alive: a server that is killed now leaves a sandbox without a guest.
        if let Err(error) = self.0.save_for_a_moment(&record) {
            tracing::warn!(sandbox = %live.id, %error, "its end could not be announced to the store");
        }
        let used = match live.set_running(None) {
            Some(inside) if sheltered => self.hold(live, inside).await?,
            Some(inside) => self.take_down(inside).await?,
            None if sheltered => {
                // Its VM has ended; the guest around the VM stays for the sandboxes that nest in its fence.
                self.0.shelters.find_again(live.record().id.clone());
                FenceUsage::default()
            }
            None => {
                // The guest around its VM may have stayed, for nested sandboxes that have ended since.
                let (inner, id) = (self.0.clone(), live.record().id.clone());
                let _ = tokio::task::spawn_blocking(move || inner.engine.remove(&id)).await;
                FenceUsage::default()
            }
        };
        self.end_execs(live);
        self.settle_volumes(live, &cause).await;
        self.record_end(live, cause, used);
        Ok(())
    }

    /// Records the end, then ends the sandbox; the kernel takes it apart while the caller goes on. If the server is
    /// killed in between, the next one ends every sandbox that is not recorded as living.
    fn end_unseen(&self, live: &Arc<Live>, inside: &Arc<Inside>, cause: EndCause) {
        let used = inside.usage();
        live.set_running(None);
        self.end_execs(live);
        let ended = self.store_as_ended(live, cause, used);
        if let Err(error) = inside.kill() {
            tracing::warn!(sandbox = %live.id, %error, "it could not be ended at once");
        }
        let (fleet, live, inside) = (self.clone(), live.clone(), inside.clone());
        tokio::task::spawn_blocking(move || {
            taken_down(inside.destroy());
            fleet.let_go_of_all(&live, &ended);
        });
    }

    /// Precondition: its processes are gone.
    pub(super) fn record_end(&self, live: &Arc<Live>, cause: EndCause, used: FenceUsage) {
        let ended = self.store_as_ended(live, cause, used);
        let (fleet, live) = (self.clone(), live.clone());
        // No caller waits for it; a new engine frees the parts that this one does not get to.
        tokio::task::spawn_blocking(move || fleet.let_go_of_all(&live, &ended));
    }

    fn store_as_ended(&self, live: &Arc<Live>, cause: EndCause, used: FenceUsage) -> Record {
        let last_output = live.execs().last().map(|tracked| last_words(tracked)).unwrap_or_default();
        let end = End {
            reason: reason(&cause),
            cause,
            at_ms: now_ms(),
            last_output,
            usage: usage(&used, self.0.storage.usage(&live.id).ok()),
        };
        let record = {
            let mut record = live.record();
            record.state = SandboxState::Ended;
            record.intent = None;
            record.end = Some(end.clone());
            record.secrets.sealed = None;
            record.clone()
        };
        match self.0.save(&record) {
            Ok(()) => self.0.remove(&live.id),
            Err(error) => {
                let why = "its end is kept in memory until it can be stored";
                tracing::error!(sandbox = %live.id, %error, why);
            }
        }
        if let Some(snapshot) = &record.stands_for {
            self.tell_of_lost_contexts(snapshot, live, &end);
        }
        // Its room is free before the end is announced: a caller that hears of the end may ask for another sandbox at
        // once.
        drop(live.permit.lock().unwrap_or_else(PoisonError::into_inner).take());
        audit::ended(&self.0, &live.id, &end);
        self.0.tell(live, "ended", Some(end.reason));
        record
    }

    /// Releases everything that it held besides its processes. Blocks for a moment.
    ///
    /// Precondition: its processes are gone.
    fn let_go_of_all(&self, live: &Live, ended: &Record) {
        if let Some(baseline) = &ended.baseline {
            self.drop_baseline(baseline);
        }
        // The last sandbox that nested in it may have ended at the same time.
        for around in ended.nests_in().chain([&ended.id]) {
            self.0.end_shelter_unless_used(around);
        }
        self.free_disk_of(&live.id, ended.base.as_deref(), !self.0.is_held(&ended.id));
    }

    /// Stores an end that the store could not take before.
    pub(super) fn store_end(&self, live: &Live) {
        let record = live.record().clone();
        for tracked in live.execs().into_iter().filter(|tracked| !tracked.runs() && !tracked.is_stored()) {
            let record = tracked.record().clone();
            if self.0.save_exec(&live.id, &record).is_err() {
                return;
            }
            tracked.mark_stored();
        }
        if self.0.save(&record).is_ok() {
            tracing::info!(sandbox = %live.id, "its end is stored");
            self.0.remove(&live.id);
        }
    }

    /// Frees the disk in the background; a new engine frees it if this one does not get to it.
    pub(super) fn free_disk(&self, id: &str) {
        let (fleet, id) = (self.clone(), id.to_string());
        tokio::task::spawn_blocking(move || fleet.free_disk_now(&id, None));
    }

    pub(super) fn free_disk_now(&self, id: &str, base: Option<&str>) {
        self.free_disk_of(id, base, true);
    }

    /// `whole`: false if forks may still have files of it mapped.
    fn free_disk_of(&self, id: &str, base: Option<&str>, whole: bool) {
        if whole && let Err(error) = self.0.storage.delete(id) {
            tracing::warn!(sandbox = %id, %error, "its disk could not be removed");
        }
        self.drop_memory(id);
        let archive = self.archive_of(id);
        for list in [CHANGES, LISTED] {
            let _ = std::fs::remove_file(archive.with_extension(list));
        }
        let _ = std::fs::remove_file(archive);
        if let Some(base) = base {
            self.let_go(base);
        }
    }

    async fn take_down(&self, inside: Arc<Inside>) -> Result<FenceUsage, FleetError> {
        let ended = tokio::task::spawn_blocking(move || taken_down(inside.destroy())).await;
        ended.map_err(|error| FleetError::internal(&error))
    }

    /// Ends the execs, whose processes are gone.
    pub(super) fn end_execs(&self, live: &Live) {
        for tracked in live.execs() {
            tracked.close();
            if tracked.runs() {
                end_exec(&self.0, live, &tracked, ExecCause::SandboxEnded, KILLED);
            }
        }
    }

    /// A sandbox of the actor's that ended within the last day.
    pub(super) fn ended(&self, actor: &Actor, id: &str) -> Result<Option<Record>, FleetError> {
        let Some(row) = self.0.store.sandbox(id)? else { return Ok(None) };
        if !(actor.owner || row.tenant == actor.tenant) {
            return Ok(None);
        }
        let record: Record = serde_json::from_str(&row.body).map_err(|error| FleetError::internal(&error))?;
        Ok((!record.lives() && record.stands_for.is_none()).then_some(record))
    }

    /// The archive with the files of a hibernated sandbox whose disk was in memory.
    pub(super) fn archive_of(&self, id: &str) -> std::path::PathBuf {
        self.0.options.state.join("hibernated").join(format!("{id}.tar"))
    }
}

/// True if an end can be announced before the kernel has taken the sandbox apart, because no caller could see the
/// difference: no exec runs whose last output a caller may want, and nothing outside can be reached from inside.
fn nobody_sees_it_end(live: &Live, cause: &EndCause) -> bool {
    let record = live.record();
    let writable = record.spec.mounts.iter().any(|mount| mount.access == Access::Write);
    *cause == EndCause::Killed
        && record.state == SandboxState::Running
        && record.spec.workspace.is_none()
        && record.spec.network == Network::None
        && !writable
        && live.running_execs() == 0
}

/// The settings of a call in the timeline; nothing where it has none.
pub(super) fn told<T: Default + PartialEq + serde::Serialize>(request: &T) -> Value {
    if *request == T::default() { Value::Null } else { json!(request) }
}

fn taken_down(ended: std::io::Result<FenceUsage>) -> FenceUsage {
    ended.unwrap_or_else(|error| {
        tracing::warn!(%error, "something of a sandbox could not be removed; the next start sweeps it");
        FenceUsage::default()
    })
}

fn usage(used: &FenceUsage, disk_bytes: Option<u64>) -> SandboxUsage {
    SandboxUsage {
        cpu_ms: used.cpu_ms,
        memory_bytes: used.memory,
        peak_memory_bytes: used.peak_memory,
        disk_bytes,
        processes: used.processes,
    }
}

fn last_words(tracked: &TrackedExec) -> String {
    let Ok((stdout, stderr)) = tracked.captured() else { return String::new() };
    let text =
        if stderr.tail.is_empty() && stderr.head.is_empty() { stdout.to_text() } else { stderr.to_text() };
    let start = text.char_indices().rev().nth(LAST_OUTPUT).map_or(0, |(at, _)| at);
    text[start..].to_string()
}

pub(super) fn wrong_state(live: &Live, state: SandboxState, wanted: &str) -> FleetError {
    if state == SandboxState::Ended {
        return has_ended(&live.id);
    }
    let now = match state {
        SandboxState::Creating => "being created",
        SandboxState::Running => "running",
        SandboxState::Paused => "paused",
        SandboxState::Hibernated => "hibernated",
        SandboxState::Ended => "ended",
    };
    let message = format!("sandbox {} is {now}, so it cannot be {wanted}", live.id);
    FleetError::new(Kind::Conflict, "wrong_state", message)
}

pub(super) fn lost(live: &Live) -> FleetError {
    let message = format!("the guest of sandbox {} does not answer", live.id);
    FleetError::new(Kind::Unavailable, "guest_lost", message).hint("try again in a moment")
}
