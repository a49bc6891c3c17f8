//! The making of a sandbox: recorded before anything is made, acknowledged when its inside is built.

use super::clock::boot_id;
use super::live::Live;
use super::live_fork::Crossing;
use super::once::Note;
use super::pools::name_by_demand;
use super::record::{Record, now_ms, now_ns};
use super::request::{self, invalid, seconds};
use super::secrets::read_host_certificates;
use super::vm_fork::Copied;
use super::volumes::Wanted;
use super::{Actor, Fleet, FleetError, Kind, audit};
use paddock_engine::secrets::SandboxSecrets;
use paddock_engine::{EngineError, Sandbox as Inside, certificates};
use paddock_images::RegistryReach;
use paddock_model::api::{CreateSandbox, EndCause, Role, Sandbox, SandboxState, StartExec};
use paddock_model::{Disk, Root, SandboxId, SecretLayer, Spec};
use paddock_records::access::{Need, Permit};
use paddock_records::store::SandboxRow;
use paddock_settings::templates::BUILT_IN;
use paddock_settings::{Settings, WORKSPACE_TARGET, default_environment, network_environment};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

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

/// The source of an image's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ImageName {
    /// The template or the snapshot names it.
    Template,
    Caller,
    /// A script or a model that the caller passes on names it.
    Stranger,
}

