//! Snapshots and forks: the files of a sandbox at one moment, kept, and begun with again.

use super::carry::{Boarding, Crossing, Passage, left_behind, not_live};
use super::changes::baseline_named;
use super::create::Origin;
use super::live::Live;
use super::memory::KeptFrom;
use super::once::Note;
use super::record::{Record, now_ms};
use super::request::{OWN_KEYS, check_metadata, check_name, invalid, seconds};
use super::stand_in::Keeps;
use super::{Actor, Fleet, FleetError, Kind, audit, copies};
use crate::access::Permit;
use crate::sandbox::Sandbox as Inside;
use crate::store::SnapshotRow;
use paddock_model::api::{CreateSnapshot, Fork, Forked, ForkedContext, SandboxState, Snapshot, SnapshotPage};
use paddock_model::{Boundary, ForkKind, SandboxId, ScanRules};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const MOST_FORKS: u32 = 100;
const LARGEST_PAGE: usize = 1000;
/// So many forks are begun while the files are still being kept; more would only keep the source standing for longer.
const BEGUN_EARLY: usize = 2;
/// What goes in at once.
const PIECE: usize = 128 * 1024;

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
    /// What its sandbox's code was looked through for; a sandbox made from it is not looked at less.
    #[serde(default)]
    pub scan: ScanRules,
    /// What was there, for whoever asks later what was deleted.
    pub baseline: Option<String>,
    /// What its memory was kept from, where it was.
    #[serde(default)]
    pub memory: Option<KeptFrom>,
    /// The sandbox in which its interpreters wait, where they were kept.
    #[serde(default)]
    pub stand_in: Option<SandboxId>,
}

/// A fork that is to be.
pub struct Child {
    pub record: Record,
    pub permit: Permit,
    /// Where it was begun already.
    pub crossing: Option<Crossing>,
}

impl Fleet {
    fn show_snapshot(&self, record: &SnapshotRecord) -> Snapshot {
        let kind = match self.stand_in_of(record) {
            _ if record.memory.is_some() => "memory",
            Some(_) => "interpreter",
            None => "filesystem",
        };
        record.to_api(kind)
    }
}

