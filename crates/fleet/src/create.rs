//! The making of a sandbox: recorded before anything is made, acknowledged when its inside is built.

mod describe;

use super::clock::boot_id;
use super::idempotency::Note;
use super::live::Live;
use super::live_fork::Crossing;
use super::pools::{Member, name_by_demand};
use super::record::{Record, now_ms, now_ns};
use super::request;
use super::snapshots::SnapshotRecord;
use super::vm_fork::Copied;
use super::volumes::Wanted;
use super::{Actor, Fleet, FleetError, Kind, audit};
use describe::Described;
pub(super) use describe::{ImageName, times};
use paddock_backends::Purpose;
use paddock_engine::{Beginning, Request, Sandbox as Inside};
use paddock_model::api::{CreateSandbox, EndCause, Sandbox, SandboxState, StartExec};
use paddock_model::{Disk, SandboxId, Spec};
use paddock_records::access::{Need, Permit};
use paddock_records::store::SandboxRow;
use paddock_settings::templates::BUILT_IN;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The time that a create waits for the ready command of its template: clients wait for a minute.
const READY_PATIENCE: Duration = Duration::from_secs(45);

/// The origin of a new sandbox's files.
pub(super) enum Origin {
    Empty,
    /// A disk that was cloned for it already, or an archive to unpack into it; and the list of its paths.
    Files {
        archive: Option<PathBuf>,
        baseline: Option<String>,
        /// The name under which the files are kept.
        base: String,
        /// The memory that ran over those files, to go on from.
        memory: Option<PathBuf>,
        /// The VM that goes on from it already.
        copied: Option<Box<Copied>>,
        /// The interpreters that go along.
        crossing: Option<Crossing>,
    },
}

impl Origin {
    /// The same origin with interpreters.
    pub fn with(mut self, from: Option<Crossing>) -> Origin {
        if let Origin::Files { crossing, .. } = &mut self {
            *crossing = from;
        }
        self
    }
}

impl Fleet {
    pub async fn create(
        &self,
        actor: &Actor,
        request: CreateSandbox,
        key: Option<&str>,
    ) -> Result<Sandbox, FleetError> {
        self.create_labelled(actor, request, BTreeMap::new(), key).await
    }

