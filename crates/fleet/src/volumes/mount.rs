//! Leases are taken and versions written out before the fence goes up. If a step fails, all of it is given back.

use super::super::record::Record;
use super::super::{Actor, Fleet, FleetError, Kind};
use super::{SANDBOX_HOLDER, VolumeRecord, Wanted};
use paddock_model::api::VolumeMode;
use paddock_model::{Access, Mount};
use paddock_storage::volumes::Place;
use paddock_volumes::{Head, VolumeError, Writer};

impl Fleet {
    /// Puts the volumes into the description. If the sandbox cannot be brought up, the caller calls
    /// [`Fleet::release_volumes`].
    pub(crate) async fn mount_volumes(
        &self,
        actor: &Actor,
        wanted: &[Wanted],
        record: &mut Record,
    ) -> Result<(), FleetError> {
        for (number, one) in wanted.iter().enumerate() {
            let mounted = match one.mount.mode {
                VolumeMode::Ro => self.mount_to_read(actor, one).await,
                VolumeMode::Rw => self.mount_to_write(actor, one, record.id.as_str(), number).await,
            };
            match mounted {
                Ok((volume, place)) => {
                    let access = if volume.mode == VolumeMode::Ro { Access::Read } else { Access::Write };
                    let target = one.target.clone();
                    record.spec.mounts.push(Mount { access, source: Some(place.path), target });
                    record.volumes.push(volume);
                }
                Err(error) => {
                    self.release_volumes(record).await;
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Releases the leases and directories; nothing was written yet.
    pub(crate) async fn release_volumes(&self, record: &Record) {
        for volume in &record.volumes {
            let Some(token) = volume.token.clone() else { continue };
            if let Ok(writer) = self.0.volumes.resume(token).await {
                let _ = writer.release().await;
            }
            self.drop_place(&volume.place).await;
        }
    }

    pub(super) async fn drop_place(&self, name: &str) {
        let (fleet, name) = (self.clone(), name.to_string());
        let dropped = tokio::task::spawn_blocking(move || {
            if let Err(error) = fleet.places().remove(&name) {
                tracing::warn!(name, %error, "the directory of a volume could not be removed");
            }
        });
        let _ = dropped.await;
    }

    async fn mount_to_read(
        &self,
        actor: &Actor,
        wanted: &Wanted,
    ) -> Result<(VolumeRecord, Place), FleetError> {
        let head = self.visible_volume(actor, &wanted.mount.name, VolumeMode::Ro).await?;
        let version = head.version(wanted.mount.version)?.map(|version| version.number);
        let place = self.written_out(&head, version).await?;
        Ok((of(wanted, version, &place, None), place))
    }

    async fn mount_to_write(
        &self,
        actor: &Actor,
        wanted: &Wanted,
        sandbox: &str,
        number: usize,
    ) -> Result<(VolumeRecord, Place), FleetError> {
        if !self.places().are_limited() && !actor.owner {
            let why = self.0.storage.why_copy().unwrap_or("it has no storage");
            let message =
                format!("volumes cannot be written to on this host, for nothing would limit them: {why}");
            return Err(
                FleetError::new(Kind::Unsupported, "unsupported", message).hint("mount them with mode `ro`")
            );
        }
        let own = wanted.tenant == actor.tenant;
        match self.visible_volume(actor, &wanted.mount.name, VolumeMode::Rw).await {
            Ok(_) => {}
            Err(error) if error.code == "volume_not_found" && own => {
                self.check_volume_count(&wanted.tenant).await?
            }
            Err(error) => return Err(error),
        }
        let limits = self.volume_limits(&wanted.tenant, &wanted.name).await?;
        let holder = format!("{SANDBOX_HOLDER}{sandbox}");
        let writer = self.0.volumes.acquire(&wanted.tenant, &wanted.name, &holder, own).await?;
        match self.place_to_write(&writer, sandbox, number, limits.bytes).await {
            Ok(place) => {
                let version = writer.head().current;
                Ok((of(wanted, version, &place, Some(writer.token().clone())), place))
            }
            Err(error) => {
                let _ = writer.release().await;
                Err(error)
            }
        }
    }

    async fn place_to_write(
        &self,
        writer: &Writer,
        sandbox: &str,
        number: usize,
        limit: u64,
    ) -> Result<Place, FleetError> {
        let head = writer.head().clone();
        // If copies cost nothing, the version is written out once for all.
        let source = match self.places().are_limited() {
            true => Some(self.written_out(&head, head.current).await?),
            false => None,
        };
        let (fleet, sandbox) = (self.clone(), sandbox.to_string());
        let made = tokio::task::spawn_blocking(move || {
            let places = fleet.places();
            match source {
                Some(from) => places.work_on(&from, &sandbox, number, limit).map(|place| (place, true)),
                None => places.work(&sandbox, number, limit).map(|place| (Some(place), false)),
            }
        });
        let made = made.await.map_err(|error| FleetError::internal(&error))?;
        let (place, filled) = made.map_err(|error| FleetError::storage(&error))?;
        let place = place.ok_or_else(|| FleetError::internal(&VolumeError::NotFound(head.name.clone())))?;
        if !filled {
            self.fill(&head, head.current, &place).await?;
        }
        Ok(place)
    }

    /// A version as a directory that never changes; written out if it is not yet.
    async fn written_out(&self, head: &Head, version: Option<u64>) -> Result<Place, FleetError> {
        let number = version.unwrap_or(0);
        // Two sandboxes that want the same version write it out once.
        let _guard = self.0.writing_out.lock().await;
        if let Some(place) = self.places().version(&head.id, number) {
            return Ok(place);
        }
        let (fleet, id) = (self.clone(), head.id.clone());
        let made = tokio::task::spawn_blocking(move || fleet.places().fresh(&id, number));
        let made = made.await.map_err(|error| FleetError::internal(&error))?;
        let fresh = made.map_err(|error| FleetError::storage(&error))?;
        let index = self.fill(head, version, &fresh).await?;
        let (fleet, id) = (self.clone(), head.id.clone());
        let kept = tokio::task::spawn_blocking(move || {
            let places = fleet.places();
            let kept = places.keep_as_version(&fresh, &id, number, &index);
            let _ = places.remove(&fresh.name);
            places.make_room(&|name| fleet.is_mounted(name));
            kept
        });
        let kept = kept.await.map_err(|error| FleetError::internal(&error))?;
        kept.map_err(|error| FleetError::storage(&error))
    }

    async fn fill(
        &self,
        head: &Head,
        version: Option<u64>,
        place: &Place,
    ) -> Result<paddock_volumes::Index, FleetError> {
        let checkout = self.0.volumes.checkout(head, version, &place.path, None).await;
        match checkout {
            Ok(checkout) => {
                let saved = self.places().save_index(&place.name, &checkout.index);
                saved.map_err(|error| FleetError::storage(&error))?;
                Ok(checkout.index)
            }
            Err(error) => {
                self.drop_place(&place.name).await;
                Err(error.into())
            }
        }
    }

    /// True if a sandbox has this directory.
    pub(crate) fn is_mounted(&self, place: &str) -> bool {
        self.0.live.has_volume_place(place)
    }
}

fn of(
    wanted: &Wanted,
    version: Option<u64>,
    place: &Place,
    token: Option<paddock_volumes::Token>,
) -> VolumeRecord {
    VolumeRecord {
        tenant: wanted.tenant.clone(),
        name: wanted.name.clone(),
        path: wanted.target.display().to_string(),
        mode: wanted.mount.mode,
        on_failure: wanted.mount.on_failure,
        checkpoint_seconds: wanted.mount.checkpoint_seconds,
        version,
        place: place.name.clone(),
        token,
        outcome: None,
    }
}
