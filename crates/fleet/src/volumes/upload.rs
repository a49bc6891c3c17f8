//! A file on its way into a volume.

use super::super::{Actor, Fleet, FleetError};
use super::content::{Change, checked_mode};
use paddock_model::api::{VolumeMode, VolumeVersion};
use paddock_volumes::VolumeError;

/// The mode of a file where none is asked for.
const FILE_MODE: u32 = 0o644;

/// If this is dropped before `finish`, nothing has changed.
pub struct VolumeUpload {
    fleet: Fleet,
    actor: Actor,
    volume: String,
    path: String,
    mode: u32,
    live: bool,
    /// The most bytes that the volume may have.
    most: u64,
    file: std::fs::File,
    bytes: u64,
}

impl Fleet {
    /// `live`: through the sandbox that has the volume to write, if there is one.
    pub async fn write_volume_file(
        &self,
        actor: &Actor,
        name: &str,
        path: &str,
        mode: Option<u32>,
        live: bool,
    ) -> Result<VolumeUpload, FleetError> {
        let head = self.visible_volume(actor, name, VolumeMode::Rw).await?;
        paddock_volumes::plain_path(&head.name, path)?;
        let limits = self.volume_limits(&head.tenant, &head.name).await?;
        let file = tempfile::tempfile_in(self.0.options.state.join("volumes"));
        let file = file.map_err(|error| FleetError::storage(&error))?;
        Ok(VolumeUpload {
            fleet: self.clone(),
            actor: actor.clone(),
            volume: name.into(),
            path: path.into(),
            mode: checked_mode(mode.unwrap_or(FILE_MODE))?,
            live,
            most: limits.bytes,
            file,
            bytes: 0,
        })
    }
}

impl VolumeUpload {
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), FleetError> {
        self.bytes += bytes.len() as u64;
        if self.bytes > self.most {
            let (volume, allowed) = (self.volume.clone(), self.most);
            return Err(VolumeError::Quota { volume, what: "bytes", wanted: self.bytes, allowed }.into());
        }
        // Pieces are small, and go to a file of the host that needs no wait.
        std::io::Write::write_all(&mut self.file, bytes).map_err(|error| FleetError::storage(&error))
    }

    pub async fn finish(self) -> Result<VolumeVersion, FleetError> {
        let VolumeUpload { fleet, actor, volume, path, mode, live, mut file, .. } = self;
        std::io::Seek::rewind(&mut file).map_err(|error| FleetError::storage(&error))?;
        fleet.change_volume(&actor, &volume, &path, Change::Put { file, mode }, live).await
    }
}