    /// As `create`, with metadata of the server's own, which the caller cannot give or change.
    pub async fn create_labelled(
        &self,
        actor: &Actor,
        request: CreateSandbox,
        labels: BTreeMap<String, String>,
        key: Option<&str>,
    ) -> Result<Sandbox, FleetError> {
        let (actor, key) = (actor.clone(), key.map(str::to_string));
        // Dropped with this call: a caller that has gone away does not wait for room.
        let (_caller, caller_gone) = tokio::sync::oneshot::channel();
        self.detached(async move |fleet: Fleet| {
            let told = fleet.without_values(&request);
            fleet
                .once(&actor, "create", key.as_deref(), &told, async |fleet: &Fleet, note: Note<'_>| {
                    fleet.create_now(&actor, &request, labels, note, caller_gone).await
                })
                .await
        })
        .await
    }

    /// As `create`, for a caller that does not drop this call and ends what comes of it: waits for room only until the other end of
    /// `caller_gone` is dropped.
    pub async fn create_until(
        &self,
        actor: &Actor,
        request: CreateSandbox,
        caller_gone: tokio::sync::oneshot::Receiver<()>,
    ) -> Result<Sandbox, FleetError> {
        self.create_now(actor, &request, BTreeMap::new(), Note::none(), caller_gone).await
    }

    /// Goes on when the caller goes away: work that was begun is finished.
    pub(super) async fn detached<T: Send + 'static, F>(
        &self,
        action: impl FnOnce(Fleet) -> F,
    ) -> Result<T, FleetError>
    where
        F: Future<Output = Result<T, FleetError>> + Send + 'static,
    {
        match tokio::spawn(action(self.clone())).await {
            Ok(result) => result,
            Err(error) => Err(FleetError::internal(&error)),
        }
    }

    async fn create_now(
        &self,
        actor: &Actor,
        request: &CreateSandbox,
        labels: BTreeMap<String, String>,
        note: Note<'_>,
        caller_gone: tokio::sync::oneshot::Receiver<()>,
    ) -> Result<Sandbox, FleetError> {
        self.ready()?;
        self.unless_cordoned()?;
        FleetError::unless_descriptors_are_left()?;
        let Described { mut record, with_values, snapshot, volumes, secrets, preload, first } =
            self.described(actor, request, labels).await?;
        let permit = tokio::select! {
            permit = self.admit(&record) => permit?,
            _ = caller_gone => {
                let message = "the caller went away before there was room";
                return Err(FleetError::new(Kind::Unavailable, "unavailable", message));
            }
        };
        let member = match snapshot.is_none() && volumes.is_empty() {
            true => self.ready_member(&mut record, &preload, &with_values, secrets.is_none()).await,
            false => None,
        };
        let live = if let Some(member) = member {
            record.id = member.id().clone();
            self.seal_secrets(&mut record, secrets.as_ref())?;
            // If a step fails from here on, the member is taken down.
            note.write(&record.id)?;
            let live = self.give(record, member, permit)?;
            self.equip_ready(&live).await?;
            live
        } else {
            self.seal_secrets(&mut record, secrets.as_ref())?;
            note.write(&record.id)?;
            self.make(
                actor,
                record,
                snapshot.as_ref().map(|snapshot| (snapshot, request.live)),
                &volumes,
                permit,
            )
            .await?
        };
        self.created(actor, request, live, first).await
    }

    /// One that is ready, or that begins with the memory of another. `by_demand`: it may be one of those that were made because
    /// such sandboxes were asked for before.
    async fn ready_member(
        &self,
        record: &mut Record,
        preload: &[String],
        with_values: &CreateSandbox,
        by_demand: bool,
    ) -> Option<Member> {
        if let Some(member) = self.ready_made(record, preload).await {
            record.pool = Some(record.template.clone().unwrap_or_else(|| BUILT_IN.into()));
            return Some(member);
        }
        if let Some(member) = self.born_baked(record, preload).await {
            return Some(member);
        }
        if let Some(member) = self.copied(record, preload).await {
            return Some(member);
        }
        let member = if by_demand { self.made_by_demand(record, preload, with_values) } else { None };
        if member.is_some() {
            record.pool = Some(name_by_demand(record.template.as_deref().unwrap_or(BUILT_IN)));
        }
        member
    }

    /// A new one with the files of the snapshot, and its interpreters where they are wanted.
    async fn make(
        &self,
        actor: &Actor,
        mut record: Record,
        snapshot: Option<(&SnapshotRecord, Option<bool>)>,
        volumes: &[Wanted],
        permit: Permit,
    ) -> Result<Arc<Live>, FleetError> {
        let origin = match snapshot {
            Some((snapshot, live)) => self.clone_snapshot(snapshot, &record, live).await?,
            None => Origin::Empty,
        };
        let mounted = self.mount_volumes(actor, volumes, &mut record).await;
        mounted.inspect_err(|_| self.free_disk(record.id.as_str()))?;
        let aboard = match snapshot {
            Some((snapshot, live)) => {
                let boarded = self.board_snapshot_holder(actor, snapshot, &mut record, live).await;
                match boarded.inspect_err(|_| self.free_disk(record.id.as_str())) {
                    Ok(aboard) => aboard,
                    Err(error) => {
                        self.release_volumes(&record).await;
                        return Err(error);
                    }
                }
            }
            None => None,
        };
        let (passage, _stays) = aboard.unzip();
        let crossing = passage.map(|passage| {
            passage.set_out();
            self.begin_crossing(&passage, &record)
        });
        self.bring_up(record, origin.with(crossing), permit).await
    }

    async fn created(
        &self,
        actor: &Actor,
        request: &CreateSandbox,
        live: Arc<Live>,
        (command, ready): (Vec<String>, Option<String>),
    ) -> Result<Sandbox, FleetError> {
        audit::call(
            &self.0,
            actor,
            &live,
            "created",
            serde_json::json!({ "request": request::without_secrets(request) }),
        );
        if !command.is_empty()
            && let Err(error) = self.begin_work(actor, &live, command, ready).await
        {
            // The caller is told that there is none, and may ask another server: nothing may be left here.
            let ended = self.end_failed(actor, &live.id, &error.message).await;
            ended.map_err(|failed| FleetError::internal(&failed))?;
            return Err(error);
        }
        Ok(live.to_api())
    }

    /// Starts the command of its template, and waits until it is ready where the template says how to tell.
    async fn begin_work(
        &self,
        actor: &Actor,
        live: &Live,
        command: Vec<String>,
        ready: Option<String>,
    ) -> Result<(), FleetError> {
        let start = StartExec { argv: Some(command), background: true, ..StartExec::default() };
        self.start_exec(actor, &live.id, start, None).await?;
        match ready {
            Some(ready) => self.wait_until_ready(actor, live, ready).await,
            None => Ok(()),
        }
    }

    /// Waits for the ready command of its template.
    async fn wait_until_ready(&self, actor: &Actor, live: &Live, ready: String) -> Result<(), FleetError> {
        let script = r#"until /bin/sh -c "$1" > /dev/null 2>&1; do sleep 0.1 || sleep 1; done"#;
        let argv = ["/bin/sh", "-c", script, "sh", &ready].map(String::from).into();
        let timeout_seconds = Some(READY_PATIENCE.as_secs_f64());
        let start = StartExec { argv: Some(argv), timeout_seconds, background: true, ..StartExec::default() };
        let exec = self.start_exec(actor, &live.id, start, None).await?;
        let ended = self.wait_exec(actor, &live.id, exec.exec, None).await?;
        if ended.exit_code == Some(0) {
            return Ok(());
        }
        let seconds = READY_PATIENCE.as_secs();
        let message = format!("the start command of its template was not ready within {seconds} s");
        Err(FleetError::new(Kind::Unavailable, "not_ready", message)
            .hint("try the start and the ready command of the template in a sandbox"))
    }

    pub(super) async fn admit(&self, record: &Record) -> Result<Permit, FleetError> {
        self.unless_short_of_memory()?;
        let quota = self.quota_of(&record.tenant)?;
        Ok(self.0.admission.acquire(&record.tenant, need(record), &quota).await?)
    }

    /// Takes room that is free at once, or none.
    pub(super) fn admit_now(&self, record: &Record) -> Result<Permit, FleetError> {
        self.unless_short_of_memory()?;
        let quota = self.quota_of(&record.tenant)?;
        Ok(self.0.admission.acquire_now(&record.tenant, need(record), &quota)?)
    }

    /// From a description to a running sandbox. If a step fails, only the record of the failure is left.
    pub(super) async fn bring_up(
        &self,
        mut record: Record,
        origin: Origin,
        permit: Permit,
    ) -> Result<Arc<Live>, FleetError> {
        let inner = &self.0;
        let id = record.id.to_string();
        let (archive, baseline, base, memory, copied, crossing) = match origin {
            Origin::Empty => (None, None, None, None, None, None),
            Origin::Files { archive, baseline, base, memory, copied, crossing } => {
                (archive, baseline, Some(base), memory, copied, crossing)
            }
        };
        (record.baseline, record.base) = (baseline, base);
        let left = |at: u64| Duration::from_millis(at.saturating_sub(now_ms()));
        record.set_time_to_live(record.expires_at_ms.map(left));
        let body = serde_json::to_string(&record).map_err(|error| FleetError::internal(&error))?;
        let inserted = inner.store.insert_sandbox(&SandboxRow {
            id: id.clone(),
            tenant: record.tenant.clone(),
            name: record.name.clone(),
            state: SandboxState::Creating,
            created_ms: record.created_at_ms,
            ended_ms: None,
            body,
        });
        if let Err(error) = inserted {
            // A disk may have been cloned for it.
            self.free_disk(&id);
            self.release_volumes(&record).await;
            return Err(error.into());
        }
        let execs = memory.as_deref().map_or_else(
            || Ok(Vec::new()),
            |memory| self.take_commands(memory, &id).and_then(|()| self.stored_execs(&record)),
        );
        let execs = execs.inspect_err(|_| {
            self.free_disk(&id);
            let _ = inner.store.delete_sandbox(&id);
        })?;
        let directory = inner.options.state.join("sandboxes").join(&id);
        let live = Live::new(
            record,
            directory,
            execs.into_iter().map(|tracked| (tracked.number(), tracked)).collect(),
        );
        *live.permit.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(permit);
        let guard = live.transition.lock().await;
        inner.add(live.clone());
        let raised = match memory {
            Some(memory) => self.raise_from_memory(&live, &memory, copied).await,
            None => self.raise_with(&live, archive, crossing).await,
        };
        drop(guard);
        match raised {
            Ok(()) => {
                inner.counters.count_create(true);
                inner.tell(&live, "created", None);
                Ok(live)
            }
            Err(error) => {
                inner.counters.count_create(false);
                let cause = EndCause::CreateFailed { detail: error.message.clone() };
                self.settle_volumes(&live, &cause).await;
                self.record_end(&live, cause, Default::default());
                Err(error)
            }
        }
    }

    /// Puts a fence around the sandbox's disk and records it as running.
    ///
    /// Precondition: the sandbox's transition is locked.
    pub(super) async fn raise(&self, live: &Arc<Live>, archive: Option<PathBuf>) -> Result<(), FleetError> {
        self.raise_with(live, archive, None).await
    }

    /// The same, with the interpreters of another sandbox.
    async fn raise_with(
        &self,
        live: &Arc<Live>,
        archive: Option<PathBuf>,
        crossing: Option<Crossing>,
    ) -> Result<(), FleetError> {
        let inner = &self.0;
        let (id, backend, mut spec, base, slept) = {
            let record = live.record();
            let slept = record.state == SandboxState::Hibernated;
            (record.id.clone(), record.backend.clone(), record.spec.clone(), record.base.clone(), slept)
        };
        self.check_certificates(live).await?;
        let began_ns = now_ns();
        let departed = match crossing {
            Some(crossing) => Some(crossing.departed().await?),
            None => None,
        };
        let crossed = departed.is_some();
        let (under_way, half) = departed.map(|departed| (departed.under_way, departed.fence)).unzip();
        let (fleet, raised_id) = (self.clone(), id.clone());
        let raised = tokio::task::spawn_blocking(move || -> Result<_, FleetError> {
            fleet.give_disk(&raised_id, &mut spec, base.as_deref(), slept)?;
            let engine = &fleet.0.engine;
            let beginning = half.map_or(Beginning::Fresh(Purpose::Lasting), Beginning::LiveFork);
            Ok((engine.begin(Request::new(&raised_id, backend.as_deref(), &spec, beginning))?, spec))
        });
        let (raised, spec) = raised.await.map_err(|error| FleetError::internal(&error))??;
        live.record().spec = spec;
        let mut inside = Inside::start(id, raised)?;
        inside.ready().await?;
        let mut ready_at_ns = inside.ready_at();
        if let Some(archive) = archive {
            ready_at_ns = super::archives::import(&inside, &archive).await?;
        }
        if let Some(installed_at) = self.install_certificates(live, &inside).await? {
            ready_at_ns = ready_at_ns.max(installed_at);
        }
        self.open_gate(live, &inside).await?;
        let arrived = match under_way {
            Some(under_way) => self.land(&inside, live, under_way).await?,
            None => Vec::new(),
        };
        let before = live.record().state;
        let record = {
            let mut record = live.record();
            record.state = SandboxState::Running;
            record.intent = None;
            record.paused_when_idle = false;
            record.boot = boot_id().into();
            record.guarantees = inside.guarantees.clone();
            record.ready_at_ns = i64::try_from(ready_at_ns).unwrap_or(i64::MAX);
            let built = (began_ns, record.ready_at_ns);
            record.built_ns.push(built);
            record.clone()
        };
        inside.set_deadline(record.guest_deadline());
        let saved = match crossed {
            // The sandbox may end in a moment, and its caller waits.
            true => inner
                .save_for_a_moment(&record)
                .map(|body| inner.audit_writer.copy_in_a_moment(&record, body)),
            false => inner.save(&record),
        };
        if let Err(error) = saved {
            live.record().state = before;
            return Err(error);
        }
        let inside = Arc::new(inside);
        live.set_running(Some(inside.clone()));
        live.touch();
        for newcomer in arrived {
            self.go_on_with(live, newcomer).await?;
        }
        super::reaper::watch_over(self, live, inside);
        Ok(())
    }

    /// `base`: the files that it began with. `slept`: its disk must exist.
    pub(super) fn give_disk(
        &self,
        id: &SandboxId,
        spec: &mut Spec,
        base: Option<&str>,
        slept: bool,
    ) -> Result<(), FleetError> {
        let storage = &self.0.storage;
        let failed = |error: paddock_storage::StorageError| FleetError::storage(&error);
        let disk = match storage.disk(id.as_str()) {
            // The disk was cloned for it, or kept while it slept.
            Ok(existing) => Some(existing),
            Err(error) if slept && self.0.storage.keeps_disks() => return Err(failed(error)),
            Err(_) => storage.new_disk(id.as_str(), spec.limits.disk).map_err(failed)?,
        };
        // A sandbox works without the start as well; only its earlier state cannot be told then.
        let start = base.and_then(|base| storage.disk(base).ok());
        spec.disk = disk.map_or(Disk::Memory, |path| Disk::Directory { path, start });
        Ok(())
    }
}

fn need(record: &Record) -> Need {
    let limits = &record.spec.limits;
    Need { cpus: limits.cpus, memory_bytes: limits.memory, create: true }
}
