//! Changes of a living sandbox: its metadata, the settings of later execs, its limits, and its time to live.

use super::live::Live;
use super::ports;
use super::record::Record;
use super::request::{OWN_KEYS, check_directory, check_metadata, check_network, invalid, refused, seconds};
use super::{Actor, Fleet, FleetError, Kind, SecretGroup, audit, changed_secrets};
use paddock_engine::certificates::is_variable as is_certificate_variable;
use paddock_engine::secrets::SandboxSecrets;
use paddock_model::api::{Extend, LimitsRequest, Sandbox, SandboxState, UpdateSandbox};
use paddock_model::net::{NetRules, NetSetting};
use paddock_model::{Disk, Limits, Network, User};
use paddock_records::access::Need;
use paddock_settings::{check_environment, default_environment, network_environment, resolve_network};
use paddock_storage::StorageError;
use std::collections::BTreeMap;
use std::io::{Error, ErrorKind};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Changes that the server makes together with those of a request.
#[derive(Debug, Default)]
pub struct OwnChanges {
    /// Metadata of the server's own: what has no value is removed.
    pub labels: BTreeMap<String, Option<String>>,
    /// In the place of `secrets` of the request.
    pub secrets: Option<SecretGroup>,
}

impl Fleet {
    /// Restarts its time to live.
    ///
    /// Precondition: the sandbox's transition is locked.
    pub(super) fn prolong(&self, live: &Live, ttl: Duration) -> Result<(), FleetError> {
        let mut record = live.record().clone();
        record.set_time_to_live(Some(ttl));
        if let Some(sleep) = &mut record.sleep_at_ttl {
            sleep.has_begun = false;
        }
        if let Some(sleep) = &mut record.asked_sleep {
            sleep.seconds_awake = None;
        }
        self.0.save(&record)?;
        live.follow_time_to_live(&record);
        *live.record() = record;
        Ok(())
    }

    pub async fn extend(&self, actor: &Actor, id: &str, request: Extend) -> Result<Sandbox, FleetError> {
        let ttl = seconds("ttl_seconds", request.ttl_seconds)?;
        let live = self.find(actor, id)?;
        let _guard = live.transition.lock().await;
        self.prolong(&live, ttl)?;
        audit::call(
            &self.0,
            actor,
            &live,
            "extended",
            serde_json::json!({ "ttl_seconds": request.ttl_seconds }),
        );
        Ok(live.to_api())
    }

    /// Makes all requested changes, or none.
    pub async fn update(
        &self,
        actor: &Actor,
        id: &str,
        request: UpdateSandbox,
    ) -> Result<Sandbox, FleetError> {
        self.update_with(actor, id, request, OwnChanges::default()).await
    }

    /// The same, with changes of the server's own.
    pub async fn update_with(
        &self,
        actor: &Actor,
        id: &str,
        request: UpdateSandbox,
        own: OwnChanges,
    ) -> Result<Sandbox, FleetError> {
        let live = self.find(actor, id)?;
        check_changeable(&live, &request)?;
        if let Some(metadata) = &request.metadata {
            check_metadata(metadata)?;
        }
        if let Some(idle) = request.idle {
            seconds("idle.seconds", idle.seconds)?;
        }
        if let Some(ports) = &request.ports {
            ports.check().map_err(|error| refused(error.into()))?;
        }
        let policy = LaterCommands::check(&request)?;
        let actor = actor.clone();
        // Goes on when the caller goes away: limits that hold are limits that are recorded.
        self.detached(async move |fleet: Fleet| fleet.update_now(&actor, live, request, (policy, own)).await)
            .await
    }

