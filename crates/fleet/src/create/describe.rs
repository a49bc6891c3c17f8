//! A sandbox that is asked for, as far as it is known before anything is made.

use crate::clock::boot_id;
use crate::kept_settings::Under;
use crate::ports;
use crate::record::{Record, now_ms};
use crate::request::{self, invalid, seconds};
use crate::secrets::read_host_certificates;
use crate::sleep_at_ttl::SleepAtTtl;
use crate::snapshots::SnapshotRecord;
use crate::volumes::Wanted;
use crate::{Actor, Fleet, FleetError};
use paddock_engine::secrets::SandboxSecrets;
use paddock_engine::{EngineError, certificates};
use paddock_images::RegistryReach;
use paddock_model::Root;
use paddock_model::api::{CreateSandbox, Role, SandboxState};
use paddock_settings::{Settings, WORKSPACE_TARGET, default_environment, network_environment};
use std::collections::BTreeMap;
use std::time::Duration;

pub(super) struct Described {
    pub record: Record,
    /// The request with the values of the resources and secrets that it names.
    pub with_values: CreateSandbox,
    pub snapshot: Option<SnapshotRecord>,
    pub volumes: Vec<Wanted>,
    pub secrets: Option<SandboxSecrets>,
    /// Python modules of its template.
    pub preload: Vec<String>,
    /// The start command and the ready command of its template.
    pub first: (Vec<String>, Option<String>),
}

/// The source of an image's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ImageName {
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
    /// Nothing is made, but a template that is built at its first use.
    pub(super) async fn described(
        &self,
        actor: &Actor,
        request: &CreateSandbox,
        labels: BTreeMap<String, String>,
    ) -> Result<Described, FleetError> {
        let with_values = self.with_resources(actor, request)?;
        if let Some(name) = request.template.as_deref() {
            self.ensure_template(actor, name).await?;
        }
        let (snapshot, under, settings) = self.resolved(actor, &with_values)?;
        let (expires_at_ms, idle) = times(request, self.0.options.default_ttl)?;
        if request.live.is_some() && snapshot.is_none() {
            return Err(invalid("`live` is about the contexts of a snapshot")
                .hint("name a `snapshot`, or leave it out"));
        }
        let first = (settings.command.clone(), settings.ready.clone());
        let preload = settings.preload.clone();
        let (bound, settings_of_ports) = (settings.secrets.clone(), settings.ports.clone());
        let volumes = Wanted::all(actor, &request.volumes, &settings.spec)?;
        let (backend, mut record) =
            self.describe(actor, settings, snapshot.as_ref(), ImageName::of(request)).await?;
        record.name = request.name.clone();
        record.template = under.template;
        record.template_env = under.layer.map(|layer| layer.env).unwrap_or_default();
        record.metadata = request.metadata.clone();
        record.metadata.extend(labels);
        (record.persistent, record.under_pressure) = (request.persistent, request.under_pressure);
        (record.expires_at_ms, record.idle) = (expires_at_ms, idle);
        record.sleep_at_ttl = SleepAtTtl::of(request.ttl_action, expires_at_ms)?;
        record.backend = backend;
        ports::set(self, actor, &mut record.ports, settings_of_ports).await?;
        let secrets = SandboxSecrets::new(bound).map_err(EngineError::from)?;
        if let Some(secrets) = &secrets {
            record.env.extend(secrets.environment());
        }
        Ok(Described { record, with_values, snapshot, volumes, secrets, preload, first })
    }

    /// The settings of a request over those of its template or its snapshot, with the rights of this caller.
    pub(crate) fn resolved(
        &self,
        actor: &Actor,
        request: &CreateSandbox,
    ) -> Result<(Option<SnapshotRecord>, Under, Settings), FleetError> {
        let snapshot =
            request.snapshot.as_deref().map(|name| self.snapshot_record(actor, name)).transpose()?;
        let kept = snapshot.as_ref().and_then(|snapshot| snapshot.settings.as_ref());
        let under = self.settings_under(actor, request, kept)?;
        let settings = request::resolve(&self.0.options, actor, &under.request, under.layer.clone());
        Ok((snapshot, under, settings?))
    }

    /// Checks and describes the sandbox as far as possible before anything is made.
    pub(crate) async fn describe(
        &self,
        actor: &Actor,
        settings: Settings,
        snapshot: Option<&SnapshotRecord>,
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
        let mut image_user = None;
        if let Some(reference) = &image {
            let reach = match (image_of_tenant, owner) {
                (false, _) => RegistryReach::Anywhere,
                (true, true) => RegistryReach::PublicOr(self.0.options.registries.clone()),
                (true, false) => self.reach_of_tenants(),
            };
            let resolved = self.0.engine.image_for_others(reference, &reach).await?;
            env.extend(resolved.environment);
            cwd = cwd.or(resolved.cwd);
            image_user = resolved.user;
            spec.root = Root::Directory { path: resolved.root };
        }
        env.extend(network_environment(&spec.network));
        if settings.host_certs {
            // The certificates are read before anything is made, so that an error is reported at once.
            read_host_certificates().await?;
            env.extend(certificates::environment());
        }
        env.extend(settings.env);
        let id = self.new_id()?;
        let record = Record {
            id,
            node: self.0.node.number(),
            name: None,
            tenant: actor.tenant.clone(),
            state: SandboxState::Creating,
            template: None,
            image,
            image_user,
            image_of_tenant,
            snapshot: snapshot.map(|snapshot| snapshot.id.clone()),
            pool: None,
            parent: None,
            made_by: Some(actor.token.clone()),
            created_at_ms: now_ms(),
            expires_at_ms: None,
            expires_boot: None,
            sleep_at_ttl: None,
            idle: None,
            persistent: false,
            under_pressure: None,
            metadata: BTreeMap::new(),
            env,
            template_env: BTreeMap::new(),
            cwd: Some(cwd.unwrap_or_else(|| WORKSPACE_TARGET.into())),
            secrets: Default::default(),
            host_certs: settings.host_certs,
            ports: Default::default(),
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
            asked_sleep: None,
            audit_outputs: settings.audit_outputs,
            intent: None,
            end: None,
        };
        Ok((settings.backend, record))
    }

    pub(crate) fn reach_of_tenants(&self) -> RegistryReach {
        match self.0.options.registries.as_slice() {
            [] => RegistryReach::Public,
            named => RegistryReach::Named(named.to_vec()),
        }
    }
}

pub(crate) fn times(
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
