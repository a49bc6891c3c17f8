//! The files of a volume, from outside: of one of its versions, or as the sandbox that writes to it has them now. Links are never
//! followed, and a path leads nowhere but down.

use super::super::request::invalid;
use super::super::streams::Download;
use super::super::{Actor, Fleet, FleetError, Kind};
use super::resources::{by, version_to_api};
use paddock_model::api::{ChangeMode, MakeDirectory, VolumeFile, VolumeFiles, VolumeMode, VolumeVersion};
use paddock_volumes::{Entry, Head, Manifest, Node, VolumeError, Writer, plain_path};
use std::sync::Arc;

/// The most entries of one list.
const MOST_FILES: usize = 10_000;
/// Versions that left the history within the hour and are not freed yet. The head of a volume names them all.
const MOST_RETIRED: usize = 1000;
const DIRECTORY_MODE: u32 = 0o755;
const MODES: u32 = 0o7777;

/// The state of a volume that is looked at.
#[derive(Debug, Clone, Copy, Default)]
pub struct VolumeView {
    /// Default: the current one.
    pub version: Option<u64>,
    /// The present state in the sandbox that has it to write, of which a version is made first.
    pub live: bool,
}

/// One change of one path.
pub(super) enum Change {
    Put { file: std::fs::File, mode: u32 },
    MakeDirectory { mode: u32, parents: bool },
    Mode(u32),
    Remove,
}

