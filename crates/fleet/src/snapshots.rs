//! Snapshots: the files of a sandbox at one moment, kept, and begun with again.

use super::archives::{self, Lasts};
use super::changes::baseline_named;
use super::create::Origin;
use super::kept_settings::KeptSettings;
use super::live::Live;
use super::live_fork::{ASLEEP, Passage, not_live};
use super::memory::KeptFrom;
use super::record::{Record, now_ms};
use super::request::{check_name, invalid};
use super::snapshot_holder::Keeps;
use super::vm_fork::Copied;
use super::{Actor, Fleet, FleetError, Kind, audit, copies, has_ended};
use paddock_model::api::{CreateSnapshot, SandboxState, Snapshot, SnapshotPage};
use paddock_model::{Capability, SandboxId, ScanRules};
use paddock_records::store::{SnapshotFilter, SnapshotRow};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

const LARGEST_PAGE: usize = 1000;
/// The prefix of the name under which files are kept for the forks of one call.
pub(super) const MOMENT: &str = "fk-";

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SnapshotRecord {
    pub id: String,
    pub name: Option<String>,
    pub tenant: String,
    pub sandbox: String,
    pub created_at_ms: u64,
    pub size_bytes: Option<u64>,
    /// The root that its files were written over.
    pub image: Option<String>,
    #[serde(default)]
    pub image_of_tenant: bool,
    /// The scan rules of its sandbox; a sandbox made from it has at least these.
    #[serde(default)]
    pub scan: ScanRules,
    /// The list of its paths, to tell later which ones were deleted.
    pub baseline: Option<String>,
    /// The fence that its memory was kept from, if it was kept.
    #[serde(default)]
    pub memory: Option<KeptFrom>,
    /// The sandbox in which its interpreters wait, if they were kept.
    #[serde(default)]
    pub snapshot_holder: Option<SandboxId>,
    /// How commands ran in its sandbox. `None`: an older server made it, and a request says all.
    #[serde(default)]
    pub settings: Option<KeptSettings>,
}

impl Fleet {
    fn show_snapshot(&self, record: &SnapshotRecord) -> Snapshot {
        let kind = match self.snapshot_holder_of(record) {
            _ if record.memory.is_some() => "memory",
            Some(_) => "interpreter",
            None => "filesystem",
        };
        record.to_api(kind)
    }
}

impl SnapshotRecord {
    fn to_api(&self, kind: &str) -> Snapshot {
        let settings = self.settings.as_ref();
        let policy = settings.map(|settings| &settings.policy);
        Snapshot {
            id: self.id.clone(),
            name: self.name.clone(),
            tenant: self.tenant.clone(),
            sandbox: self.sandbox.clone(),
            created_at_ms: self.created_at_ms,
            kind: kind.into(),
            backend: self.memory.as_ref().map(|kept| kept.backend.clone()),
            template: settings.and_then(|settings| settings.template.clone()),
            image: self.image.clone(),
            user: policy.and_then(|policy| policy.user.clone()),
            cwd: policy.and_then(|policy| policy.cwd.clone()),
            root_may_install: settings.is_some_and(|settings| settings.root_may_install),
            become_root: settings.is_some_and(|settings| settings.become_root),
            size_bytes: self.size_bytes,
        }
    }
}

impl Fleet {
    pub async fn create_snapshot(
        &self,
        actor: &Actor,
        id: &str,
        request: CreateSnapshot,
    ) -> Result<Snapshot, FleetError> {
        let keeps = match (request.live, request.memory) {
            (true, Some(false)) => {
                return Err(invalid("`live` keeps code contexts in memory, and `memory` is false")
                    .hint("leave one of them out"));
            }
            (true, _) => Keeps::Interpreters,
            (false, Some(false)) => Keeps::FilesAlone,
            (false, _) => Keeps::Files,
        };
        self.find(actor, id)?.check_memory(request.memory)?;
        self.snapshot_keeping(actor, id, request.name, keeps).await
    }

