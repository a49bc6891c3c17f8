//! Bringing a fork's changes back into its parent: all chosen ones, or none.

use super::changes::is_directory_change;
use super::live::Live;
use super::{Actor, Fleet, FleetError, Kind, LOOKS, audit, has_ended};
use paddock_engine::{Layered, Sandbox as Inside};
use paddock_model::api::{
    Change, ChangeKind, FileKind, MergeConflict, MergeReport, MergeRequest, SandboxState,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The kernel takes no longer path.
const LONGEST_PATH: usize = 4095;

impl Fleet {
    /// Nothing is merged if a part would overwrite a change of the parent itself, or if a part cannot be written.
    pub async fn merge(
        &self,
        actor: &Actor,
        id: &str,
        request: MergeRequest,
    ) -> Result<MergeReport, FleetError> {
        let parent = self.find(actor, id)?;
        let child = self.find(actor, &request.from)?;
        if child.record().parent.as_deref() != Some(parent.id.as_str()) {
            return Err(FleetError::new(
                Kind::Conflict,
                "wrong_state",
                format!("sandbox {} was not forked from {}", child.id, parent.id),
            ));
        }
        // Goes on when the caller goes away: half a merge is none.
        let actor = actor.clone();
        self.detached(async move |fleet: Fleet| {
            // A fork is always locked before its parent, so that no two merges wait for each other.
            let (mut _child, mut _parent);
            let mut looks = 0;
            loop {
                for live in [&child, &parent] {
                    fleet.running_or_paused(live).await?;
                }
                _child = child.transition.lock().await;
                _parent = parent.transition.lock().await;
                looks += 1;
                // A sandbox that fell asleep again in between is woken once more.
                let asleep = |live: &Arc<Live>| live.record().state == SandboxState::Hibernated;
                if looks == LOOKS || !(asleep(&child) || asleep(&parent)) {
                    break;
                }
                drop((_parent, _child));
            }
            let from = Still::stand(&child).await?;
            let into = match Still::stand(&parent).await {
                Ok(into) => into,
                Err(error) => {
                    from.go_on().await?;
                    return Err(error);
                }
            };
            let merged =
                fleet.merge_standing(&actor, (&parent, &into), (&child, &from), &request.paths).await;
            let went_on = (from.go_on().await, into.go_on().await);
            went_on.0.and(went_on.1)?;
            merged
        })
        .await
    }

    /// Precondition: nothing runs in either of them, so that exactly the compared files are merged.
    async fn merge_standing(
        &self,
        actor: &Actor,
        (parent, into): (&Arc<Live>, &Still),
        (child, from): (&Arc<Live>, &Still),
        paths: &[String],
    ) -> Result<MergeReport, FleetError> {
        // A pipe, a socket or a device has no content to merge. It does not keep the rest from being merged.
        let (special, wanted): (Vec<_>, Vec<_>) =
            self.chosen(child, paths).await?.into_iter().partition(is_special);
        if let Some(deep) = wanted.iter().find(|change| change.path.len() > LONGEST_PATH) {
            let beginning: String = deep.path.chars().take(80).collect();
            let message = format!(
                "a path of {} bytes cannot be merged, {LONGEST_PATH} are the most: `{}...`",
                deep.path.len(),
                beginning.escape_debug()
            );
            return Err(FleetError::new(Kind::TooLarge, "too_large", message).hint(
                "name the paths that are to be merged, or move what lies so deep further up in the fork",
            ));
        }
        let skipped = special.into_iter().map(|change| {
            let reason = "it is a pipe, a socket or a device, which is not merged".into();
            MergeConflict { path: change.path, reason }
        });
        let skipped = skipped.collect();
        let forked_at = child.record().created_at_ms;
        let conflicts = self.conflicts(parent, &wanted, forked_at).await?;
        if !conflicts.is_empty() || wanted.is_empty() {
            return Ok(MergeReport { merged: Vec::new(), conflicts, skipped });
        }
        let put: Vec<String> =
            wanted.iter().filter(|c| c.kind != ChangeKind::Deleted).map(|c| c.path.clone()).collect();
        let removed = wanted.iter().filter(|c| c.kind == ChangeKind::Deleted).map(|c| c.path.as_bytes());
        let mut merge = into.inside.disk().merge(put.iter().map(String::as_bytes), removed).await?;
        let mut archive = from.inside.disk().pack_exactly(put.iter().map(String::as_bytes)).await?;
        while let Some(bytes) = archive.next().await? {
            merge.write(&bytes).await?;
        }
        merge.finish().await?;
        let paths: Vec<_> = wanted.iter().map(|change| &change.path).collect();
        let told = serde_json::json!({ "from": child.id, "paths": paths });
        audit::call(&self.0, actor, parent, "merge", told);
        Ok(MergeReport { merged: wanted, conflicts: Vec::new(), skipped })
    }

    async fn chosen(&self, child: &Arc<Live>, paths: &[String]) -> Result<Vec<Change>, FleetError> {
        let changes = self.changes_of(child).await?;
        let below = |path: &str, above: &str| {
            let above = above.trim_end_matches('/');
            path == above || path.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'))
        };
        if let Some(missing) = paths.iter().find(|wanted| !changes.iter().any(|c| below(&c.path, wanted))) {
            return Err(FleetError::new(
                Kind::NotFound,
                "file_not_found",
                format!("sandbox {} did not change `{}`", child.id, missing.escape_debug()),
            ));
        }
        let chosen =
            |change: &Change| paths.is_empty() || paths.iter().any(|wanted| below(&change.path, wanted));
        Ok(changes.into_iter().filter(chosen).collect())
    }

    async fn conflicts(
        &self,
        parent: &Arc<Live>,
        wanted: &[Change],
        forked_at_ms: u64,
    ) -> Result<Vec<MergeConflict>, FleetError> {
        let now = self.layer(parent).await?;
        let forked_at_ns = forked_at_ms as i64 * 1_000_000;
        let is_gone = |change: &Change| change.kind != ChangeKind::Added && !now.contains_key(&change.path);
        let before = match wanted.iter().any(is_gone) {
            true => self.baseline_of(parent).await?,
            false => BTreeSet::new(),
        };
        let mut conflicts = Vec::new();
        for change in wanted {
            let entry = now.get(&change.path);
            let is_directory = |layered: &Layered| layered.entry.kind == FileKind::Directory;
            let reason = match entry {
                Some(entry) if is_directory(entry) && is_directory_change(change) => continue,
                Some(entry) if entry.changed_ns > forked_at_ns && entry.whiteout => "the parent deleted it",
                Some(entry) if entry.changed_ns > forked_at_ns => "the parent changed it too",
                _ if change.kind == ChangeKind::Deleted
                    && changed_below(&now, &change.path, forked_at_ns) =>
                {
                    "the parent changed something in it"
                }
                Some(_) => continue,
                // The file was modified or deleted in the fork, and has gone from the parent's own layer since.
                None if is_gone(change) && before.contains(&change.path) => "the parent deleted it",
                None => continue,
            };
            conflicts.push(MergeConflict { path: change.path.clone(), reason: reason.into() });
        }
        Ok(conflicts)
    }
}

/// A sandbox whose work stands still.
struct Still {
    inside: Arc<Inside>,
    /// True if it ran before.
    ran: bool,
}

impl Still {
    /// Precondition: the sandbox's transition is locked.
    async fn stand(live: &Arc<Live>) -> Result<Still, FleetError> {
        let state = live.record().state;
        let inside = live.running().filter(|_| matches!(state, SandboxState::Running | SandboxState::Paused));
        let inside = inside.ok_or_else(|| {
            if state == SandboxState::Ended {
                return has_ended(&live.id);
            }
            let message = format!("sandbox {} does not run any more", live.id);
            FleetError::new(Kind::Conflict, "wrong_state", message).hint("try again")
        })?;
        let ran = state == SandboxState::Running;
        if ran {
            inside.freeze(true).await?;
        }
        Ok(Still { inside, ran })
    }

    async fn go_on(&self) -> Result<(), FleetError> {
        if self.ran {
            self.inside.freeze(false).await?;
        }
        Ok(())
    }
}

fn changed_below(now: &BTreeMap<String, Layered>, path: &str, since_ns: i64) -> bool {
    let prefix = format!("{path}/");
    let below = now.range(prefix.clone()..).take_while(|(path, _)| path.starts_with(&prefix));
    below.into_iter().any(|(_, entry)| entry.changed_ns > since_ns)
}

fn is_special(change: &Change) -> bool {
    change.entry.as_ref().is_some_and(|entry| entry.kind == FileKind::Other)
}
