//! The changes of a sandbox as a patch that `patch -p1` and `git apply` take: each file as it is now beside its state
//! when the sandbox began. Both come from inside; here they are only compared.

use super::live::Live;
use super::{Actor, Fleet, FleetError};
use paddock_engine::patch::{LARGEST_FILE, LARGEST_PATCH, cut, file, quoted};
use paddock_model::Disk;
use paddock_model::api::{Change, ChangeKind, FileKind, Since};
use paddock_protocol::When;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

/// The files that are compared at a time.
const BATCH: usize = 64;

impl Fleet {
    /// A unified diff of text files; other files are only named.
    pub async fn changes_patch(&self, actor: &Actor, id: &str, since: Since) -> Result<String, FleetError> {
        let live = self.find(actor, id)?;
        self.may_look(actor, &live).await?;
        super::changes::check_since(&live, since)?;
        let changes = self.changes_of(&live).await?;
        let start = self.start_of(&live);
        let mut patch = String::new();
        let mut told = BTreeSet::new();
        for batch in changes.chunks(BATCH) {
            let part = self.patch_of(&live, batch, &start, &mut told).await?;
            patch.push_str(&part);
            if patch.len() > LARGEST_PATCH {
                cut(&mut patch);
                break;
            }
        }
        Ok(patch)
    }

    async fn patch_of(
        &self,
        live: &Arc<Live>,
        changes: &[Change],
        start: &Beginning,
        told: &mut BTreeSet<String>,
    ) -> Result<String, FleetError> {
        let inside = self.running_or_paused(live).await?;
        let is_directory =
            |change: &&Change| change.entry.as_ref().is_some_and(|entry| entry.kind == FileKind::Directory);
        let there = changes.iter().filter(|change| change.entry.is_some() && !is_directory(change));
        let there: Vec<&str> = there.map(|change| change.path.as_str()).collect();
        let new = inside.disk().contents(When::Now, &there, LARGEST_FILE, None).await?;
        let mut old = match start {
            Beginning::Lost => BTreeMap::new(),
            Beginning::Known(archive) => {
                let before = changes.iter().filter(|change| !is_directory(change));
                let before: Vec<&str> = before.map(|change| change.path.as_str()).collect();
                inside.disk().contents(When::Start, &before, LARGEST_FILE, archive.as_deref()).await?
            }
        };
        // Files below a removed directory are listed with it.
        let mut files = BTreeMap::new();
        for change in changes {
            files.insert(change.path.clone(), (Some(change.clone()), old.remove(&change.path)));
        }
        files.extend(old.into_iter().map(|(path, held)| (path, (None, Some(held)))));
        files.retain(|path, _| told.insert(path.clone()));
        let lost = matches!(start, Beginning::Lost);
        let render = move || {
            let mut patch = String::new();
            for (path, (change, old)) in files {
                let kind = change.as_ref().map_or(ChangeKind::Deleted, |change| change.kind);
                let new = new.get(&path);
                let told = match (&change, old, kind) {
                    (Some(change), _, _) if is_directory(&change) => {
                        if kind == ChangeKind::Added {
                            let _ = writeln!(patch, "# added directory {}", quoted("", &path));
                        }
                        continue;
                    }
                    (_, _, ChangeKind::Modified | ChangeKind::Deleted) if lost => {
                        Err("what it was is not kept")
                    }
                    // A deleted entry that was no file and no link was a directory; its content is listed by itself.
                    (_, None, ChangeKind::Deleted) => {
                        let _ = writeln!(patch, "# deleted directory {}", quoted("", &path));
                        continue;
                    }
                    (_, old, ChangeKind::Deleted) => file(&path, old.as_ref(), None),
                    (_, old, _) => file(&path, old.as_ref(), new),
                };
                match told {
                    Ok(text) => patch.push_str(&text),
                    Err(why) => {
                        let verb = match kind {
                            ChangeKind::Added => "added",
                            ChangeKind::Modified => "modified",
                            ChangeKind::Deleted => "deleted",
                        };
                        let _ = writeln!(patch, "# {verb} {}: {why}", quoted("", &path));
                    }
                }
            }
            patch
        };
        tokio::task::spawn_blocking(render).await.map_err(|error| FleetError::internal(&error))
    }

    /// The place of the files that the sandbox began with, apart from its image.
    pub(super) fn start_of(&self, live: &Live) -> Beginning {
        let (base, baseline, disk) = {
            let record = live.record();
            (record.base.clone(), record.baseline.clone(), record.spec.disk.clone())
        };
        let archive =
            base.as_ref().map(|base| self.snapshot_archive(base)).filter(|archive| archive.exists());
        match (disk, base.or(baseline)) {
            (_, None) | (Disk::Directory { start: Some(_), .. }, _) => Beginning::Known(None),
            (Disk::Memory, _) if archive.is_some() => Beginning::Known(archive),
            _ => Beginning::Lost,
        }
    }
}

/// The files that a sandbox began with.
pub(super) enum Beginning {
    /// The guest has them, or has to be sent this archive.
    Known(Option<PathBuf>),
    /// The files were not kept.
    Lost,
}
