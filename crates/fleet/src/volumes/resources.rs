//! Volumes as resources of their own: make, list, restore, share, remove.

use super::super::{Actor, Fleet, FleetError, Kind as Failure};
use paddock_model::api::{Role, Volume, VolumeMode, VolumeVersion};
use paddock_volumes::{Head, Kind, Share, Version};

impl Fleet {
    pub async fn create_volume(&self, actor: &Actor, name: &str) -> Result<Volume, FleetError> {
        paddock_volumes::check_name(name)?;
        self.check_volume_count(&actor.tenant).await?;
        Ok(to_api(&self.0.volumes.create(&actor.tenant, name).await?))
    }

    /// The actor's own volumes; the owner of the host sees all.
    pub async fn volumes(&self, actor: &Actor) -> Result<Vec<Volume>, FleetError> {
        let tenants = match actor.owner {
            true => self.0.volumes.tenants().await?,
            false => vec![actor.tenant.clone()],
        };
        let mut all = Vec::new();
        for tenant in tenants {
            all.extend(self.0.volumes.list(&tenant).await?.iter().map(to_api));
        }
        Ok(all)
    }

    pub async fn volume(&self, actor: &Actor, name: &str) -> Result<Volume, FleetError> {
        Ok(to_api(&self.visible_volume(actor, name, VolumeMode::Ro).await?))
    }

    /// The newest first.
    pub async fn volume_history(&self, actor: &Actor, name: &str) -> Result<Vec<VolumeVersion>, FleetError> {
        let head = self.visible_volume(actor, name, VolumeMode::Ro).await?;
        Ok(head.versions.iter().rev().map(|version| version_to_api(version, head.current)).collect())
    }

    pub async fn restore_volume(
        &self,
        actor: &Actor,
        name: &str,
        version: u64,
    ) -> Result<VolumeVersion, FleetError> {
        let head = self.visible_volume(actor, name, VolumeMode::Rw).await?;
        head.version(Some(version))?;
        let by = by(actor);
        // Goes on when the caller goes away: the lease is given back.
        self.detached(async move |fleet: Fleet| {
            let mut writer = fleet.0.volumes.acquire(&head.tenant, &head.name, &by, false).await?;
            let restored = writer.restore(version).await;
            let current = writer.head().current;
            writer.release().await?;
            Ok(version_to_api(&restored?, current))
        })
        .await
    }

    /// Shares a volume; a `mode` of `None` takes the right back.
    pub async fn share_volume(
        &self,
        actor: &Actor,
        name: &str,
        with: &str,
        mode: Option<VolumeMode>,
    ) -> Result<Volume, FleetError> {
        let head = self.owned_volume(actor, name).await?;
        paddock_records::access::check_tenant_name(with)
            .map_err(|error| super::super::request::invalid(error.to_string()))?;
        let share = mode.map(|mode| if mode == VolumeMode::Rw { Share::Rw } else { Share::Ro });
        Ok(to_api(&self.0.volumes.share(&head.tenant, &head.name, with, share).await?))
    }

    pub async fn remove_volume(&self, actor: &Actor, name: &str) -> Result<Volume, FleetError> {
        let head = self.owned_volume(actor, name).await?;
        self.0.volumes.remove(&head.tenant, &head.name).await?;
        Ok(to_api(&head))
    }

    /// A volume that the actor may share and remove.
    async fn owned_volume(&self, actor: &Actor, name: &str) -> Result<Head, FleetError> {
        let head = self.visible_volume(actor, name, VolumeMode::Ro).await?;
        let own = head.tenant == actor.tenant && actor.role != Role::ReadOnly;
        if actor.owner || own {
            return Ok(head);
        }
        let message = format!("volume `{name}` belongs to another tenant");
        Err(FleetError::new(Failure::Forbidden, "forbidden", message).hint("ask its tenant"))
    }
}

pub(super) fn by(actor: &Actor) -> String {
    format!("a call of {}", actor.token)
}

fn to_api(head: &Head) -> Volume {
    let current = head.version(None).ok().flatten();
    let share = |share: &Share| if *share == Share::Rw { VolumeMode::Rw } else { VolumeMode::Ro };
    let held = head.held().map(|(lease, _)| lease);
    Volume {
        id: head.id.clone(),
        name: head.name.clone(),
        tenant: head.tenant.clone(),
        created_at_ms: head.created_at_ms,
        version: head.current,
        files: current.map_or(0, |version| version.files),
        bytes: current.map_or(0, |version| version.bytes),
        stored_bytes: head.stored_bytes(),
        versions: head.versions.len() as u64,
        writer: held.map(|lease| lease.holder.clone()),
        writer_until_ms: held.map(|lease| lease.expires_at_ms),
        shared: head.shared.iter().map(|(tenant, how)| (tenant.clone(), share(how))).collect(),
        encrypted: head.key.is_some(),
    }
}

pub(super) fn version_to_api(version: &Version, current: Option<u64>) -> VolumeVersion {
    let kind = match version.kind {
        Kind::Commit => "commit",
        Kind::Checkpoint => "checkpoint",
        Kind::Kept => "kept",
        Kind::Restore => "restore",
    };
    VolumeVersion {
        version: version.number,
        kind: kind.into(),
        at_ms: version.at_ms,
        by: version.by.clone(),
        from: version.from,
        current: current == Some(version.number),
        files: version.files,
        bytes: version.bytes,
        stored_bytes: version.stored_bytes,
    }
}
