//! Nurseries whose interpreters are not forked any more. Sandboxes nest in them, so each ends after the last of those.

use crate::fleet::{Fleet, Inner};
use crate::zygote::Zygote;
use paddock_model::SandboxId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Those of an earlier server are known by their ids alone.
#[derive(Default)]
pub struct Nurseries(Mutex<HashMap<SandboxId, Option<Arc<Zygote>>>>);

impl Nurseries {
    fn lock(&self) -> MutexGuard<'_, HashMap<SandboxId, Option<Arc<Zygote>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One in which a sandbox of an earlier server nests.
    pub fn find_again(&self, id: SandboxId) {
        self.lock().entry(id).or_insert(None);
    }
}

impl Fleet {
    /// The server ends; who nests in one of them goes on.
    pub(super) async fn leave_nurseries(&self) {
        let inner = self.0.clone();
        let _ = tokio::task::spawn_blocking(move || {
            let all: Vec<SandboxId> = inner.nurseries.lock().keys().cloned().collect();
            all.iter().for_each(|id| inner.end_nursery_unless_used(id));
            inner.nurseries.lock().values().flatten().for_each(|zygote| zygote.leave());
        })
        .await;
    }

    /// Blocks for a moment.
    pub(super) fn retire(&self, zygote: Arc<Zygote>) {
        let id = zygote.id.clone();
        self.0.nurseries.lock().insert(id.clone(), Some(zygote));
        self.0.end_nursery_unless_used(&id);
    }
}

impl Inner {
    /// To be asked when a sandbox that nested in it has ended. Blocks for a moment.
    pub(in crate::fleet) fn end_nursery_unless_used(&self, id: &SandboxId) {
        let nests = |live: &Arc<crate::fleet::live::Live>| {
            let record = live.record();
            record.lives() && record.within.as_ref() == Some(id)
        };
        if !self.nurseries.lock().contains_key(id) || self.all().iter().any(nests) {
            return;
        }
        match self.nurseries.lock().remove(id) {
            Some(Some(zygote)) => zygote.destroy(),
            Some(None) => self.engine.remove(id),
            None => {}
        }
    }
}
