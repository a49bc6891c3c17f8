//! A volume that a sandbox has to write: calls from outside see its present state, and change it through the sandbox's own guest,
//! inside the fence and with the rights of its user.

use super::super::live::Live;
use super::super::{Actor, Fleet, FleetError, Kind, WriteOptions};
use super::content::Change;
use super::resources::version_to_api;
use super::{SANDBOX_HOLDER, VolumeRecord};
use paddock_model::api::{ChangeMode, MakeDirectory, SandboxState, VolumeVersion};
use paddock_volumes::{Head, Manifest, Node, VolumeError, plain_path};
use std::sync::Arc;
use tokio::io::AsyncReadExt;

/// Bytes of an upload that go inside at a time.
const PIECE: usize = 128 << 10;

/// The sandbox that writes to a volume, and the volume in its record.
pub(super) struct Mounted {
    pub live: Arc<Live>,
    pub volume: VolumeRecord,
}

impl Fleet {
    /// The sandbox of the actor's that has the lease. Another tenant's, to which the volume is shared, is none of it.
    pub(super) fn mounted(&self, actor: &Actor, head: &Head) -> Option<Mounted> {
        let (lease, _) = head.held()?;
        let live = self.living(actor, lease.holder.strip_prefix(SANDBOX_HOLDER)?)?;
        let has_it = |volume: &&VolumeRecord| {
            let token = volume.token.as_ref();
            token.is_some_and(|token| token.id == head.id && token.generation == lease.generation)
        };
        let volume = live.record().volumes.iter().find(has_it).cloned()?;
        Some(Mounted { live, volume })
    }

    /// Precondition: the path is one that [`plain_path`] takes.
    pub(super) async fn change_mounted(
        &self,
        actor: &Actor,
        head: &Head,
        Mounted { live, volume }: Mounted,
        path: &str,
        change: Change,
    ) -> Result<VolumeVersion, FleetError> {
        let plain = plain_path(&head.name, path)?;
        let state = live.record().state;
        if state != SandboxState::Running {
            // A change would wake it, and its owner put it to sleep.
            let message = format!("sandbox {}, which has volume `{}`, does not run", live.id, head.name);
            return Err(
                FleetError::new(Kind::Conflict, "wrong_state", message).hint("resume or wake it first")
            );
        }
        // The guest would follow links that lead out of the volume to other files of the sandbox.
        self.checkpoint(&live, &volume).await?;
        let before = self.0.volumes.head(&head.tenant, &head.name).await?;
        if let Some(manifest) = self.0.volumes.manifest(&before, None).await? {
            without_links(&head.name, &manifest, &plain, matches!(change, Change::Remove))?;
        }
        let inside = format!("{}/{}", volume.path, path.trim_matches('/'));
        self.change_inside(actor, &live.id, inside, change).await?;
        self.checkpoint(&live, &volume).await?;
        let after = self.0.volumes.head(&head.tenant, &head.name).await?;
        let current = after.version(None)?.ok_or_else(|| VolumeError::NotFound(head.name.clone()))?;
        Ok(version_to_api(current, after.current))
    }

    async fn change_inside(
        &self,
        actor: &Actor,
        id: &str,
        path: String,
        change: Change,
    ) -> Result<(), FleetError> {
        match change {
            Change::Put { file, mode } => {
                let options = WriteOptions { mode: Some(mode), parents: true, ..WriteOptions::default() };
                let mut upload = self.write_file(actor, id, &path, options).await?;
                let mut file = tokio::fs::File::from_std(file);
                let mut piece = vec![0; PIECE];
                loop {
                    match file.read(&mut piece).await.map_err(|error| FleetError::storage(&error))? {
                        0 => break,
                        count => upload.write(&piece[..count]).await?,
                    }
                }
                upload.finish().await?;
            }
            Change::MakeDirectory { mode, parents } => {
                self.make_directory(actor, id, MakeDirectory { path, mode: Some(mode), parents }, None)
                    .await?;
            }
            Change::Mode(mode) => {
                self.change_mode(actor, id, ChangeMode { path, mode }, None).await?;
            }
            Change::Remove => self.remove_file(actor, id, &path, true, None).await?,
        }
        Ok(())
    }
}

/// A link on the way is refused. `leaf_may_be`: the entry itself may be one, for it is removed and not followed.
fn without_links(
    volume: &str,
    manifest: &Manifest,
    path: &[u8],
    leaf_may_be: bool,
) -> Result<(), VolumeError> {
    let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    let leaf = (!leaf_may_be).then_some(path.len());
    for end in ends.chain(leaf) {
        let entry = manifest.find(&path[..end]);
        if entry.is_some_and(|entry| matches!(entry.node, Node::Link { .. })) {
            let path = String::from_utf8_lossy(&path[..end]).chars().take(200).collect();
            return Err(VolumeError::NotAFile { volume: volume.into(), path, is: "a symbolic link" });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use paddock_volumes::Entry;

    #[test]
    fn no_link_is_on_the_way() {
        let mut manifest = Manifest::empty();
        manifest.entries.push(Entry::directory(b"a", 0o755));
        let mut link = Entry::directory(b"a/link", 0o777);
        link.node = Node::Link { target: b"/etc".to_vec().into() };
        manifest.entries.push(link);
        let check = |path: &str, leaf| without_links("v", &manifest, path.as_bytes(), leaf);
        check("a/file", false).unwrap();
        check("missing/file", false).unwrap();
        check("a/link", true).unwrap();
        for path in ["a/link", "a/link/passwd"] {
            assert_eq!(check(path, false).unwrap_err().code(), "not_a_file");
        }
        check("a/link/passwd", true).unwrap_err();
    }
}
