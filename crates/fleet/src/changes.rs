//! The changes of a sandbox since its start.

use super::archives::{self, Lasts};
use super::live::Live;
use super::patch::Beginning;
use super::{Actor, Download, Fleet, FleetError, Kind};
use paddock_engine::{Layered, Sandbox as Inside};
use paddock_model::Spec;
use paddock_model::api::{Change, ChangeKind, Changes, FileKind, Since};
use paddock_protocol::When;
use paddock_settings::WORKSPACE_TARGET;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The most paths of one question to the guest.
const ASKED_AT_ONCE: usize = 2048;
/// Two files beside the archive of a hibernated sandbox: its changes, and the list of its paths.
pub(super) const CHANGES: &str = "changes";
pub(super) const LISTED: &str = "list";
const BASELINE_LOST: &str = "baseline_lost";

impl Fleet {
    pub async fn changes(&self, actor: &Actor, id: &str, since: Since) -> Result<Changes, FleetError> {
        let live = self.find(actor, id)?;
        self.may_look(actor, &live).await?;
        check_since(&live, since)?;
        let changes = self.changes_of(&live).await?;
        Ok(Changes { since, changes })
    }

    /// A tar of the added and modified files.
    pub async fn changes_archive(
        &self,
        actor: &Actor,
        id: &str,
        since: Since,
    ) -> Result<Download, FleetError> {
        let live = self.find(actor, id)?;
        self.may_look(actor, &live).await?;
        check_since(&live, since)?;
        let changes = self.changes_of(&live).await?;
        let paths =
            changes.iter().filter(|change| change.kind != ChangeKind::Deleted).map(|c| c.path.clone());
        self.pack(&live, paths.collect()).await
    }

    /// A caller that may only look does not wake a sandbox.
    pub(super) async fn may_look(&self, actor: &Actor, live: &Arc<Live>) -> Result<(), FleetError> {
        if actor.only_reads() {
            self.awake(live).await?;
        }
        Ok(())
    }

    pub(super) async fn changes_of(&self, live: &Arc<Live>) -> Result<Vec<Change>, FleetError> {
        let awake = self.running_or_paused(live).await?;
        let now = by_path(awake.disk().manifest().await?);
        let before = self.baseline_in(live, &awake).await?;
        self.changes_between(live, &awake, &now, before).await
    }

    /// The changes from the state before to `now`.
    async fn changes_between(
        &self,
        live: &Live,
        inside: &Inside,
        now: &BTreeMap<String, Layered>,
        before: BTreeSet<String>,
    ) -> Result<Vec<Change>, FleetError> {
        let (ready_at_ns, built_ns) = {
            let record = live.record();
            (record.ready_at_ns, record.built_ns.clone())
        };
        let by_the_guest = |at: i64| built_ns.iter().any(|(from, to)| (*from..=*to).contains(&at));
        let earlier = self.kept_changes(live);
        let mut changes = Vec::new();
        for (path, entry) in now {
            if by_the_guest(entry.changed_ns) {
                // The file was copied back when the sandbox woke: its earlier kind of change is known from then.
                if let Some(kind) = earlier.get(path) {
                    changes.push(Change {
                        kind: *kind,
                        path: path.clone(),
                        entry: Some(entry.entry.clone()),
                    });
                }
                continue;
            }
            let node = entry.entry.clone();
            let kind = if entry.whiteout {
                if entry.changed_ns <= ready_at_ns {
                    continue;
                }
                ChangeKind::Deleted
            } else if before.contains(path) || entry.in_image {
                // A directory changes with everything in it; only the entries in it are reported.
                if entry.changed_ns <= ready_at_ns || node.kind == FileKind::Directory {
                    continue;
                }
                ChangeKind::Modified
            } else if entry.born_ns > ready_at_ns {
                ChangeKind::Added
            } else if entry.born_ns == 0 && entry.changed_ns > ready_at_ns && node.kind != FileKind::Directory
            {
                // The kernel does not tell when the file was made; the list of paths at the start shows that it is new.
                ChangeKind::Added
            } else if entry.changed_ns > ready_at_ns && node.kind != FileKind::Directory {
                ChangeKind::Modified
            } else {
                continue;
            };
            let entry = (kind != ChangeKind::Deleted).then_some(node);
            changes.push(Change { kind, path: path.clone(), entry });
        }
        let covered = covered(&live.record().spec);
        let is_covered = |path: &str| covered.iter().any(|target| Path::new(path).starts_with(target));
        for path in before.iter().filter(|path| !now.contains_key(*path) && !is_covered(path)) {
            changes.push(Change { kind: ChangeKind::Deleted, path: path.clone(), entry: None });
        }
        if live.record().image.is_some() {
            self.compare_with_image(live, inside, now, &mut changes).await?;
        }
        changes.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(changes)
    }

