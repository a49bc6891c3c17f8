//! A sandbox that nests in another loses its processes with the guest of that one: the kernel ends a pid namespace with
//! the one around it. Its files are its own and stay: it sleeps, and wakes at the next call.

use super::live::Live;
use super::record::{Intent, now_ms};
use super::recover::has_expired;
use super::{Fleet, blocking};
use paddock_model::api::{End, EndCause, Event, SandboxState};
use std::sync::Arc;

impl Fleet {
    /// Returns true if it lost its processes that way, and sleeps now. Otherwise nothing has changed.
    ///
    /// Precondition: its guest has ended, and its transition is locked or no other task knows it yet.
    pub(super) async fn sleeps_after_loss(&self, live: &Arc<Live>) -> bool {
        let (id, around, waits_for_others, ends) = {
            let record = live.record();
            let around: Vec<_> = record.nests_in().cloned().collect();
            let ends = matches!(record.intent, Some(Intent::End(_)));
            (record.id.clone(), around, record.stands_for.is_some(), ends)
        };
        if around.is_empty() || waits_for_others || ends || has_expired(live) {
            return false;
        }
        let fleet = self.clone();
        let (own, nested_in) = (id.clone(), around.clone());
        let kept = blocking(move || {
            let engine = &fleet.0.engine;
            let lost = nested_in.iter().any(|outer| !engine.stands(outer)) && !engine.stands(&own);
            let has_files = fleet.0.storage.disk(own.as_str()).is_ok();
            if lost && has_files {
                engine.remove(&own);
            }
            Ok(lost && has_files)
        });
        if !kept.await.unwrap_or(false) {
            return false;
        }
        self.end_execs(live);
        let record = {
            let mut record = live.record();
            record.state = SandboxState::Hibernated;
            record.intent = None;
            record.paused_when_idle = false;
            (record.around, record.within) = (Vec::new(), None);
            record.clone()
        };
        if let Err(error) = self.0.save(&record) {
            tracing::error!(sandbox = %id, %error, "could not be stored");
        }
        tracing::warn!(sandbox = %id, "its processes ended with those it nested in; it sleeps, with its files");
        let inner = self.0.clone();
        tokio::task::spawn_blocking(move || {
            around.iter().for_each(|around| inner.end_shelter_unless_used(around));
        });
        self.0.announce(live, "hibernated");
        true
    }

    /// If the holder ended for another reason than a call, its snapshot has only its files from then on.
    pub(super) fn tell_of_lost_contexts(&self, snapshot: &str, snapshot_holder: &Live, end: &End) {
        if end.cause == EndCause::Killed {
            return;
        }
        tracing::warn!(snapshot, why = end.reason, "its contexts have ended: it has its files alone");
        let sandbox = snapshot_holder.record().parent.clone().unwrap_or_default();
        let detail = format!("{snapshot}: {}", end.reason);
        let event =
            Event { at_ms: now_ms(), sandbox, kind: "snapshot_contexts_ended".into(), detail: Some(detail) };
        let _ = self.0.events.send((snapshot_holder.tenant.clone(), event));
    }
}
