//! The task that keeps volumes while their sandboxes live: it renews leases, makes checkpoints, and stores changes
//! again that the store could not take.

use super::super::live::Live;
use super::super::{Actor, Fleet, FleetError, Kind as Failure};
use super::VolumeRecord;
use super::settle::is_final;
use paddock_model::api::{MountedVolume, SandboxState};
use paddock_storage::volumes::Unsynced;
use paddock_volumes::{Committed, Kind, VolumeError};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_secs(1);
/// The time between two attempts to store a directory.
const STORED_AGAIN_AFTER: Duration = Duration::from_secs(30);

pub fn start(fleet: &Fleet) {
    let weak = Arc::downgrade(&fleet.0);
    let renew_every = fleet.0.volumes.lease_time() / 3;
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut upkeep = Upkeep { renewed: None, retried: None, checkpoints: HashMap::new() };
        loop {
            ticks.tick().await;
            let Some(inner) = weak.upgrade() else { return };
            if inner.closing.load(Ordering::Relaxed) {
                return;
            }
            upkeep.look(&Fleet(inner), renew_every).await;
        }
    });
}

struct Upkeep {
    renewed: Option<Instant>,
    retried: Option<Instant>,
    /// The time of the last checkpoint, by directory.
    checkpoints: HashMap<String, Instant>,
}

impl Upkeep {
    async fn look(&mut self, fleet: &Fleet, renew_every: Duration) {
        let is_due = |last: Option<Instant>, every: Duration| last.is_none_or(|last| last.elapsed() >= every);
        let lives = fleet.0.all();
        if is_due(self.renewed, renew_every) {
            self.renewed = Some(Instant::now());
            for live in &lives {
                fleet.renew_leases(live).await;
            }
        }
        let mut known = HashMap::new();
        for live in &lives {
            let volumes = live.record().volumes.clone();
            for volume in volumes {
                let Some(every) = volume.checkpoint_seconds else { continue };
                let last = self.checkpoints.get(&volume.place).copied().unwrap_or_else(Instant::now);
                let due = last.elapsed().as_secs_f64() >= every;
                known.insert(volume.place.clone(), if due { Instant::now() } else { last });
                if due && let Err(error) = fleet.checkpoint(live, &volume).await {
                    tracing::warn!(sandbox = %live.id, volume = volume.name, %error, "no checkpoint was made");
                }
            }
        }
        self.checkpoints = known;
        if is_due(self.retried, STORED_AGAIN_AFTER) {
            self.retried = Some(Instant::now());
            fleet.store_the_unsynced().await;
        }
    }
}

impl Fleet {
    async fn renew_leases(&self, live: &Arc<Live>) {
        let volumes = live.record().volumes.clone();
        for volume in volumes {
            let Some(token) = volume.token else { continue };
            let renewed = match self.0.volumes.resume(token).await {
                Ok(mut writer) => writer.renew().await,
                Err(error) => Err(error),
            };
            if let Err(error) = renewed {
                tracing::warn!(sandbox = %live.id, volume = volume.name, %error, "its lease was not renewed");
            }
        }
    }

    /// Stores directories whose sandboxes are gone: from a server that was killed, or a store that did not answer.
    async fn store_the_unsynced(&self) {
        for unsynced in Unsynced::all(&self.0.options.state) {
            // A sandbox still has it.
            if self.is_mounted(&unsynced.place) {
                continue;
            }
            match self.store_directory(&unsynced).await {
                Ok(_) => tracing::info!(volume = unsynced.token.name, "stored what was left"),
                Err(error) if is_final(&error) => {
                    tracing::error!(volume = unsynced.token.name, place = unsynced.place, %error, "kept on this host");
                }
                Err(error) => tracing::warn!(volume = unsynced.token.name, %error, "still not stored"),
            }
        }
    }