    /// Corrects two kinds of changes. A replaced file of the image looks new, and the files that a replaced directory
    /// hides leave no mark of their own.
    async fn compare_with_image(
        &self,
        live: &Live,
        inside: &Inside,
        now: &BTreeMap<String, Layered>,
        changes: &mut Vec<Change>,
    ) -> Result<(), FleetError> {
        let Beginning::Known(archive) = self.start_of(live) else { return Ok(()) };
        let ready_at_ns = live.record().ready_at_ns;
        let replaced = now.iter().filter(|(_, entry)| entry.opaque && entry.changed_ns > ready_at_ns);
        let replaced: Vec<&str> = replaced.map(|(path, _)| path.as_str()).collect();
        let new =
            changes.iter().filter(|change| change.kind == ChangeKind::Added && !is_directory_change(change));
        let new: Vec<String> = new.map(|change| change.path.clone()).collect();
        let asked: Vec<&str> = replaced.into_iter().chain(new.iter().map(String::as_str)).collect();
        let mut known: BTreeSet<String> = changes.iter().map(|change| change.path.clone()).collect();
        for paths in asked.chunks(ASKED_AT_ONCE) {
            let was = inside.disk().contents(When::Start, paths, 0, archive.as_deref()).await?;
            for change in
                changes.iter_mut().filter(|c| c.kind == ChangeKind::Added && was.contains_key(&c.path))
            {
                change.kind = ChangeKind::Modified;
            }
            for path in was.into_keys().filter(|path| !now.contains_key(path)) {
                if known.insert(path.clone()) {
                    changes.push(Change { kind: ChangeKind::Deleted, path, entry: None });
                }
            }
        }
        Ok(())
    }

    /// Keeps the changes before a sandbox without a disk of its own sleeps: after it is copied back, everything looks
    /// new. Also keeps the list of its paths, for sandboxes that begin with its files.
    ///
    /// Precondition: nothing changes meanwhile.
    pub(super) async fn keep_changes(&self, live: &Live, inside: &Inside) -> Result<(), FleetError> {
        let now = by_path(inside.disk().manifest().await?);
        let before = match self.baseline_in(live, inside).await {
            Err(error) if error.code == BASELINE_LOST => {
                tracing::warn!(sandbox = %live.id, "it sleeps without a list of what it began with");
                BTreeSet::new()
            }
            before => before?,
        };
        let changes = self.changes_between(live, inside, &now, before).await?;
        let kinds: BTreeMap<String, ChangeKind> = changes.into_iter().map(|c| (c.path, c.kind)).collect();
        let archive = self.archive_of(&live.id);
        let there: BTreeSet<&String> =
            now.iter().filter(|(_, entry)| !entry.whiteout).map(|(path, _)| path).collect();
        write_list(&archive.with_extension(CHANGES), &kinds, Lasts::AlsoThen)?;
        write_list(&archive.with_extension(LISTED), &there, Lasts::AlsoThen)
    }

    /// Keeps the list of a hibernated sandbox's paths.
    pub(super) async fn keep_list(&self, live: &Live, inside: &Inside) -> Result<(), FleetError> {
        let there = paths_of(&inside.disk().manifest().await?);
        write_list(&self.archive_of(&live.id).with_extension(LISTED), &there, Lasts::AlsoThen)
    }

    /// Copies that list for sandboxes that begin with the files kept under `name`. `None` if there is none: an earlier
    /// version put the sandbox to sleep, and its own start is not known either.
    pub(super) fn copy_list(
        &self,
        live: &Live,
        name: &str,
        lasts: Lasts,
    ) -> Result<Option<String>, FleetError> {
        let named = baseline_named(name);
        let list = self.archive_of(&live.id).with_extension(LISTED);
        let began = live.record().baseline.clone().map(|baseline| self.baseline_file(&baseline));
        for from in std::iter::once(list).chain(began) {
            match archives::copy(&from, &self.baseline_file(&named), lasts) {
                Ok(()) => return Ok(Some(named)),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(FleetError::storage(&error)),
            }
        }
        Ok(None)
    }