impl Fleet {
    /// The entries at or below a path, `depth` levels deep.
    pub async fn volume_files(
        &self,
        actor: &Actor,
        name: &str,
        view: VolumeView,
        below: Option<&str>,
        depth: Option<usize>,
    ) -> Result<VolumeFiles, FleetError> {
        let (head, manifest) = self.looked_at(actor, name, view).await?;
        let below = path_or_root(&head, below.unwrap_or(""))?;
        let found = manifest.within(&below);
        if found.is_empty() {
            return Err(missing(&head, view, &below));
        }
        let level = |path: &[u8]| path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).count();
        let deepest = depth.map(|depth| level(&below).saturating_add(depth));
        let shown = |entry: &&Entry| {
            !entry.path.is_empty() && deepest.is_none_or(|deepest| level(&entry.path) <= deepest)
        };
        let mut found = found.iter().filter(shown);
        let files: Vec<VolumeFile> = found.by_ref().take(MOST_FILES).map(file_to_api).collect();
        Ok(VolumeFiles { files, truncated: found.next().is_some() })
    }

    /// One entry; the volume itself is the empty path.
    pub async fn volume_file(
        &self,
        actor: &Actor,
        name: &str,
        view: VolumeView,
        path: &str,
    ) -> Result<VolumeFile, FleetError> {
        let (head, manifest) = self.looked_at(actor, name, view).await?;
        let path = path_or_root(&head, path)?;
        manifest.find(&path).map(file_to_api).ok_or_else(|| missing(&head, view, &path))
    }

    pub async fn read_volume_file(
        &self,
        actor: &Actor,
        name: &str,
        view: VolumeView,
        path: &str,
    ) -> Result<Download, FleetError> {
        let head = self.seen_volume(actor, name, view).await?;
        let file = self.0.volumes.open_file(&head, view.version, path).await?;
        Ok(Download::from_volume(file))
    }

    pub async fn make_volume_directory(
        &self,
        actor: &Actor,
        name: &str,
        request: MakeDirectory,
        live: bool,
    ) -> Result<VolumeVersion, FleetError> {
        let mode = checked_mode(request.mode.unwrap_or(DIRECTORY_MODE))?;
        let change = Change::MakeDirectory { mode, parents: request.parents };
        self.change_volume(actor, name, &request.path, change, live).await
    }

    pub async fn change_volume_mode(
        &self,
        actor: &Actor,
        name: &str,
        request: ChangeMode,
        live: bool,
    ) -> Result<VolumeVersion, FleetError> {
        let change = Change::Mode(checked_mode(request.mode)?);
        self.change_volume(actor, name, &request.path, change, live).await
    }

    pub async fn delete_volume_file(
        &self,
        actor: &Actor,
        name: &str,
        path: &str,
        live: bool,
    ) -> Result<VolumeVersion, FleetError> {
        self.change_volume(actor, name, path, Change::Remove, live).await
    }

    /// A caller that goes away does not leave half of it: the lease is given back in any case.
    pub(super) async fn change_volume(
        &self,
        actor: &Actor,
        name: &str,
        path: &str,
        change: Change,
        live: bool,
    ) -> Result<VolumeVersion, FleetError> {
        let head = self.visible_volume(actor, name, VolumeMode::Rw).await?;
        plain_path(&head.name, path)?;
        let (actor, path) = (actor.clone(), path.to_string());
        self.detached(async move |fleet: Fleet| match fleet.mounted(&actor, &head).filter(|_| live) {
            Some(mounted) => fleet.change_mounted(&actor, &head, mounted, &path, change).await,
            None => fleet.change_version(&actor, &head, &path, change).await,
        })
        .await
    }

    /// Makes a version of the current one with this change.
    async fn change_version(
        &self,
        actor: &Actor,
        head: &Head,
        path: &str,
        change: Change,
    ) -> Result<VolumeVersion, FleetError> {
        let _turn = self.0.volume_turns.take(&head.id).await?;
        let mut writer = self.0.volumes.acquire(&head.tenant, &head.name, &by(actor), false).await?;
        let changed = match writer.head().id == head.id {
            true => self.changed_by(&mut writer, path, change).await,
            // It was removed and made again meanwhile: that is another one.
            false => Err(VolumeError::NotFound(head.name.clone()).into()),
        };
        let current = writer.head().current;
        if changed.is_ok()
            && self.0.volumes.is_due(writer.head())
            && let Err(error) = self.0.volumes.collect_with(&mut writer).await
        {
            tracing::warn!(volume = head.name, %error, "what is not needed could not be freed");
        }
        writer.release().await?;
        Ok(version_to_api(&changed?, current))
    }

    async fn changed_by(
        &self,
        writer: &mut Writer,
        path: &str,
        change: Change,
    ) -> Result<paddock_volumes::Version, FleetError> {
        let head = writer.head();
        if head.retired.len() >= MOST_RETIRED {
            let message =
                format!("volume `{}` got more than {MOST_RETIRED} versions within an hour", head.name);
            return Err(FleetError::new(
                Kind::TooMany { retry_after_seconds: 60 },
                "too_many_versions",
                message,
            )
            .hint(
                "each change from outside is a version; write many files from a sandbox that has the volume",
            ));
        }
        let limits = self.volume_limits(&head.tenant, &head.name).await?;
        Ok(match change {
            Change::Put { file, mode } => writer.put_file(path, file, mode, limits).await?,
            Change::MakeDirectory { mode, parents } => {
                writer.make_directory(path, mode, parents, limits).await?
            }
            Change::Mode(mode) => writer.change_mode(path, mode).await?,
            Change::Remove => writer.remove_path(path).await?,
        })
    }

    /// The head of a volume at this view; a version of what its sandbox wrote is made first, if that is asked for.
    async fn seen_volume(&self, actor: &Actor, name: &str, view: VolumeView) -> Result<Head, FleetError> {
        let head = self.visible_volume(actor, name, VolumeMode::Ro).await?;
        if !view.live {
            return Ok(head);
        }
        if view.version.is_some() {
            return Err(invalid("`live` is the present state, and `version` an earlier one")
                .hint("ask for one of them"));
        }
        if actor.only_reads() {
            let message =
                "`live` makes a version of what the sandbox wrote, and a read-only token changes nothing";
            return Err(FleetError::new(Kind::Forbidden, "forbidden", message).hint("ask without it"));
        }
        let Some(mounted) = self.mounted(actor, &head) else { return Ok(head) };
        self.checkpoint(&mounted.live, &mounted.volume).await?;
        self.visible_volume(actor, name, VolumeMode::Ro).await
    }

    async fn looked_at(
        &self,
        actor: &Actor,
        name: &str,
        view: VolumeView,
    ) -> Result<(Head, Arc<Manifest>), FleetError> {
        let head = self.seen_volume(actor, name, view).await?;
        let manifest = self.0.volumes.manifest(&head, view.version).await?;
        Ok((head, manifest.unwrap_or_else(|| Arc::new(Manifest::empty()))))
    }
}

/// The empty path is the volume itself.
fn path_or_root(head: &Head, path: &str) -> Result<Vec<u8>, FleetError> {
    match path.trim_matches('/').is_empty() {
        true => Ok(Vec::new()),
        false => Ok(plain_path(&head.name, path)?),
    }
}

fn missing(head: &Head, view: VolumeView, path: &[u8]) -> FleetError {
    let path = String::from_utf8_lossy(path).chars().take(200).collect();
    let version = view.version.or(head.current).unwrap_or(0);
    VolumeError::NoFile { volume: head.name.clone(), version, path }.into()
}

pub(super) fn checked_mode(mode: u32) -> Result<u32, FleetError> {
    match mode <= MODES {
        true => Ok(mode),
        false => {
            Err(invalid(format!("mode {mode} is not permission bits")).hint("0 to 0o7777, which is 4095"))
        }
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