    pub async fn snapshot_keeping(
        &self,
        actor: &Actor,
        id: &str,
        name: Option<String>,
        keeps: Keeps,
    ) -> Result<Snapshot, FleetError> {
        let live = self.find(actor, id)?;
        if let Some(name) = &name {
            check_name(name)?;
            if self.0.store.snapshot_named(&live.tenant, name)?.is_some() {
                return Err(FleetError::new(
                    Kind::Conflict,
                    "name_taken",
                    format!("there is a snapshot `{name}` already"),
                ));
            }
        }
        let snapshot = format!("sn-{:016x}", self.random_for_id()?);
        let actor = actor.clone();
        self.detached(async move |fleet: Fleet| {
            let mut passage = fleet.board_for_snapshot(&actor, &live, keeps).await?;
            let baseline = {
                let _guard = live.transition.lock().await;
                if passage.as_ref().is_some_and(|passage| !passage.begins_in(&live)) {
                    if keeps == Keeps::Interpreters {
                        return Err(not_live(ASLEEP));
                    }
                    passage = None;
                }
                fleet.keep_files(&live, &snapshot, passage.as_deref()).await?
            };
            if keeps == Keeps::FilesAlone {
                fleet.drop_memory(&snapshot);
            }
            let snapshot_holder =
                passage.as_ref().map(|_| fleet.snapshot_holder_for(&live, &snapshot)).transpose()?;
            let source = live.record().clone();
            let tenant = source.tenant.clone();
            let record = SnapshotRecord {
                memory: fleet.kept_memory(&snapshot).map(|_| KeptFrom::of(&live)),
                size_bytes: fleet.snapshot_size(&snapshot),
                id: snapshot.clone(),
                name: name.clone(),
                tenant: tenant.clone(),
                sandbox: live.id.clone(),
                created_at_ms: now_ms(),
                settings: Some(KeptSettings::of(&source)),
                image: source.image,
                image_of_tenant: source.image_of_tenant,
                scan: source.spec.scan,
                baseline,
                snapshot_holder: snapshot_holder.as_ref().map(|snapshot_holder| snapshot_holder.id.clone()),
            };
            let body = serde_json::to_string(&record).map_err(|error| FleetError::internal(&error))?;
            let row = SnapshotRow { id: snapshot, tenant, name, created_ms: record.created_at_ms, body };
            if let Err(error) = fleet.0.store.insert_snapshot(&row) {
                fleet.forget_files(&row.id, record.baseline.as_deref());
                return Err(error.into());
            }
            // From here on, the end of a sandbox that began with these files does not remove them.
            if let Some((passage, snapshot_holder)) = passage.zip(snapshot_holder)
                && let Err(error) =
                    fleet.raise_snapshot_holder(&live, &record, snapshot_holder, passage).await
            {
                if keeps == Keeps::Interpreters {
                    fleet.0.store.delete_snapshot(&row.id)?;
                    fleet.forget_files(&row.id, record.baseline.as_deref());
                    return Err(error);
                }
                tracing::warn!(snapshot = row.id, why = error.message, "only its files are kept");
            }
            copies::keep_snapshot(&fleet.0.options.state, &row.id, &row.body);
            audit::call(&fleet.0, &actor, &live, "snapshot", serde_json::json!({ "snapshot": record.id }));
            fleet.0.tell(&live, "snapshot", Some(record.id.clone()));
            Ok(fleet.show_snapshot(&record))
        })
        .await
    }