impl SnapshotRecord {
    fn to_api(&self, kind: &str) -> Snapshot {
        Snapshot {
            id: self.id.clone(),
            name: self.name.clone(),
            tenant: self.tenant.clone(),
            sandbox: self.sandbox.clone(),
            created_at_ms: self.created_at_ms,
            kind: kind.into(),
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
        let keeps = if request.live { Keeps::Interpreters } else { Keeps::Files };
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
        let snapshot = format!("sn-{:016x}", crate::engine::random()?);
        let actor = actor.clone();
        self.detached(async move |fleet: Fleet| {
            let passage = fleet.board_for_snapshot(&actor, &live, keeps).await?;
            let baseline = {
                let _guard = live.transition.lock().await;
                fleet.keep_files(&live, &snapshot).await?
            };
            let stand_in = passage.as_ref().map(|_| fleet.stand_in_for(&live, &snapshot)).transpose()?;
            let (image, image_of_tenant, tenant, scan) = {
                let record = live.record();
                let scan = record.spec.scan.clone();
                (record.image.clone(), record.image_of_tenant, record.tenant.clone(), scan)
            };
            let record = SnapshotRecord {
                memory: fleet.kept_memory(&snapshot).map(|_| KeptFrom::of(&live)),
                size_bytes: fleet.snapshot_size(&snapshot),
                id: snapshot.clone(),
                name: name.clone(),
                tenant: tenant.clone(),
                sandbox: live.id.clone(),
                created_at_ms: now_ms(),
                image,
                image_of_tenant,
                scan,
                baseline,
                stand_in: stand_in.as_ref().map(|stand_in| stand_in.id.clone()),
            };
            let body = serde_json::to_string(&record).map_err(|error| FleetError::internal(&error))?;
            let row = SnapshotRow { id: snapshot, tenant, name, created_ms: record.created_at_ms, body };
            if let Err(error) = fleet.0.store.insert_snapshot(&row) {
                fleet.forget_files(&row.id, record.baseline.as_deref());
                return Err(error.into());
            }
            // From here on its files are not let go of by whoever began with them, and ended.
            if let Some((passage, stand_in)) = passage.zip(stand_in)
                && let Err(error) = fleet.raise_stand_in(&live, &record, stand_in, passage).await
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
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<SnapshotPage, FleetError> {
        let tenant = (!actor.owner).then_some(actor.tenant.as_str());
        let limit = if limit == 0 { 100 } else { limit.min(LARGEST_PAGE) };
        let page = self.0.store.list_snapshots(tenant, limit, cursor)?;
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
        let ended = self.end_stand_in(&record).await;
        copies::remove_snapshot(&self.0.options.state, &record.id);
        let (fleet, id) = (self.clone(), record.id.clone());
        let _ = tokio::task::spawn_blocking(move || fleet.let_go(&id)).await;
        if let Some(baseline) = &record.baseline {
            self.drop_baseline(baseline);
        }
        ended.map(|()| shown)
    }

    /// Children that begin with what the source has at this moment. The source goes on, its streams stay up.
    pub async fn fork(
        &self,
        actor: &Actor,
        id: &str,
        request: Fork,
        key: Option<&str>,
    ) -> Result<Forked, FleetError> {
        let count = request.count.unwrap_or(1);
        if !(1..=MOST_FORKS).contains(&count) {
            return Err(invalid(format!("{count} forks are not possible")).hint(format!("1 to {MOST_FORKS}")));
        }
        check_metadata(&request.metadata)?;
        let ttl = request.ttl_seconds.map(|value| seconds("ttl_seconds", value)).transpose()?;
        let live = self.find(actor, id)?;
        let (actor, key) = (actor.clone(), key.map(str::to_string));
        self.detached(async move |fleet: Fleet| {
            let scope = format!("fork {}", live.id);
            fleet
                .once(&actor, &scope, key.as_deref(), &request, async |fleet: &Fleet, note: Note<'_>| {
                    let expires = ttl.map(|ttl| now_ms() + ttl.as_millis() as u64);
                    fleet.fork_now(&actor, &live, &request, (count, expires), note).await
                })
                .await
        })
        .await
    }

    async fn fork_now(
        &self,
        actor: &Actor,
        live: &Arc<Live>,
        request: &Fork,
        (count, expires): (u32, Option<u64>),
        note: Note<'_>,
    ) -> Result<Forked, FleetError> {
        // Memory goes along with everything, where it does.
        let boarding = match request.live {
            Some(false) => Boarding::Nobody("only files were asked for".into()),
            _ if live.keeps_memory() => Boarding::Nobody("its memory goes along as a whole".into()),
            wanted => self.board(actor, live, wanted == Some(true)).await?,
        };
        let (passage, others, reason) = match boarding {
            Boarding::Ready(passage, others) => (Some(Arc::new(passage)), others, None),
            Boarding::Nobody(why) if request.live == Some(true) && !live.keeps_memory() => {
                return Err(not_live(&why));
            }
            Boarding::Nobody(why) => (None, Vec::new(), Some(why)),
        };
        let left_behind = if live.keeps_memory() { Vec::new() } else { left_behind(live) };
        let mut children = Vec::new();
        for _ in 0..count {
            let mut child = self.child_of(live, request, expires)?;
            if passage.is_some() {
                child.nest_in(&live.record());
            }
            self.inherit_secrets(live, &mut child, request.secrets)?;
            child.leave_volumes();
            children.push(child);
        }
        note.write(&children.iter().map(|child| &child.id).collect::<Vec<_>>())?;
        // All or none: the room for all of them is taken first.
        let mut admitted = Vec::new();
        for record in children {
            let permit = self.admit(&record).await?;
            admitted.push(Child { record, permit, crossing: None });
        }
        let moment = format!("fk-{:016x}", crate::engine::random()?);
        let made = self.fork_at(&moment, live, admitted, passage.clone()).await;
        self.drop_memory(&moment);
        let fleet = self.clone();
        // Those who were made from it are compared with it for as long as they live. Nobody waits for it to be seen.
        let let_go = tokio::task::spawn_blocking(move || fleet.let_go(&moment));
        if made.is_err() {
            let _ = let_go.await;
        }
        let children = made?;
        let ids: Vec<&str> = children.iter().map(|child| child.id.as_str()).collect();
        audit::call(&self.0, actor, live, "fork", serde_json::json!({ "children": ids }));
        self.0.tell(live, "forked", Some(ids.join(" ")));
        let mut contexts = passage.as_ref().map_or_else(Vec::new, |passage| passage.fates(&ids));
        for (context, why) in others {
            contexts.extend(ids.iter().map(|child| ForkedContext {
                sandbox: child.to_string(),
                context: context.clone(),
                carried: false,
                reason: Some(why.clone()),
                stood_still_us: None,
                closed: Vec::new(),
            }));
        }
        let kind = match passage {
            _ if live.keeps_memory() => ForkKind::Memory,
            Some(_) if contexts.iter().any(|context| context.carried) => ForkKind::Interpreter,
            _ => ForkKind::Filesystem,
        };
        let reason = reason.filter(|_| kind == ForkKind::Filesystem && request.live != Some(false));
        let sandboxes = children.iter().map(|child| child.to_api()).collect();
        Ok(Forked { sandboxes, kind, reason, contexts, left_behind })
    }

    /// Keeps the files of the source under the name of the moment, and makes all of them from that, or none.
    async fn fork_at(
        &self,
        moment: &str,
        live: &Arc<Live>,
        mut children: Vec<Child>,
        passage: Option<Arc<Passage>>,
    ) -> Result<Vec<Arc<Live>>, FleetError> {
        let guard = live.transition.lock().await;
        if let Some(passage) = &passage {
            for child in children.iter_mut().take(BEGUN_EARLY) {
                child.crossing = Some(self.begin_crossing(passage, &child.record));
            }
        }
        let baseline = match self.keep_files(live, moment).await {
            Ok(baseline) => baseline,
            Err(error) => {
                for crossing in children.into_iter().filter_map(|child| child.crossing) {
                    crossing.call_off().await;
                }
                return Err(error);
            }
        };
        // Until they are there, nobody ends what they nest in.
        let _guard = Some(guard).filter(|_| passage.is_some());
        self.raise_children(moment, baseline, children, passage).await
    }

    pub(super) async fn raise_children(
        &self,
        moment: &str,
        baseline: Option<String>,
        children: Vec<Child>,
        passage: Option<Arc<Passage>>,
    ) -> Result<Vec<Arc<Live>>, FleetError> {
        let mut tasks = tokio::task::JoinSet::new();
        for (place, Child { record, permit, crossing }) in children.into_iter().enumerate() {
            let (fleet, moment, baseline) = (self.clone(), moment.to_string(), baseline.clone());
            let passage = passage.clone();
            tasks.spawn(async move {
                let begin = || passage.map(|passage| fleet.begin_crossing(&passage, &record));
                let crossing = crossing.or_else(begin);
                let origin = fleet.clone_files(&moment, &record, baseline, true).await?.with(crossing);
                Ok::<_, FleetError>((place, fleet.bring_up(record, origin, permit).await?))
            });
        }
        let mut made = Vec::new();
        let mut failure = None;
        while let Some(task) = tasks.join_next().await {
            match task.map_err(|error| FleetError::internal(&error)).and_then(|result| result) {
                Ok(child) => made.push(child),
                Err(error) => failure = Some(error),
            }
        }
        made.sort_by_key(|(place, _)| *place);
        let made: Vec<_> = made.into_iter().map(|(_, child)| child).collect();
        let Some(error) = failure else { return Ok(made) };
        for child in made {
            self.end(&child, paddock_model::api::EndCause::Killed).await?;
        }
        Err(error)
    }

    pub(super) fn child_of(
        &self,
        live: &Live,
        request: &Fork,
        expires: Option<u64>,
    ) -> Result<Record, FleetError> {
        let source = live.record().clone();
        let mut metadata = source.metadata.clone();
        // What the server does with the source it does not do with its forks.
        metadata.retain(|key, _| !key.starts_with(OWN_KEYS));
        metadata.extend(request.metadata.clone());
        let lifetime = source.expires_at_ms.map(|at| at.saturating_sub(source.created_at_ms));
        Ok(Record {
            id: crate::engine::new_id()?,
            name: None,
            state: SandboxState::Creating,
            parent: Some(source.id.to_string()),
            created_at_ms: now_ms(),
            expires_at_ms: expires.or(lifetime.map(|lifetime| now_ms() + lifetime)),
            metadata,
            moved: (0, 0),
            within: None,
            around: Vec::new(),
            stands_for: None,
            built_ns: Vec::new(),
            paused_when_idle: false,
            intent: None,
            end: None,
            ..source
        })
    }

    /// Freezes the sandbox for a moment, keeps its files under `name`, and says where the list of them is.
    ///
    /// Precondition: the sandbox's transition is locked.
    async fn keep_files(&self, live: &Arc<Live>, name: &str) -> Result<Option<String>, FleetError> {
        let state = live.record().state;
        let failed = |error: crate::storage::StorageError| FleetError::storage(&error);
        let (source, target) = (live.id.clone(), name.to_string());
        let fleet = self.clone();
        let copy = move || match fleet.0.storage.keeps_disks() {
            true => fleet.0.storage.freeze_copy(&source, &target).map_err(failed),
            false => copy_archive(&fleet.archive_of(&source), &fleet.snapshot_archive(&target))
                .map_err(|error| FleetError::storage(&error)),
        };
        match state {
            SandboxState::Hibernated => {
                let kept = tokio::task::spawn_blocking(copy).await;
                kept.map_err(|error| FleetError::internal(&error))??;
                self.copy_memory(&live.id, name)?;
                match self.is_listed_later(live) {
                    true => Ok(Some(baseline_named(name))),
                    false => Ok(live.record().baseline.clone()),
                }
            }
            SandboxState::Running | SandboxState::Paused => {
                let inside = live.running().ok_or_else(|| {
                    FleetError::new(Kind::Unavailable, "guest_lost", "its guest does not answer")
                })?;
                if state == SandboxState::Running {
                    inside.freeze(true).await?;
                }
                let kept = async {
                    if !live.keeps_memory() && self.0.storage.keeps_disks() {
                        let copied = tokio::task::spawn_blocking(copy);
                        let listed = match self.is_listed_later(live) {
                            true => Ok(None),
                            // Nothing changes meanwhile: so what there is can be listed while it is copied.
                            false => inside.disk().manifest().await.map(Some),
                        };
                        copied.await.map_err(|error| FleetError::internal(&error))??;
                        return Ok(listed.inspect_err(|_| self.drop_files(name))?);
                    }
                    let manifest = inside.disk().manifest().await?;
                    if live.keeps_memory() {
                        // It goes on with that, and is stopped by no signal any more.
                        self.keep_with_memory(live, &inside, name, copy).await?;
                    } else {
                        export(&inside, &self.snapshot_archive(name)).await?;
                    }
                    Ok::<_, FleetError>(Some(manifest))
                }
                .await;
                // Who was taken over anew was told already.
                if let Some(same) = live.running().filter(|now| Arc::ptr_eq(now, &inside))
                    && state == SandboxState::Running
                {
                    same.freeze(false).await?;
                }
                match kept? {
                    Some(manifest) => self.keep_baseline(name, &manifest).map(Some),
                    None => Ok(Some(baseline_named(name))),
                }
            }
            state => Err(FleetError::new(
                Kind::Conflict,
                "wrong_state",
                format!("sandbox {} is {state:?}: there is nothing to keep", live.id),
            )),
        }
    }

    /// Whether what is kept of its files is listed only when somebody asks, by the guest of one that began with them: nobody
    /// changes them any more. In a machine of its own no guest has them.
    fn is_listed_later(&self, live: &Live) -> bool {
        let in_a_machine = live.record().guarantees.boundary == Boundary::OwnKernel;
        self.0.storage.keeps_disks() && !live.keeps_memory() && !in_a_machine
    }

    /// What a new sandbox begins with, from what `keep_files` kept. `goes_on`: in memory too, where it was kept.
    async fn clone_files(
        &self,
        name: &str,
        record: &Record,
        baseline: Option<String>,
        goes_on: bool,
    ) -> Result<Origin, FleetError> {
        if !self.0.storage.keeps_disks() {
            let archive = Some(self.snapshot_archive(name));
            return Ok(Origin::Files { archive, baseline, base: name.into(), memory: None, crossing: None });
        }
        let (fleet, from, to) = (self.clone(), name.to_string(), record.id.to_string());
        let limit = record.spec.limits.disk;
        let cloned = tokio::task::spawn_blocking(move || fleet.0.storage.clone_disk(&from, &to, limit)).await;
        cloned.map_err(|error| FleetError::internal(&error))?.map_err(|error| FleetError::storage(&error))?;
        let memory = self.kept_memory(name).filter(|_| goes_on);
        Ok(Origin::Files { archive: None, baseline, base: name.into(), memory, crossing: None })
    }

    pub(super) async fn clone_snapshot(
        &self,
        snapshot: &SnapshotRecord,
        record: &Record,
    ) -> Result<Origin, FleetError> {
        // Memory fits what it was kept from: another fence would not have what runs in it holds open.
        let goes_on = snapshot.memory.as_ref().is_some_and(|kept| kept.fits(record));
        self.clone_files(&snapshot.id, record, snapshot.baseline.clone(), goes_on).await
    }

    /// By id or name, of the actor's tenant.
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

    pub(super) fn snapshot_disks(&self) -> Result<BTreeSet<String>, FleetError> {
        let mut names = BTreeSet::new();
        let mut cursor = None;
        loop {
            let page = self.0.store.list_snapshots(None, LARGEST_PAGE, cursor.as_deref())?;
            names.extend(page.rows.into_iter().map(|row| row.id));
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(names);
            }
        }
    }

    fn snapshot_size(&self, name: &str) -> Option<u64> {
        match self.0.storage.keeps_disks() {
            true => self.0.storage.usage(name).ok(),
            false => std::fs::metadata(self.snapshot_archive(name)).ok().map(|found| found.len()),
        }
    }

    /// Removes kept files, unless there is a snapshot of that name, or a sandbox lives that began with them.
    pub(super) fn let_go(&self, name: &str) {
        let _alone = self.0.letting_go.lock().unwrap_or_else(PoisonError::into_inner);
        let began = |live: &Arc<Live>| live.record().base.as_deref() == Some(name);
        let named = self.0.store.snapshot(name).is_ok_and(|found| found.is_none());
        if named && !self.0.all().iter().any(began) {
            self.drop_files(name);
        }
    }

    /// Of a snapshot that did not come to be.
    fn forget_files(&self, name: &str, baseline: Option<&str>) {
        self.drop_files(name);
        if let Some(baseline) = baseline {
            self.drop_baseline(baseline);
        }
    }

    fn drop_files(&self, name: &str) {
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

/// Of a sandbox that sleeps.
fn copy_archive(from: &Path, to: &Path) -> std::io::Result<()> {
    if let Some(directory) = to.parent() {
        std::fs::create_dir_all(directory)?;
    }
    std::fs::copy(from, to).map(drop)
}

/// All of the sandbox's own disk into a file of the host, which appears whole or not at all.
pub(super) async fn export(inside: &Inside, archive: &Path) -> Result<(), FleetError> {
    let failed = |error: std::io::Error| FleetError::storage(&error);
    let mut stream = inside.disk().export().await?;
    if let Some(directory) = archive.parent() {
        tokio::fs::create_dir_all(directory).await.map_err(failed)?;
    }
    let new = archive.with_extension("new");
    let mut file = tokio::fs::File::create(&new).await.map_err(failed)?;
    while let Some(bytes) = stream.next().await? {
        file.write_all(&bytes).await.map_err(failed)?;
    }
    file.flush().await.map_err(failed)?;
    tokio::fs::rename(&new, archive).await.map_err(failed)
}

/// What `export` wrote, into a sandbox in which nothing has run yet. The moment from which changes are its own.
pub(super) async fn import(inside: &Inside, archive: &Path) -> Result<u64, FleetError> {
    let failed = |error: std::io::Error| FleetError::storage(&error);
    let mut file = tokio::fs::File::open(archive).await.map_err(failed)?;
    let mut upload = inside.disk().import()?;
    let mut buffer = vec![0; PIECE];
    loop {
        let count = file.read(&mut buffer).await.map_err(failed)?;
        if count == 0 {
            return Ok(upload.finish().await?);
        }
        upload.write(&buffer[..count]).await?;
    }
}