    fn kept_changes(&self, live: &Live) -> BTreeMap<String, ChangeKind> {
        let file = self.archive_of(&live.id).with_extension(CHANGES);
        std::fs::read(file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    /// The entries of the sandbox's own disk now, by path.
    pub(super) async fn layer(&self, live: &Arc<Live>) -> Result<BTreeMap<String, Layered>, FleetError> {
        let inside = self.running_or_paused(live).await?;
        Ok(by_path(inside.disk().manifest().await?))
    }

    async fn pack(&self, live: &Arc<Live>, paths: Vec<String>) -> Result<Download, FleetError> {
        let awake = self.running_or_paused(live).await?;
        let stream = awake.disk().pack(paths.iter().map(String::as_bytes)).await?;
        Ok(Download::from_inside(stream, live.open_stream(), awake))
    }

    /// Writes the list of existing paths, for forks and for sandboxes that begin with a snapshot.
    pub(super) fn keep_baseline(
        &self,
        name: &str,
        manifest: &[Layered],
        lasts: Lasts,
    ) -> Result<String, FleetError> {
        let named = baseline_named(name);
        write_list(&self.baseline_file(&named), &paths_of(manifest), lasts)?;
        Ok(named)
    }

    fn baseline_file(&self, baseline: &str) -> PathBuf {
        self.0.options.state.join("baselines").join(baseline)
    }

    /// Removes a list, if no sandbox and no snapshot needs it any more.
    pub(super) fn drop_baseline(&self, name: &str) {
        let snapshot = name
            .strip_suffix(".json")
            .is_some_and(|id| self.0.store.snapshot(id).is_ok_and(|found| found.is_some()));
        if !snapshot && !self.0.live.is_baseline(name) {
            let _ = std::fs::remove_file(self.baseline_file(name));
        }
    }

    /// The paths that existed when the sandbox began. For a cloned disk there is no list: the guest lists the disk that
    /// it was cloned from. That list leaves out paths that this very sandbox has mounts over, so it fits no other
    /// sandbox.
    pub(super) async fn baseline_of(&self, live: &Arc<Live>) -> Result<BTreeSet<String>, FleetError> {
        let awake = self.running_or_paused(live).await?;
        self.baseline_in(live, &awake).await
    }

    async fn baseline_in(&self, live: &Live, inside: &Inside) -> Result<BTreeSet<String>, FleetError> {
        let Some(name) = live.record().baseline.clone() else { return Ok(BTreeSet::new()) };
        match std::fs::read(self.baseline_file(&name)) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| FleetError::internal(&error)),
            Err(error) if error.kind() == ErrorKind::NotFound && self.0.storage.keeps_disks() => {
                Ok(paths_of(&inside.disk().manifest_of_start().await?))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let message = format!("the list of what sandbox {} began with is lost", live.id);
                Err(FleetError::new(Kind::Conflict, BASELINE_LOST, message)
                    .hint("its files are whole; make a snapshot of it, and begin with that to compare from there on"))
            }
            Err(error) => Err(FleetError::storage(&error)),
        }
    }
}

/// The name of the list that belongs to the files kept under this name.
pub(super) fn baseline_named(name: &str) -> String {
    format!("{name}.json")
}

fn by_path(manifest: Vec<Layered>) -> BTreeMap<String, Layered> {
    manifest.into_iter().map(|layered| (layered.entry.path.clone(), layered)).collect()
}

fn write_list(file: &Path, list: &impl Serialize, lasts: Lasts) -> Result<(), FleetError> {
    let bytes = serde_json::to_vec(list).map_err(|error| FleetError::internal(&error))?;
    let written = archives::write(file, &mut bytes.as_slice(), lasts);
    written.map_err(|error| FleetError::storage(&error))
}

fn paths_of(manifest: &[Layered]) -> BTreeSet<String> {
    let there = manifest.iter().filter(|entry| !entry.whiteout);
    there.map(|layered| layered.entry.path.clone()).collect()
}

/// The paths at which the sandbox has mounts instead of its own disk.
fn covered(spec: &Spec) -> Vec<PathBuf> {
    let workspace = spec.workspace.iter().map(|_| PathBuf::from(WORKSPACE_TARGET));
    spec.mounts.iter().map(|mount| mount.target.clone()).chain(workspace).collect()
}

pub(super) fn is_directory_change(change: &Change) -> bool {
    change.entry.as_ref().is_some_and(|entry| entry.kind == FileKind::Directory)
}

/// A sandbox begins with its snapshot or its parent, so the three are one moment; a caller can only name one that the
/// sandbox has.
pub(super) fn check_since(live: &Live, since: Since) -> Result<(), FleetError> {
    let record = live.record();
    let lacks = match since {
        Since::Start => return Ok(()),
        Since::Snapshot if record.snapshot.is_none() => "did not begin with a snapshot",
        Since::Parent if record.parent.is_none() => "was not forked",
        Since::Snapshot | Since::Parent => return Ok(()),
    };
    let message = format!("sandbox {} {lacks}", live.id);
    Err(FleetError::new(Kind::Conflict, "wrong_state", message).hint("ask for changes since `start`"))
}
