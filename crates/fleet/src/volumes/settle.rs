//! The changes of a sandbox become a version, or are dropped. They are noted before the attempt, so that a killed
//! server, or a store that does not answer, loses nothing.

use super::super::live::Live;
use super::super::record::Record;
use super::super::{Fleet, FleetError};
use paddock_model::api::{EndCause, MountedVolume, OnFailure};
use paddock_storage::volumes::Unsynced;
use paddock_volumes::{Committed, Kind, VolumeError, Writer};
use std::sync::Arc;

/// The result of an attempt.
pub(super) enum Settled {
    Done(Committed),
    /// Another writer was faster: the changes are kept aside.
    Aside(Committed),
}

impl Fleet {
    /// Precondition: the sandbox's processes are gone.
    pub(crate) async fn settle_volumes(&self, live: &Arc<Live>, cause: &EndCause) {
        let volumes = live.record().volumes.clone();
        for (number, volume) in volumes.iter().enumerate() {
            let Some(token) = volume.token.clone().filter(|_| volume.outcome.is_none()) else { continue };
            let kind = match (has_failed(cause), volume.on_failure) {
                (false, _) | (true, OnFailure::Commit) => Some(Kind::Commit),
                (true, OnFailure::Keep) => Some(Kind::Kept),
                (true, OnFailure::Discard) => None,
            };
            let never_ran = matches!(cause, EndCause::CreateFailed { .. });
            let outcome = match kind.filter(|_| !never_ran) {
                Some(kind) => {
                    let (place, from) = (volume.place.clone(), volume.version);
                    let unsynced = Unsynced { place, token, from, kind, refused: false };
                    self.settle(&unsynced).await
                }
                None => {
                    if let Ok(writer) = self.0.volumes.resume(token).await {
                        let _ = writer.release().await;
                    }
                    self.drop_place(&volume.place).await;
                    (volume.version, MountedVolume::DISCARDED.to_string())
                }
            };
            let mut record = live.record();
            if let Some(volume) = record.volumes.get_mut(number) {
                (volume.version, volume.outcome) = (outcome.0, Some(outcome.1));
            }
        }
    }

    /// The present version, and the result in words.
    async fn settle(&self, unsynced: &Unsynced) -> (Option<u64>, String) {
        if let Err(error) = unsynced.note(&self.0.options.state) {
            tracing::error!(volume = unsynced.token.name, %error, "what is to be stored could not be noted");
        }
        match self.store_directory(unsynced).await {
            Ok(Settled::Done(committed)) => {
                let version = committed.version.number;
                let words = match (committed.changed, unsynced.kind) {
                    (false, _) => MountedVolume::UNCHANGED.into(),
                    (true, Kind::Kept) => {
                        format!("{} {version}, for the sandbox failed", MountedVolume::KEPT_ASIDE)
                    }
                    (true, _) => format!("{} {version}", MountedVolume::COMMITTED),
                };
                (Some(version), words)
            }
            Ok(Settled::Aside(committed)) => {
                let version = committed.version.number;
                let words =
                    format!("its lease was lost to another writer: {} {version}", MountedVolume::KEPT_ASIDE);
                (Some(version), words)
            }
            Err(error) => {
                tracing::error!(volume = unsynced.token.name, %error, "a volume could not be stored");
                if !is_final(&error) {
                    return (unsynced.from, format!("not stored, it is tried again: {}", error.message));
                }
                self.keep_the_last_refused(unsynced).await;
                let words = "it is kept on this host until the next of this volume is";
                (unsynced.from, format!("not stored, {words}: {}", error.message))
            }
        }
    }