    async fn update_now(
        &self,
        actor: &Actor,
        live: Arc<Live>,
        mut request: UpdateSandbox,
        (policy, own): (LaterCommands, OwnChanges),
    ) -> Result<Sandbox, FleetError> {
        let _guard = live.transition.lock().await;
        let before = live.record().clone();
        if let Some(group) = own.secrets {
            request.secrets = group.changes(before.secrets.hosts.keys());
        }
        let mut after = before.clone();
        policy.apply(&mut after)?;
        if let Some(limits) = &request.limits {
            after.spec.limits = changed(&after.spec.limits, limits)?;
        }
        let secrets = self.changed_secrets(actor, &live, &request)?;
        if let Some(network) = &request.network {
            after.spec.network = self.changed_network(actor, &live, network, secrets.as_ref())?;
        }
        let mut for_gate = None;
        if let Some(secrets) = &secrets {
            self.seal_secrets(&mut after, Some(secrets))?;
            after.env.extend(secrets.environment());
            for_gate = self.prepare_secrets(&live, secrets).await?;
        }
        if let Some(metadata) = &request.metadata {
            after.metadata.retain(|key, _| key.starts_with(OWN_KEYS));
            after.metadata.extend(metadata.clone());
        }
        for (key, value) in own.labels {
            match value {
                Some(value) => after.metadata.insert(key, value),
                None => after.metadata.remove(&key),
            };
        }
        if let Some(persistent) = request.persistent {
            after.persistent = persistent;
        }
        if request.idle.is_some() {
            after.idle = request.idle;
        }
        after.under_pressure = request.under_pressure.or(after.under_pressure);
        if let Some(settings) = request.ports.clone() {
            ports::set(self, actor, &mut after.ports, settings).await?;
        }
        self.change_limits(&live, &before.spec.limits, &after.spec.limits).await?;
        // The record was changed meanwhile: only the requested values are put into it.
        let record = {
            let mut record = live.record();
            record.spec.limits = after.spec.limits.clone();
            record.spec.user = after.spec.user;
            record.spec.network = after.spec.network.clone();
            (record.metadata, record.persistent, record.idle) =
                (after.metadata, after.persistent, after.idle);
            record.under_pressure = after.under_pressure;
            record.ports = after.ports;
            (record.env, record.cwd, record.secrets) = (after.env, after.cwd, after.secrets);
            record.clone()
        };
        if let Err(error) = self.0.save(&record) {
            let _ = self.change_limits(&live, &after.spec.limits, &before.spec.limits).await;
            *live.record() = before;
            return Err(error);
        }
        if before.ports.settings.closes_any(&record.ports.settings) {
            live.visitors.send_off();
        }
        if let (Network::Gate(rules), Some(inside)) = (after.spec.network, live.running()) {
            // Before a host is open its header is known, and after it is closed a header goes nowhere.
            if let Some(secrets) = for_gate {
                inside.change_secrets(secrets);
            }
            inside.change_rules(rules);
        }
        let told = serde_json::json!({ "request": changed_secrets::told(&request) });
        audit::call(&self.0, actor, &live, "updated", told);
        live.touch();
        Ok(live.to_api())
    }

    /// Rules replace rules. A network link is made with a sandbox, or never.
    fn changed_network(
        &self,
        actor: &Actor,
        live: &Live,
        setting: &NetSetting,
        secrets: Option<&SandboxSecrets>,
    ) -> Result<Network, FleetError> {
        let secrets = match secrets {
            Some(changed) => changed.bound(),
            None => {
                self.secrets_of(&live.record().clone())?.map(|secrets| secrets.bound()).unwrap_or_default()
            }
        };
        let resolved = resolve_network(Some(setting), &secrets, &self.0.options.state);
        let resolved = resolved.map_err(|error| refused(error.into()))?;
        check_network(actor, &resolved)?;
        let has_link = matches!(live.record().spec.network, Network::Gate(_));
        match resolved {
            Network::Gate(rules) if has_link => Ok(Network::Gate(rules)),
            Network::None if has_link => Ok(Network::Gate(NetRules::default())),
            _ => {
                let message = format!("sandbox {} was made without network rules, and has no link", live.id);
                Err(FleetError::new(Kind::Conflict, "not_changeable", message).hint(
                    "make a snapshot of it, and create another from that with the `network` it is to have",
                ))
            }
        }
    }

    /// For a hibernated sandbox only the room that it takes changes: it wakes with the new limits.
    ///
    /// Precondition: the sandbox's transition is locked.
    async fn change_limits(&self, live: &Arc<Live>, old: &Limits, new: &Limits) -> Result<(), FleetError> {
        if old == new {
            return Ok(());
        }
        self.resize(live, new)?;
        let changed = async {
            if let Some(inside) = live.running() {
                inside.change_limits(old, new).await.map_err(|error| refused_limit(live, &error))?;
            }
            if old.disk != new.disk {
                let disk = self.limit_disk(live, new.disk).await;
                if disk.is_err()
                    && let Some(inside) = live.running()
                {
                    let _ = inside.change_limits(new, old).await;
                }
                disk?;
            }
            Ok(())
        }
        .await;
        if changed.is_err() {
            let _ = self.resize(live, old);
        }
        changed
    }

    fn resize(&self, live: &Live, limits: &Limits) -> Result<(), FleetError> {
        let quota = self.quota_of(&live.tenant)?;
        let need = Need { cpus: limits.cpus, memory_bytes: limits.memory, create: false };
        match live.permit.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            Some(permit) => Ok(permit.resize(need, &quota)?),
            None => Ok(()),
        }
    }

    async fn limit_disk(&self, live: &Arc<Live>, bytes: u64) -> Result<(), FleetError> {
        let (in_memory, asleep) = {
            let record = live.record();
            (record.spec.disk == Disk::Memory, record.state == SandboxState::Hibernated)
        };
        if in_memory {
            let why = Error::new(
                ErrorKind::Unsupported,
                "its disk is in memory, and has the size that it began with",
            );
            return if asleep { Ok(()) } else { Err(refused_limit(live, &why)) };
        }
        let (fleet, id) = (self.clone(), live.id.clone());
        let limited = tokio::task::spawn_blocking(move || fleet.0.storage.limit_disk(&id, bytes)).await;
        limited.map_err(|error| FleetError::internal(&error))?.map_err(|error| match &error {
            StorageError::Failed { source, .. } if source.kind() == ErrorKind::ResourceBusy => {
                refused_limit(live, source)
            }
            _ => FleetError::storage(&error),
        })
    }
}