    pub async fn snapshots(
        &self,
        actor: &Actor,
        filter: &SnapshotFilter,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<SnapshotPage, FleetError> {
        let tenant = (!actor.owner).then_some(actor.tenant.as_str());
        let limit = if limit == 0 { 100 } else { limit.min(LARGEST_PAGE) };
        let page = self.0.store.find_snapshots(tenant, filter, limit, cursor)?;
        let parse = |row: &SnapshotRow| serde_json::from_str::<SnapshotRecord>(&row.body).ok();
        let snapshots =
            page.rows.iter().filter_map(parse).map(|record| self.show_snapshot(&record)).collect();
        Ok(SnapshotPage { snapshots, next_cursor: page.next_cursor })
    }

    pub async fn snapshot(&self, actor: &Actor, snapshot: &str) -> Result<Snapshot, FleetError> {
        Ok(self.show_snapshot(&self.snapshot_record(actor, snapshot)?))
    }

    pub async fn delete_snapshot(&self, actor: &Actor, snapshot: &str) -> Result<Snapshot, FleetError> {
        let record = self.snapshot_record(actor, snapshot)?;
        let shown = self.show_snapshot(&record);
        self.0.store.delete_snapshot(&record.id)?;
        self.detached(async move |fleet: Fleet| {
            let ended = fleet.end_snapshot_holder(&record).await;
            copies::remove_snapshot(&fleet.0.options.state, &record.id);
            let (files, id) = (fleet.clone(), record.id.clone());
            let _ = tokio::task::spawn_blocking(move || files.let_go(&id)).await;
            if let Some(baseline) = &record.baseline {
                fleet.drop_baseline(baseline);
            }
            ended.map(|()| shown)
        })
        .await
    }

    /// Freezes the sandbox for a moment, keeps its files under `name`, and returns the place of their list.
    /// Interpreters that go along wait already, and may set out as soon as nothing is frozen.
    ///
    /// Precondition: the sandbox's transition is locked.
    pub(super) async fn keep_files(
        &self,
        live: &Arc<Live>,
        name: &str,
        passage: Option<&Passage>,
    ) -> Result<Option<String>, FleetError> {
        let state = live.record().state;
        // Forks that begin with the files of a moment end with the power of the host, too.
        let lasts = if name.starts_with(MOMENT) { Lasts::UntilPowerIsLost } else { Lasts::AlsoThen };
        let failed = |error: paddock_storage::StorageError| FleetError::storage(&error);
        let (source, target) = (live.id.clone(), name.to_string());
        let fleet = self.clone();
        let copy = move || match fleet.0.storage.keeps_disks() {
            true => fleet.0.storage.freeze_copy(&source, &target).map_err(failed),
            false => archives::copy(&fleet.archive_of(&source), &fleet.snapshot_archive(&target), lasts)
                .map_err(|error| FleetError::storage(&error)),
        };
        match state {
            SandboxState::Hibernated => {
                let kept = tokio::task::spawn_blocking(copy).await;
                kept.map_err(|error| FleetError::internal(&error))??;
                self.copy_memory(&live.id, name)?;
                match self.is_listed_later(live) {
                    true => Ok(Some(baseline_named(name))),
                    false => self.copy_list(live, name, lasts),
                }
            }
            SandboxState::Running | SandboxState::Paused => {
                let inside = live.running().ok_or_else(|| {
                    FleetError::new(Kind::Unavailable, "guest_lost", "its guest does not answer")
                })?;
                let aboard = passage.map_or(0, |passage| passage.passengers.len());
                let frozen = match state {
                    SandboxState::Running => inside.hold_still(aboard).await?,
                    _ => false,
                };
                if let Some(passage) = passage.filter(|_| !frozen) {
                    passage.set_out();
                }
                let kept = async {
                    if !live.keeps_memory() && self.0.storage.keeps_disks() {
                        let copied = tokio::task::spawn_blocking(copy);
                        let listed = match self.is_listed_later(live) {
                            true => Ok(None),
                            // Nothing changes meanwhile, so the paths can be listed while the files are copied.
                            false => inside.disk().manifest().await.map(Some),
                        };
                        copied.await.map_err(|error| FleetError::internal(&error))??;
                        return Ok(listed.inspect_err(|_| self.drop_files(name))?);
                    }
                    let manifest = inside.disk().manifest().await?;
                    if live.keeps_memory() {
                        // The VM goes on with that, and no signal stops it any more.
                        self.keep_with_memory(live, &inside, name, copy).await?;
                    } else {
                        archives::export(&inside, &self.snapshot_archive(name), lasts).await?;
                    }
                    Ok::<_, FleetError>(Some(manifest))
                }
                .await;
                // A guest that was taken over anew was told already.
                if let Some(same) = live.running().filter(|now| Arc::ptr_eq(now, &inside))
                    && state == SandboxState::Running
                {
                    same.go_on(frozen).await?;
                }
                if let Some(passage) = passage.filter(|_| frozen && kept.is_ok()) {
                    passage.set_out();
                }
                match kept? {
                    Some(manifest) => self.keep_baseline(name, &manifest, lasts).map(Some),
                    None => Ok(Some(baseline_named(name))),
                }
            }
            SandboxState::Ended => Err(has_ended(&live.id)),
            state => Err(FleetError::new(
                Kind::Conflict,
                "wrong_state",
                format!("sandbox {} is {state:?}: there is nothing to keep", live.id),
            )),
        }
    }

    /// True if its kept files are listed only on demand, by the guest of a sandbox that began with them: they never
    /// change. The guest of a disk image does not have them.
    pub(super) fn is_listed_later(&self, live: &Live) -> bool {
        let in_an_image = live.record().guarantees.can(Capability::DiskImage);
        self.0.storage.keeps_disks() && !live.keeps_memory() && !in_an_image
    }

    /// The origin of a fork, from the files that `keep_files` kept; `copied`: a VM that goes on already, on a disk of
    /// its own.
    pub(super) async fn clone_files(
        &self,
        name: &str,
        record: &Record,
        baseline: Option<String>,
        copied: Option<Box<Copied>>,
    ) -> Result<Origin, FleetError> {
        if copied.is_some() {
            let (base, memory) = (name.into(), self.kept_memory(name));
            return Ok(Origin::Files { archive: None, baseline, base, memory, copied, crossing: None });
        }
        self.clone_kept(name, record, baseline, true).await
    }

    /// `goes_on`: with the memory too, if it was kept.
    async fn clone_kept(
        &self,
        name: &str,
        record: &Record,
        baseline: Option<String>,
        goes_on: bool,
    ) -> Result<Origin, FleetError> {
        if !self.0.storage.keeps_disks() {
            let archive = Some(self.snapshot_archive(name));
            let (base, memory, copied) = (name.into(), None, None);
            return Ok(Origin::Files { archive, baseline, base, memory, copied, crossing: None });
        }
        let (fleet, from, to) = (self.clone(), name.to_string(), record.id.to_string());
        let limit = record.spec.limits.disk;
        let cloned = tokio::task::spawn_blocking(move || fleet.0.storage.clone_disk(&from, &to, limit)).await;
        cloned.map_err(|error| FleetError::internal(&error))?.map_err(|error| FleetError::storage(&error))?;
        let memory = self.kept_memory(name).filter(|_| goes_on);
        let base = name.into();
        Ok(Origin::Files { archive: None, baseline, base, memory, copied: None, crossing: None })
    }

    pub(super) async fn clone_snapshot(
        &self,
        snapshot: &SnapshotRecord,
        record: &Record,
        live: Option<bool>,
    ) -> Result<Origin, FleetError> {
        // Memory fits only the fence that it was kept from: another fence lacks files that its processes hold open.
        let fits = snapshot.memory.as_ref().map(|kept| kept.fits(record));
        if live == Some(true) && fits == Some(false) {
            return Err(not_live(
                "the fence of the new sandbox is another than that of the one whose memory was kept",
            ));
        }
        let goes_on = fits == Some(true) && live != Some(false);
        self.clone_kept(&snapshot.id, record, snapshot.baseline.clone(), goes_on).await
    }

    /// A snapshot by id or name, of the actor's tenant.
    pub(super) fn snapshot_record(
        &self,
        actor: &Actor,
        snapshot: &str,
    ) -> Result<SnapshotRecord, FleetError> {
        let store = &self.0.store;
        let row = match store.snapshot(snapshot)? {
            Some(row) => Some(row),
            None => store.snapshot_named(&actor.tenant, snapshot)?,
        };
        let row = row.filter(|row| actor.owner || row.tenant == actor.tenant).ok_or_else(|| {
            let shown: String = snapshot.chars().take(80).collect();
            let message = format!("there is no snapshot `{}`", shown.escape_debug());
            FleetError::new(Kind::NotFound, "snapshot_not_found", message)
                .hint("`paddock snapshot ls` lists those there are")
        })?;
        serde_json::from_str(&row.body).map_err(|error| FleetError::internal(&error))
    }

    /// All snapshots. For an unreadable record, the name alone.
    pub(super) fn all_snapshots(&self) -> Result<Vec<(String, Option<SnapshotRecord>)>, FleetError> {
        let mut all = Vec::new();
        let mut cursor = None;
        loop {
            let page = self.0.store.list_snapshots(None, LARGEST_PAGE, cursor.as_deref())?;
            all.extend(page.rows.into_iter().map(|row| (row.id, serde_json::from_str(&row.body).ok())));
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(all);
            }
        }
    }