    /// Keeps only the last refused directory of a volume: else every run that writes content which no version can hold
    /// would leave a disk for good.
    async fn keep_the_last_refused(&self, last: &Unsynced) {
        let state = &self.0.options.state;
        let noted = Unsynced { refused: true, ..last.clone() };
        if let Err(error) = noted.note(state) {
            tracing::error!(volume = last.token.name, %error, "what was refused could not be noted");
            return;
        }
        for older in Unsynced::all(state) {
            let same = older.token.id == last.token.id && older.place != last.place;
            if same && older.refused && !self.is_mounted(&older.place) {
                tracing::warn!(
                    volume = last.token.name,
                    place = older.place,
                    "a newer one was refused too: this one goes"
                );
                older.forget(state);
                self.drop_place(&older.place).await;
            }
        }
    }

    /// Makes a version of a directory that no sandbox has any more, and removes the directory.
    pub(super) async fn store_directory(&self, unsynced: &Unsynced) -> Result<Settled, FleetError> {
        let place = self.places().find(&unsynced.place).map_err(|error| FleetError::storage(&error))?;
        let (mut writer, aside) = self.writer_of(unsynced).await?;
        let kind = if aside { Kind::Kept } else { unsynced.kind };
        let index = self.places().index(&unsynced.place, &unsynced.token.id);
        let limits = self.volume_limits(&unsynced.token.tenant, &unsynced.token.name).await?;
        let committed = match writer.commit(&place.path, index, limits, kind).await {
            Ok(committed) => committed,
            Err(error) => {
                let _ = writer.release().await;
                return Err(error.into());
            }
        };
        // Only an exact version: else the next sandbox would begin with files that no version has.
        if kind == Kind::Commit && committed.exact && self.places().are_limited() {
            let (fleet, id, done) = (self.clone(), unsynced.token.id.clone(), committed.clone());
            // The next sandbox begins with it at once.
            let kept = tokio::task::spawn_blocking(move || {
                fleet.places().keep_as_version(&place, &id, done.version.number, &done.index)
            });
            if let Ok(Err(error)) = kept.await {
                tracing::warn!(%error, "a version could not be kept written out");
            }
        }
        let retired = !writer.head().retired.is_empty();
        if retired && let Err(error) = self.0.volumes.collect_with(&mut writer).await {
            tracing::warn!(volume = unsynced.token.name, %error, "what is not needed could not be freed");
        }
        if let Err(error) = writer.release().await {
            tracing::warn!(volume = unsynced.token.name, %error, "its lease ends by itself");
        }
        unsynced.forget(&self.0.options.state);
        self.drop_place(&unsynced.place).await;
        Ok(if aside { Settled::Aside(committed) } else { Settled::Done(committed) })
    }

    /// The lease that the sandbox had, or another one; true if there was another writer in between.
    async fn writer_of(&self, unsynced: &Unsynced) -> Result<(Writer, bool), FleetError> {
        let token = &unsynced.token;
        match self.0.volumes.resume(token.clone()).await {
            Ok(writer) => return Ok((writer, false)),
            Err(VolumeError::LeaseLost { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let writer = self.0.volumes.acquire(&token.tenant, &token.name, &token.holder, false).await?;
        // A volume that was removed and made again is another one.
        if writer.head().id != token.id {
            let _ = writer.release().await;
            return Err(VolumeError::NotFound(token.name.clone()).into());
        }
        let aside = writer.head().current != unsynced.from;
        Ok((writer, aside))
    }

    /// Names of directories that must not be swept.
    pub(crate) fn volume_places(&self, records: &[Record]) -> Vec<String> {
        let of_records =
            records.iter().flat_map(|record| record.volumes.iter().map(|volume| volume.place.clone()));
        let unsynced = Unsynced::all(&self.0.options.state).into_iter().map(|unsynced| unsynced.place);
        of_records.chain(unsynced).collect()
    }
}

/// True if another attempt changes nothing.
pub(super) fn is_final(error: &FleetError) -> bool {
    matches!(
        error.code,
        "quota_exceeded" | "volume_content" | "volume_not_found" | "volume_damaged" | "volume_key"
    )
}

/// An end that the caller asked for, or knew of, is no failure.
fn has_failed(cause: &EndCause) -> bool {
    !matches!(cause, EndCause::Killed | EndCause::TimeToLive | EndCause::Idle)
}