/// Refuses changes to the parts of the fence, and to the content that it was filled with.
fn check_changeable(live: &Live, request: &UpdateSandbox) -> Result<(), FleetError> {
    let fixed = [
        ("image", request.image.is_some()),
        ("template", request.template.is_some()),
        ("backend", request.backend.is_some()),
        ("workspace", request.workspace.is_some()),
        ("hostname", request.hostname.is_some()),
    ];
    match fixed.iter().find(|(_, asked)| *asked) {
        Some((field, _)) => {
            let message = format!("`{field}` of sandbox {} cannot be changed while it lives", live.id);
            Err(FleetError::new(Kind::Conflict, "not_changeable", message).hint(format!(
                "make a snapshot of it, and create another from that with the `{field}` it is to have"
            )))
        }
        None => Ok(()),
    }
}

fn changed(limits: &Limits, request: &LimitsRequest) -> Result<Limits, FleetError> {
    let timeout =
        request.exec_timeout_seconds.map(|value| seconds("exec_timeout_seconds", value)).transpose()?;
    let limits = Limits {
        memory: request.memory_bytes.unwrap_or(limits.memory),
        cpus: request.cpus.unwrap_or(limits.cpus),
        pids: request.pids.unwrap_or(limits.pids),
        disk: request.disk_bytes.unwrap_or(limits.disk),
        files: request.open_files.unwrap_or(limits.files),
        output: request.output_bytes.unwrap_or(limits.output),
        timeout: timeout.or(limits.timeout),
    };
    limits.check().map_err(|error| invalid(error.to_string()))?;
    Ok(limits)
}

fn refused_limit(live: &Live, error: &Error) -> FleetError {
    let message = format!("the limits of sandbox {} stay as they are: {error}", live.id);
    match error.kind() {
        ErrorKind::Unsupported => FleetError::new(Kind::Conflict, "not_changeable", message)
            .hint("hibernate it and ask again: it wakes with the new limits"),
        ErrorKind::ResourceBusy => FleetError::new(Kind::Conflict, "limit_in_use", message)
            .hint("ask for more than that, or end what uses it"),
        ErrorKind::NotConnected => FleetError::new(Kind::Unavailable, "guest_lost", message),
        _ => FleetError::new(Kind::Internal, "internal", message),
    }
}

/// The part of the policy that a living sandbox can take.
struct LaterCommands {
    env: Option<BTreeMap<String, String>>,
    cwd: Option<String>,
    user: Option<User>,
    timeout: Option<Duration>,
    output: Option<u64>,
}

impl LaterCommands {
    fn check(request: &UpdateSandbox) -> Result<LaterCommands, FleetError> {
        if let Some(env) = &request.env {
            check_environment(env).map_err(refused)?;
        }
        if let Some(cwd) = &request.cwd {
            check_directory(cwd)?;
        }
        let user = request.user.as_ref().map(|user| user.parse::<User>());
        let timeout = request.exec_timeout_seconds.map(|value| seconds("exec_timeout_seconds", value));
        Ok(LaterCommands {
            env: request.env.clone(),
            cwd: request.cwd.clone(),
            user: user.transpose().map_err(|error| invalid(error.to_string()))?,
            timeout: timeout.transpose()?,
            output: request.output_bytes,
        })
    }

    fn apply(self, record: &mut Record) -> Result<(), FleetError> {
        let mut limits = record.spec.limits.clone();
        limits.timeout = self.timeout.or(limits.timeout);
        limits.output = self.output.unwrap_or(limits.output);
        limits.check().map_err(|error| invalid(error.to_string()))?;
        record.spec.limits = limits;
        record.cwd = self.cwd.or(record.cwd.take());
        if let Some(user) = self.user {
            record.spec.user = user;
        }
        if let Some(env) = self.env {
            let mut ours = default_environment();
            ours.extend(network_environment(&record.spec.network));
            let secrets = &record.secrets.hosts;
            let stays = |name: &str| {
                ours.contains_key(name) || secrets.contains_key(name) || is_certificate_variable(name)
            };
            record.env.retain(|name, _| stays(name));
            record.env.extend(env);
        }
        Ok(())
    }
}
