//! Volumes as resources of their own: make, list, look into, restore, share, remove.

use super::super::streams::Download;
use super::super::{Actor, Fleet, FleetError, Kind as Failure};
use paddock_model::api::{Role, Volume, VolumeFile, VolumeFiles, VolumeMode, VolumeVersion};
use paddock_volumes::{Entry, Head, Kind, Node, Share, Version, VolumeError};

/// The most files of one list.
const MOST_FILES: usize = 10_000;

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

    pub async fn volume_files(
        &self,
        actor: &Actor,
        name: &str,
        version: Option<u64>,
        below: Option<&str>,
    ) -> Result<VolumeFiles, FleetError> {
        let head = self.visible_volume(actor, name, VolumeMode::Ro).await?;
        let Some(manifest) = self.0.volumes.manifest(&head, version).await? else {
            return Ok(VolumeFiles { files: Vec::new(), truncated: false });
        };
        let below = below.unwrap_or("").trim_matches('/').as_bytes();
        let within = |entry: &&Entry| {
            let path: &[u8] = &entry.path;
            let rest = path.strip_prefix(below);
            !path.is_empty()
                && rest.is_some_and(|rest| below.is_empty() || rest.is_empty() || rest[0] == b'/')
        };
        let mut found = manifest.entries.iter().filter(within);
        let files: Vec<VolumeFile> = found.by_ref().take(MOST_FILES).map(file_to_api).collect();
        let truncated = found.next().is_some();
        if files.is_empty() && !below.is_empty() {
            let path = String::from_utf8_lossy(below).into_owned();
            let version = version.or(head.current).unwrap_or(0);
            return Err(VolumeError::NoFile { volume: head.name, version, path }.into());
        }
        Ok(VolumeFiles { files, truncated })
    }

    pub async fn read_volume_file(
        &self,
        actor: &Actor,
        name: &str,
        version: Option<u64>,
        path: &str,
    ) -> Result<Download, FleetError> {
        let head = self.visible_volume(actor, name, VolumeMode::Ro).await?;
        let file = self.0.volumes.open_file(&head, version, path).await?;
        Ok(Download::from_volume(file))
    }

    pub async fn restore_volume(
        &self,
        actor: &Actor,
        name: &str,
        version: u64,
    ) -> Result<VolumeVersion, FleetError> {
        let head = self.visible_volume(actor, name, VolumeMode::Rw).await?;
        head.version(Some(version))?;
        let mut writer = self.0.volumes.acquire(&head.tenant, &head.name, &by(actor), false).await?;
        let restored = writer.restore(version).await;
        let current = writer.head().current;
        writer.release().await?;
        Ok(version_to_api(&restored?, current))
    }

    pub async fn delete_volume_file(
        &self,
        actor: &Actor,
        name: &str,
        path: &str,
    ) -> Result<VolumeVersion, FleetError> {
        let head = self.visible_volume(actor, name, VolumeMode::Rw).await?;
        let mut writer = self.0.volumes.acquire(&head.tenant, &head.name, &by(actor), false).await?;
        let removed = writer.remove_path(path).await;
        let current = writer.head().current;
        writer.release().await?;
        Ok(version_to_api(&removed?, current))
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

    pub async fn write_volume_file(
        &self,
        actor: &Actor,
        name: &str,
        path: &str,
        mode: Option<u32>,
    ) -> Result<VolumeUpload, FleetError> {
        let head = self.visible_volume(actor, name, VolumeMode::Rw).await?;
        let limits = self.volume_limits(&head.tenant, &head.name).await?;
        let file = tempfile::tempfile_in(self.0.options.state.join("volumes"));
        let file = file.map_err(|error| FleetError::storage(&error))?;
        let (fleet, path, by) = (self.clone(), path.to_string(), by(actor));
        Ok(VolumeUpload { fleet, head, path, mode: mode.unwrap_or(0o644), limits, by, file, bytes: 0 })
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

/// A file on its way into a volume. If this is dropped before `finish`, nothing has changed.
pub struct VolumeUpload {
    fleet: Fleet,
    head: Head,
    path: String,
    mode: u32,
    limits: paddock_volumes::Limits,
    by: String,
    file: std::fs::File,
    bytes: u64,
}

impl VolumeUpload {
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), FleetError> {
        self.bytes += bytes.len() as u64;
        if self.bytes > self.limits.bytes {
            let (volume, allowed) = (self.head.name.clone(), self.limits.bytes);
            return Err(VolumeError::Quota { volume, what: "bytes", wanted: self.bytes, allowed }.into());
        }
        // Pieces are small, and go to a file of the host that needs no wait.
        std::io::Write::write_all(&mut self.file, bytes).map_err(|error| FleetError::storage(&error))
    }

    pub async fn finish(self) -> Result<VolumeVersion, FleetError> {
        let VolumeUpload { fleet, head, path, mode, limits, by, mut file, .. } = self;
        std::io::Seek::rewind(&mut file).map_err(|error| FleetError::storage(&error))?;
        fleet
            .detached(async move |fleet: Fleet| {
                let mut writer = fleet.0.volumes.acquire(&head.tenant, &head.name, &by, false).await?;
                let put = writer.put_file(&path, file, mode, limits).await;
                let current = writer.head().current;
                writer.release().await?;
                Ok(version_to_api(&put?, current))
            })
            .await
    }
}

fn by(actor: &Actor) -> String {
    format!("a call of {}", actor.token)
}

fn to_api(head: &Head) -> Volume {
    let current = head.version(None).ok().flatten();
    let share = |share: &Share| if *share == Share::Rw { VolumeMode::Rw } else { VolumeMode::Ro };
    let held = head.held().map(|(lease, _)| lease);
    Volume {
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

fn version_to_api(version: &Version, current: Option<u64>) -> VolumeVersion {
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

fn file_to_api(entry: &Entry) -> VolumeFile {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (kind, size, target) = match &entry.node {
        Node::Directory => ("directory", 0, None),
        Node::File { size, .. } => ("file", *size, None),
        Node::Link { target } => ("symlink", 0, Some(text(target))),
    };
    VolumeFile {
        path: text(&entry.path),
        kind: kind.into(),
        size,
        mode: entry.mode,
        modified_at_ms: entry.modified.0.saturating_mul(1000) + i64::from(entry.modified.1 / 1_000_000),
        target,
    }
}
