//! A snapshot that keeps interpreters has a holder: a fork of its sandbox, in which they wait as they stood then.
//! Sandboxes that begin with the snapshot are forked from the holder.
//!
//! The holder is a sandbox like others, recorded, limited and counted as one, so that it outlives the server; but no
//! caller sees it. It ends with its snapshot, or after a day in which no sandbox began with the snapshot. The snapshot
//! then has only its files.

use super::forks::Child;
use super::live::Live;
use super::live_fork::{Boarding, OF_ANOTHER, Passage, not_live};
use super::memory::KeptFrom;
use super::record::{Record, now_ms};
use super::snapshots::SnapshotRecord;
use super::{Actor, Fleet, FleetError};
use paddock_model::api::{EndCause, Fork};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;

/// How long an unused holder waits, with or without a server.
const UNUSED: Duration = Duration::from_secs(24 * 60 * 60);

/// The state that a snapshot is to keep besides files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// And memory, where the backend keeps it.
    Files,
    /// Without memory, whatever the backend keeps: what begins with them begins anew.
    FilesAlone,
    /// The interpreters that can be kept.
    WhatItCan,
    /// All interpreters, or it is an error.
    Interpreters,
}

impl Fleet {
    /// The interpreters of a sandbox, ready to be kept.
    pub(super) async fn board_for_snapshot(
        &self,
        actor: &Actor,
        live: &Arc<Live>,
        keeps: Keeps,
    ) -> Result<Option<Arc<Passage>>, FleetError> {
        // If the backend keeps memory, interpreters are kept in it.
        if matches!(keeps, Keeps::Files | Keeps::FilesAlone) || live.keeps_memory() {
            return Ok(None);
        }
        match self.board(actor, live, keeps == Keeps::Interpreters).await? {
            Boarding::Ready(passage, _) => Ok(Some(Arc::new(passage))),
            Boarding::Nobody(why) if keeps == Keeps::Interpreters => Err(not_live(&why)),
            Boarding::Nobody(_) => Ok(None),
        }
    }

    /// The record of the future holder.
    pub(super) fn snapshot_holder_for(&self, live: &Arc<Live>, snapshot: &str) -> Result<Record, FleetError> {
        let mut record = self.child_of(live, &Fork::default(), None)?;
        let expires = now_ms() + UNUSED.as_millis() as u64;
        (record.expires_at_ms, record.idle, record.persistent) = (Some(expires), None, false);
        record.stands_for = Some(snapshot.to_string());
        record.nest_in(&live.record());
        self.inherit_secrets(live, &mut record, false)?;
        record.leave_volumes();
        Ok(record)
    }

    /// Makes the holder. There is none if no interpreter could be copied.
    ///
    /// Precondition: the snapshot is stored.
    pub(super) async fn raise_snapshot_holder(
        &self,
        live: &Arc<Live>,
        snapshot: &SnapshotRecord,
        record: Record,
        passage: Arc<Passage>,
    ) -> Result<(), FleetError> {
        let permit = self.admit(&record).await?;
        let _guard = live.transition.clone().lock_owned().await;
        let (child, baseline) =
            (Child { place: 0, record, permit, crossing: None, copied: None }, snapshot.baseline.clone());
        for (_, raised) in self.raise_children(&snapshot.id, baseline, vec![child], Some(passage)).await {
            let snapshot_holder = raised?;
            if snapshot_holder.contexts.all().is_empty() {
                self.end(&snapshot_holder, EndCause::Killed).await?;
            }
        }
        Ok(())
    }

    pub(super) fn snapshot_holder_of(&self, snapshot: &SnapshotRecord) -> Option<Arc<Live>> {
        let id = snapshot.snapshot_holder.as_ref()?;
        self.0.live.get(id.as_str())
    }

    /// The interpreters that a sandbox of this record begins with; it then nests in the holder, which cannot be ended
    /// while the guard is held. `None` if only files fit, or were asked for; an error if the interpreters were asked
    /// for and do not fit.
    pub(super) async fn board_snapshot_holder(
        &self,
        actor: &Actor,
        snapshot: &SnapshotRecord,
        record: &mut Record,
        wanted: Option<bool>,
    ) -> Result<Option<(Arc<Passage>, OwnedMutexGuard<()>)>, FleetError> {
        // The memory is kept as a whole, or only files were asked for.
        if wanted == Some(false) || snapshot.memory.is_some() {
            return Ok(None);
        }
        match self.boarded(actor, snapshot, record, wanted).await {
            Ok(aboard) => Ok(Some(aboard)),
            Err(error) if wanted == Some(true) => Err(error),
            Err(error) => {
                tracing::info!(snapshot = snapshot.id, why = error.message, "begun with the files alone");
                Ok(None)
            }
        }
    }

    async fn boarded(
        &self,
        actor: &Actor,
        snapshot: &SnapshotRecord,
        record: &mut Record,
        wanted: Option<bool>,
    ) -> Result<(Arc<Passage>, OwnedMutexGuard<()>), FleetError> {
        let snapshot_holder =
            self.snapshot_holder_of(snapshot).ok_or_else(|| not_live("the snapshot keeps none"))?;
        let fits = KeptFrom::of(&snapshot_holder).fits_interpreters(record)
            && snapshot_holder.tenant == record.tenant;
        if !fits {
            return Err(not_live(
                "the fence of the new sandbox is another than that of the one that was kept",
            ));
        }
        if wanted.is_none() && snapshot_holder.record().is_of_another(actor) {
            return Err(not_live(OF_ANOTHER));
        }
        let guard = snapshot_holder.transition.clone().lock_owned().await;
        self.prolong(&snapshot_holder, UNUSED)?;
        match self.board(actor, &snapshot_holder, wanted == Some(true)).await? {
            Boarding::Ready(mut passage, _) => {
                passage.few = true;
                record.nest_in(&snapshot_holder.record());
                Ok((Arc::new(passage), guard))
            }
            Boarding::Nobody(why) => Err(not_live(&why)),
        }
    }

    pub(super) async fn end_snapshot_holder(&self, snapshot: &SnapshotRecord) -> Result<(), FleetError> {
        match self.snapshot_holder_of(snapshot) {
            Some(snapshot_holder) => self.end(&snapshot_holder, EndCause::Killed).await.map(drop),
            None => Ok(()),
        }
    }

    /// Ends holders whose snapshot was never written, or is gone: the server was killed in between.
    pub(super) async fn sweep_snapshot_holders(&self) -> Result<(), FleetError> {
        for live in self.0.all() {
            let snapshot = live.record().stands_for.clone();
            if let Some(snapshot) = snapshot
                && self.0.store.snapshot(&snapshot)?.is_none()
            {
                self.end(&live, EndCause::Killed).await?;
            }
        }
        Ok(())
    }
}