    /// Makes a version of a volume while its sandbox runs.
    pub async fn checkpoint_volume(
        &self,
        actor: &Actor,
        id: &str,
        name: &str,
    ) -> Result<MountedVolume, FleetError> {
        let live = self.find(actor, id)?;
        let volumes = live.record().volumes.clone();
        let named = |volume: &&VolumeRecord| volume.to_api(&live.tenant).name == name;
        let Some(volume) = volumes.iter().find(named) else {
            let shown: String = name.chars().take(80).collect();
            return Err(VolumeError::NotFound(format!("{}` in sandbox `{}", shown, live.id)).into());
        };
        if volume.token.is_none() {
            let message = format!("volume `{name}` is read only in sandbox {}", live.id);
            return Err(FleetError::new(Failure::Conflict, "wrong_state", message));
        }
        let (of, taken) = (live.clone(), volume.clone());
        // Goes on when the caller goes away: the sandbox is frozen meanwhile.
        self.detached(async move |fleet: Fleet| fleet.checkpoint(&of, &taken).await).await?;
        let found = live.record().volumes.iter().find(named).map(|volume| volume.to_api(&live.tenant));
        found.ok_or_else(|| VolumeError::NotFound(name.into()).into())
    }

    pub(super) async fn checkpoint(&self, live: &Arc<Live>, volume: &VolumeRecord) -> Result<(), FleetError> {
        let Some(token) = volume.token.clone() else { return Ok(()) };
        let guard = live.transition.clone().lock_owned().await;
        if live.record().state == SandboxState::Ended {
            return Ok(());
        }
        let (fleet, name, of) = (self.clone(), volume.place.clone(), token.id.clone());
        let index = tokio::task::spawn_blocking(move || fleet.places().index(&name, &of));
        let mut writer = self.0.volumes.resume(token.clone()).await?;
        let limits = self.volume_limits(&token.tenant, &token.name).await?;
        let place = self.places().find(&volume.place).map_err(|error| FleetError::storage(&error))?;
        let held = self.hold_still(live).await?;
        let (fleet, of) = (self.clone(), place.clone());
        let instant = tokio::task::spawn_blocking(move || {
            let instant = fleet.places().instant(&of).map_err(|error| FleetError::storage(&error))?;
            if instant.is_none() {
                // A file that is written through a mapping gets its time only when it is written back; a snapshot
                // writes back by itself.
                let root = std::fs::File::open(&of.path).and_then(|root| Ok(rustix::fs::syncfs(root)?));
                root.map_err(|error| FleetError::storage(&error))?;
            }
            Ok(instant)
        });
        let instant = instant.await.map_err(|error| FleetError::internal(&error)).and_then(|instant| instant);
        // An index that could not be read counts as none.
        let index = index.await.ok().flatten();
        let committed: Result<Committed, FleetError> = match instant {
            Ok(Some(instant)) => {
                self.let_go_on(live, held).await?;
                let live = &place.path;
                let committed =
                    writer.commit_copy(&instant.path, live, index, limits, Kind::Checkpoint).await;
                let fleet = self.clone();
                // This is not waited for: the next server sweeps the remains.
                tokio::spawn(async move { fleet.drop_place(&instant.name).await });
                committed.map_err(FleetError::from)
            }
            Ok(None) => {
                let committed = writer.commit(&place.path, index, limits, Kind::Checkpoint).await;
                self.let_go_on(live, held).await?;
                committed.map_err(FleetError::from)
            }
            Err(error) => {
                self.let_go_on(live, held).await?;
                Err(error)
            }
        };
        let Committed { version, index, .. } = committed?;
        let record = {
            let mut record = live.record();
            for known in record.volumes.iter_mut().filter(|known| known.place == volume.place) {
                known.version = Some(version.number);
            }
            record.clone()
        };
        self.0.save(&record)?;
        let (fleet, place) = (self.clone(), volume.place.clone());
        // The next sync waits for the index, and this caller does not: a version without it is whole, and only costs
        // the next sync a look at all files.
        tokio::task::spawn_blocking(move || {
            if let Err(error) = fleet.places().save_index(&place, &index) {
                tracing::warn!(place, %error, "the next sync reads everything");
            }
            drop(guard);
        });
        Ok(())
    }

    /// Returns true if the work was frozen, and has to go on afterwards.
    async fn hold_still(&self, live: &Arc<Live>) -> Result<bool, FleetError> {
        let runs = live.record().state == SandboxState::Running;
        match live.running().filter(|_| runs) {
            Some(inside) => inside.freeze(true).await.map(|()| true).map_err(FleetError::from),
            None => Ok(false),
        }
    }

    async fn let_go_on(&self, live: &Arc<Live>, held: bool) -> Result<(), FleetError> {
        match live.running().filter(|_| held) {
            Some(inside) => inside.freeze(false).await.map_err(FleetError::from),
            None => Ok(()),
        }
    }
}