    fn snapshot_size(&self, name: &str) -> Option<u64> {
        match self.0.storage.keeps_disks() {
            true => self.0.storage.usage(name).ok(),
            false => std::fs::metadata(self.snapshot_archive(name)).ok().map(|found| found.len()),
        }
    }

    /// Removes kept files, unless there is a snapshot of that name, or a living sandbox that began with them.
    pub(super) fn let_go(&self, name: &str) {
        let _alone = self.0.letting_go.lock().unwrap_or_else(PoisonError::into_inner);
        let unnamed = self.0.store.snapshot(name).is_ok_and(|found| found.is_none());
        if unnamed && !self.0.live.is_base(name) {
            self.drop_files(name);
        }
    }

    /// Removes the files of a snapshot that was not finished.
    fn forget_files(&self, name: &str, baseline: Option<&str>) {
        self.drop_files(name);
        if let Some(baseline) = baseline {
            self.drop_baseline(baseline);
        }
    }

    pub(super) fn drop_files(&self, name: &str) {
        if let Err(error) = self.0.storage.delete(name) {
            tracing::warn!(name, %error, "kept files could not be removed");
        }
        let _ = std::fs::remove_file(self.snapshot_archive(name));
        self.drop_memory(name);
    }

    pub(super) fn snapshot_archive(&self, name: &str) -> PathBuf {
        self.0.options.state.join("snapshots").join(format!("{name}.tar"))
    }
}