impl ImageName {
    fn of(request: &CreateSandbox) -> ImageName {
        match (&request.image, request.public_image) {
            (None, _) => ImageName::Template,
            (Some(_), false) => ImageName::Caller,
            (Some(_), true) => ImageName::Stranger,
        }
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
        FleetError::unless_descriptors_are_left()?;
        let with_values = self.with_resources(actor, request)?;
        let settings = request::resolve(&self.0.options.state, actor, &with_values)?;
        let (expires_at_ms, idle) = times(request, self.0.options.default_ttl)?;
        let snapshot =
            request.snapshot.as_deref().map(|name| self.snapshot_record(actor, name)).transpose()?;
        if request.live.is_some() && snapshot.is_none() {
            return Err(invalid("`live` is about the contexts of a snapshot")
                .hint("name a `snapshot`, or leave it out"));
        }
        let (command, preload) = (settings.command.clone(), settings.preload.clone());
        let bound = settings.secrets.clone();
        let volumes = Wanted::all(actor, &request.volumes, &settings.spec)?;
        let (backend, mut record) =
            self.describe(actor, settings, snapshot.as_ref(), ImageName::of(request)).await?;
        record.name = request.name.clone();
        record.template = request.template.clone();
        record.metadata = request.metadata.clone();
        record.metadata.extend(labels);
        (record.persistent, record.under_pressure) = (request.persistent, request.under_pressure);
        (record.expires_at_ms, record.idle) = (expires_at_ms, idle);
        record.backend = backend;
        let secrets = SandboxSecrets::new(bound).map_err(EngineError::from)?;
        if let Some(secrets) = &secrets {
            record.env.extend(secrets.environment());
        }
        let permit = tokio::select! {
            permit = self.admit(&record) => permit?,
            _ = caller_gone => {
                let message = "the caller went away before there was room";
                return Err(FleetError::new(Kind::Unavailable, "unavailable", message));
            }
        };
        let mut member = match &snapshot {
            None if volumes.is_empty() => match self.ready_made(&record, &preload).await {
                None => match self.born_baked(&record, &preload).await {
                    None => self.copied(&record, &preload).await,
                    member => member,
                },
                member => {
                    record.pool = Some(record.template.clone().unwrap_or_else(|| BUILT_IN.into()));
                    member
                }
            },
            _ => None,
        };
        if member.is_none() && snapshot.is_none() && volumes.is_empty() && secrets.is_none() {
            member = self.made_by_demand(&record, &preload, &with_values);
            if member.is_some() {
                record.pool = Some(name_by_demand(record.template.as_deref().unwrap_or(BUILT_IN)));
            }
        }
        if let Some(member) = member {
            record.id = member.id().clone();
            self.seal_secrets(&mut record, secrets.as_ref())?;
            // If a step fails from here on, the member is taken down.
            note.write(&record.id)?;
            let live = self.give(record, member, permit)?;
            self.equip_ready(&live).await?;
            return self.created(actor, request, live, command).await;
        }
        self.seal_secrets(&mut record, secrets.as_ref())?;
        note.write(&record.id)?;
        let origin = match &snapshot {
            Some(snapshot) => self.clone_snapshot(snapshot, &record, request.live).await?,
            None => Origin::Empty,
        };
        let mounted = self.mount_volumes(actor, &volumes, &mut record).await;
        mounted.inspect_err(|_| self.free_disk(record.id.as_str()))?;
        let aboard = match &snapshot {
            Some(snapshot) => {
                let boarded = self.board_snapshot_holder(actor, snapshot, &mut record, request.live).await;
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
        let live = self.bring_up(record, origin.with(crossing), permit).await?;
        self.created(actor, request, live, command).await
    }

    async fn created(
        &self,
        actor: &Actor,
        request: &CreateSandbox,
        live: Arc<Live>,
        command: Vec<String>,
    ) -> Result<Sandbox, FleetError> {
        audit::call(
            &self.0,
            actor,
            &live,
            "created",
            serde_json::json!({ "request": without_secrets(request) }),
        );
        if !command.is_empty() {
            let start = StartExec { argv: Some(command), background: true, ..StartExec::default() };
            self.start_exec(actor, &live.id, start, None).await?;
        }
        Ok(live.to_api())
    }

    /// Checks and describes the sandbox as far as possible before anything is made.
    pub(super) async fn describe(
        &self,
        actor: &Actor,
        settings: Settings,
        snapshot: Option<&super::snapshots::SnapshotRecord>,
        image_name: ImageName,
    ) -> Result<(Option<String>, Record), FleetError> {
        let mut spec = settings.spec;
        if let Some(snapshot) = snapshot {
            spec.scan = spec.scan.joined(snapshot.scan.clone());
        }
        let mut env = default_environment();
        let mut cwd = settings.cwd.map(|cwd| cwd.display().to_string());
        // Files that were written over one root fit no other.
        let image = snapshot.map_or(settings.image, |snapshot| snapshot.image.clone());
        // An image that the owner named, or put into a template, is the owner's choice.
        let owner = actor.owner || (actor.role == Role::Admin && actor.tenant == Actor::OWNER_TENANT);
        let unvouched = match image_name {
            ImageName::Template => false,
            ImageName::Caller => !owner,
            ImageName::Stranger => true,
        };
        let image_of_tenant = snapshot.map_or(unvouched, |snapshot| snapshot.image_of_tenant);
        if let Some(reference) = &image {
            let reach = match (image_of_tenant, owner) {
                (false, _) => RegistryReach::Anywhere,
                (true, true) => RegistryReach::PublicOr(self.0.options.registries.clone()),
                (true, false) => self.reach_of_tenants(),
            };
            let resolved = self.0.engine.image_for_others(reference, &reach).await?;
            env.extend(resolved.environment);
            cwd = cwd.or(resolved.cwd);
            spec.root = Root::Directory { path: resolved.root };
        }
        env.extend(network_environment(&spec.network));
        if settings.host_certs {
            // The certificates are read before anything is made, so that an error is reported at once.
            read_host_certificates().await?;
            env.extend(certificates::environment());
        }
        env.extend(settings.env);
        let id = paddock_engine::new_id()?;
        let record = Record {
            id,
            name: None,
            tenant: actor.tenant.clone(),
            state: SandboxState::Creating,
            template: None,
            image,
            image_of_tenant,
            snapshot: snapshot.map(|snapshot| snapshot.id.clone()),
            pool: None,
            parent: None,
            made_by: Some(actor.token.clone()),
            created_at_ms: now_ms(),
            expires_at_ms: None,
            expires_boot: None,
            idle: None,
            persistent: false,
            under_pressure: None,
            metadata: BTreeMap::new(),
            env,
            cwd: Some(cwd.unwrap_or_else(|| WORKSPACE_TARGET.into())),
            secrets: Default::default(),
            host_certs: settings.host_certs,
            volumes: Vec::new(),
            moved: (0, 0),
            guarantees: self.0.engine.guarantees(settings.backend.as_deref(), &spec)?,
            spec,
            backend: None,
            within: None,
            around: Vec::new(),
            stands_for: None,
            boot: boot_id().into(),
            ready_at_ns: 0,
            built_ns: Vec::new(),
            base: None,
            baseline: None,
            paused_when_idle: false,
            audit_outputs: settings.audit_outputs,
            intent: None,
            end: None,
        };
        Ok((settings.backend, record))
    }

    fn reach_of_tenants(&self) -> RegistryReach {
        match self.0.options.registries.as_slice() {
            [] => RegistryReach::Public,
            named => RegistryReach::Named(named.to_vec()),
        }
    }

    pub(super) async fn admit(&self, record: &Record) -> Result<Permit, FleetError> {
        self.unless_short_of_memory()?;
        let quota = self.0.store.quota(&record.tenant)?;
        let limits = &record.spec.limits;
        Ok(self
            .0
            .admission
            .acquire(
                &record.tenant,
                Need { cpus: limits.cpus, memory_bytes: limits.memory, create: true },
                &quota,
            )
            .await?)
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
        let jobs = memory.as_deref().map_or_else(
            || Ok(Vec::new()),
            |memory| self.take_commands(memory, &id).and_then(|()| self.stored_jobs(&record)),
        );
        let jobs = jobs.inspect_err(|_| {
            self.free_disk(&id);
            let _ = inner.store.delete_sandbox(&id);
        })?;
        let directory = inner.options.state.join("sandboxes").join(&id);
        let live = Live::new(record, directory, jobs.into_iter().map(|job| (job.number(), job)).collect());
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
                inner.counters.created.fetch_add(1, Ordering::Relaxed);
                inner.tell(&live, "created", None);
                Ok(live)
            }
            Err(error) => {
                inner.counters.create_failed.fetch_add(1, Ordering::Relaxed);
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
        let (under_way, begun) = departed.map(|departed| (departed.under_way, departed.fence)).unzip();
        let (fleet, raised_id) = (self.clone(), id.clone());
        let raised = tokio::task::spawn_blocking(move || -> Result<_, FleetError> {
            fleet.give_disk(&raised_id, &mut spec, base.as_deref(), slept)?;
            let engine = &fleet.0.engine;
            let raised = match begun {
                Some(begun) => begun.finish(&spec)?,
                None => engine.raise(&raised_id, backend.as_deref(), &spec)?,
            };
            Ok((raised, spec))
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
        inside.set_deadline(record.time_to_live());
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

pub(super) fn times(
    request: &CreateSandbox,
    default_ttl: Duration,
) -> Result<(Option<u64>, Option<paddock_model::api::Idle>), FleetError> {
    if let Some(idle) = request.idle {
        seconds("idle.seconds", idle.seconds)?;
        if request.persistent {
            return Err(
                invalid("a persistent sandbox is never idle").hint("leave `idle` or `persistent` out")
            );
        }
    }
    let ttl = match request.ttl_seconds {
        Some(value) => Some(seconds("ttl_seconds", value)?),
        None if request.persistent => None,
        None => Some(default_ttl),
    };
    Ok((ttl.map(|ttl| now_ms() + ttl.as_millis() as u64), request.idle))
}

/// Values of variables may be secrets.
fn without_secrets(request: &CreateSandbox) -> serde_json::Value {
    let without = |(name, secret): (&String, &SecretLayer)| (name.clone(), secret.without_value());
    let secrets = request.secrets.iter().map(without).collect();
    let request = CreateSandbox { secrets, ..request.clone() };
    let mut value = serde_json::to_value(&request).unwrap_or_default();
    value["env"] = serde_json::json!(request.env.keys().collect::<Vec<_>>());
    value
}
