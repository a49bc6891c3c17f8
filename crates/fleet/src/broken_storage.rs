//! A storage that met an error of the disk below it takes no writes until it is mounted anew, which is impossible while
//! a sandbox has a disk of it. So the server restarts as soon as the disk has room, and a starting server puts such
//! sandboxes to sleep: their processes end, their files stay, and the next call wakes them.

use super::record::{Intent, Record};
use super::{Fleet, FleetError};
use paddock_engine::{Engine, FindBackends};
use paddock_model::api::SandboxState;
use paddock_records::store::Store;
use paddock_storage::{Storage, StorageError};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::Ordering;

/// The storage writes at least this much when it is mounted.
const ROOM_BYTES: u64 = 64 << 20;

/// Opens the storage; if it is broken and sandboxes hold it, they are put to sleep first.
pub fn open_storage(state: &Path, store: &Store, backends: FindBackends) -> Result<Storage, FleetError> {
    let failed = |error: StorageError| FleetError::storage(&error);
    match Storage::open(state) {
        Err(StorageError::Broken { file }) => {
            tracing::error!(file = %file.display(), "sandboxes hold a storage that takes no writes: they are put to sleep");
            put_to_sleep(state, store, backends)?;
            Storage::open(state).map_err(failed)
        }
        opened => opened.map_err(failed),
    }
}

/// The records are written first: a server that is killed in between leaves sandboxes without a guest that are recorded
/// as asleep.
fn put_to_sleep(state: &Path, store: &Store, backends: FindBackends) -> Result<(), FleetError> {
    for row in store.living_sandboxes()? {
        // A record of another version perhaps; its sandbox cannot run on either.
        let Ok(mut record) = serde_json::from_str::<Record>(&row.body) else { continue };
        if !matches!(record.state, SandboxState::Running | SandboxState::Paused) || ends(&record) {
            continue;
        }
        record.intent = Some(Intent::Hibernate);
        record.paused_when_idle = false;
        (record.around, record.within) = (Vec::new(), None);
        let body = serde_json::to_string(&record).map_err(|error| FleetError::internal(&error))?;
        store.update_sandbox(record.id.as_str(), record.state, None, &body)?;
    }
    for id in Engine::with_backends(state, backends).sweep(&BTreeSet::new()) {
        tracing::warn!(sandbox = %id, "its processes were ended; its files stay");
    }
    Ok(())
}

fn ends(record: &Record) -> bool {
    matches!(record.intent, Some(Intent::End(_)))
}

impl Fleet {
    /// Ready when the server should restart, so that the storage can be mounted anew.
    pub async fn storage_needs_a_restart(&self) {
        self.0.begin_anew.notified().await;
    }

    /// Called every second.
    pub(super) fn look_at_storage(&self) {
        let Err(error) = self.0.storage.check_writable() else { return };
        if !self.0.storage_is_broken.swap(true, Ordering::Relaxed) {
            tracing::error!(%error, "sandboxes can read and not write; the server begins anew when the disk has room");
        }
        let room = rustix::fs::statvfs(&self.0.options.state)
            .is_ok_and(|found| found.f_bavail.saturating_mul(found.f_frsize) >= ROOM_BYTES);
        if room {
            self.0.begin_anew.notify_one();
        }
    }
}
